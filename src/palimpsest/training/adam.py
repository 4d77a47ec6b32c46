"""Adam and AdamW over the flat weights of stacked trials, as torch.optim computes them, one pass over memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.specs.protocol import Protocol as TrainingProtocol
from palimpsest.training.layout import Layout


class StackedAdam(Protocol):
    """Moves the weights of all trials by one step, along `gradients` [T, width]."""

    gradients: torch.Tensor

    def step(self, number: int) -> None: ...


class HostAdam:
    """On a CPU: torch's own fused optimiser on every trial's row; layers with a rate of their own are groups."""

    def __init__(
        self,
        weights: torch.Tensor,
        layout: Layout,
        protocol: TrainingProtocol,
        rates: npt.NDArray[np.float64],
        layer_rates: Sequence[dict[int, float]],
        clips: Sequence[float | None],
        lengths: Sequence[int],
    ) -> None:
        self.gradients = torch.zeros_like(weights)
        self._rates, self._clips, self._lengths = rates, clips, lengths
        make: Any = torch.optim.Adam if protocol.optimizer == "adam" else torch.optim.AdamW
        self._optimizers: list[torch.optim.Optimizer] = []
        for t in range(len(weights)):
            groups = []
            for factor, begin, end in _stretches(layout, layer_rates[t]):
                part = torch.nn.Parameter(weights[t, begin:end])
                part.grad = self.gradients[t, begin:end]
                groups.append({"params": [part], "factor": factor})
            self._optimizers.append(
                make(groups, betas=(protocol.beta1, protocol.beta2), eps=protocol.epsilon,
                     weight_decay=protocol.weight_decay, fused=True)
            )  # fmt: skip

    def step(self, number: int) -> None:
        for t, optimizer in enumerate(self._optimizers):
            if number >= self._lengths[t]:
                continue
            clip = self._clips[t]
            if clip is not None:
                norm = self.gradients[t].norm()
                self.gradients[t].mul_((clip / (norm + 1e-6)).clamp(max=1.0))
            for group in optimizer.param_groups:
                group["lr"] = self._rates[t, number] * group["factor"]
            optimizer.step()


def _stretches(layout: Layout, rates: dict[int, float]) -> list[tuple[float, int, int]]:
    """(factor, begin, end), neighbours with the same factor joined."""
    joined: list[tuple[float, int, int]] = []
    for layer, begin, end in layout.stretches():
        factor = rates.get(layer, 1.0)
        if joined and joined[-1][0] == factor:
            joined[-1] = (factor, joined[-1][1], end)
        else:
            joined.append((factor, begin, end))
    return joined


def device_update(protocol: TrainingProtocol, per_layer: bool, clipped: bool) -> Callable[..., None]:
    """One Adam step for a GPU, written as arithmetic on whole buffers; compiled, it is a single kernel.

    ``update(weights, first, second, work, gradients, rate, count, factors, layers, clip)`` with the fp32 weights and
    moments and the bf16 working copy [T, width], rate [T] at this step (0 for trials that have ended), the step's
    number (from 1) as a tensor, per-layer factors [T, layers], the layer of every column, and clip [T].
    """
    beta1, beta2, epsilon, decay = protocol.beta1, protocol.beta2, protocol.epsilon, protocol.weight_decay

    def update(
        weights: torch.Tensor, first: torch.Tensor, second: torch.Tensor, work: torch.Tensor, gradients: torch.Tensor,
        rate: torch.Tensor, count: torch.Tensor, factors: torch.Tensor, layers: torch.Tensor, clip: torch.Tensor,
    ) -> None:  # fmt: skip
        g = gradients.float()
        if clipped:
            norm = (g * g).sum(1, keepdim=True).sqrt()
            g = g * (clip[:, None] / (norm + 1e-6)).clamp(max=1.0)
        lr = rate[:, None]
        if per_layer:
            lr = lr * factors[:, layers]
        m = first + (g - first) * (1 - beta1)
        v = second * beta2 + g * g * (1 - beta2)
        moved = weights * (1 - lr * decay) if decay else weights
        denominator = v.sqrt() / (1 - beta2**count).sqrt() + epsilon
        # A trial that has ended has rate 0; a gradient that is not a number must not touch it through 0 · NaN.
        moved = torch.where(lr > 0, moved - lr / (1 - beta1**count) * (m / denominator), weights)
        weights.copy_(moved)
        first.copy_(m)
        second.copy_(v)
        work.copy_(moved)

    return update
