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


def device_update(protocol: TrainingProtocol) -> Callable[..., None]:
    """One Adam step of one weight of all trials on a GPU; compiled, it is a single kernel per shape of weight.

    ``update(weight, first, second, work, gradient, active, rate, scale, count)`` with the fp32 weight and moments and
    the bf16 working copy, all [T, …]; which trials are active [T] (the others stay as they are, whatever their
    gradient), the rate [T] at this step, the clipping factor [T], and the step's number, from 1, as a tensor.
    """
    beta1, beta2, epsilon, decay = protocol.beta1, protocol.beta2, protocol.epsilon, protocol.weight_decay

    def update(
        weight: torch.Tensor, first: torch.Tensor, second: torch.Tensor, work: torch.Tensor, gradient: torch.Tensor,
        active: torch.Tensor, rate: torch.Tensor, scale: torch.Tensor, count: torch.Tensor,
    ) -> None:  # fmt: skip
        along = (-1, *[1] * (weight.dim() - 1))
        on, lr = active.view(along), rate.view(along)
        g = gradient.float() * scale.view(along)
        m = first + (g - first) * (1 - beta1)
        v = second * beta2 + g * g * (1 - beta2)
        moved = weight * (1 - lr * decay) if decay else weight
        denominator = v.sqrt() / (1 - beta2**count).sqrt() + epsilon
        moved = torch.where(on, moved - lr / (1 - beta1**count) * (m / denominator), weight)
        weight.copy_(moved)
        first.copy_(torch.where(on, m, first))
        second.copy_(torch.where(on, v, second))
        work.copy_(moved)

    return update
