"""Adam and AdamW over the weights of stacked trials, as torch.optim computes them, one pass over memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.specs.protocol import Protocol


class HostAdam:
    """On a CPU: torch's own fused optimiser for each trial, on its part of all weights."""

    def __init__(
        self,
        weights: Mapping[str, torch.Tensor],  # [T, …] each
        layers: Mapping[str, int],  # of these weights
        protocol: Protocol,
        rates: npt.NDArray[np.float64],
        layer_rates: Sequence[dict[int, float]],
        clips: Sequence[float | None],
        lengths: Sequence[int],
    ) -> None:
        self._rates, self._clips, self._lengths = rates, clips, lengths
        make: Any = torch.optim.Adam if protocol.optimizer == "adam" else torch.optim.AdamW
        self._parts: list[dict[str, torch.nn.Parameter]] = []
        self._optimizers: list[torch.optim.Optimizer] = []
        for t in range(len(lengths)):
            parts = {name: torch.nn.Parameter(weight[t]) for name, weight in weights.items()}
            groups: dict[float, list[torch.nn.Parameter]] = {}
            for name, part in parts.items():
                groups.setdefault(layer_rates[t].get(layers[name], 1.0), []).append(part)
            self._parts.append(parts)
            self._optimizers.append(
                make([{"params": own, "factor": factor} for factor, own in groups.items()],
                     betas=(protocol.beta1, protocol.beta2), eps=protocol.epsilon,
                     weight_decay=protocol.weight_decay, fused=True)
            )  # fmt: skip

    def step(
        self, number: int, gradients: Mapping[str, torch.Tensor], resting: Callable[[int, int], Sequence[str]]
    ) -> None:
        """Move the weights of all trials that have a step with this number, counted from 0.

        But not those that `resting(t, number)` names: for them it is as if there were no such step.
        """
        for t, (parts, optimizer) in enumerate(zip(self._parts, self._optimizers, strict=True)):
            if number >= self._lengths[t]:
                continue
            for name, part in parts.items():
                part.grad = gradients[name][t].contiguous()
            for name in resting(t, number):
                parts[name].grad = None
            clip = self._clips[t]
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(parts.values(), clip)
            for group in optimizer.param_groups:
                group["lr"] = self._rates[t, number] * group["factor"]
            optimizer.step()


def corrections(protocol: Protocol, count: torch.Tensor) -> torch.Tensor:
    """Factors [2, n] on the gradient's mean and on the root of its square's, which both start at 0; `count` [n] is from
    1 on, one for all trials or one for each.

    Once for a step: a power for every weight would take longer than all else that Adam does.
    """
    count = count.double()
    return torch.stack([1 / (1 - protocol.beta1**count), (1 - protocol.beta2**count).rsqrt()]).float()


def device_update(protocol: Protocol) -> Callable[..., None]:
    """One Adam step of one weight of all trials on a GPU; compiled, it is a single kernel per shape of weight.

    ``update(weight, first, second, work, gradient, active, rate, scale, correction)`` with the fp32 weight and moments
    and the bf16 working copy, all [T, …]; which trials are active [T] (the others stay as they are, whatever their
    gradient), the rate [T] at this step, the clipping factor [T], and what the moments are multiplied with [2, 1 or T].
    """
    beta1, beta2, epsilon, decay = protocol.beta1, protocol.beta2, protocol.epsilon, protocol.weight_decay

    def update(
        weight: torch.Tensor, first: torch.Tensor, second: torch.Tensor, work: torch.Tensor, gradient: torch.Tensor,
        active: torch.Tensor, rate: torch.Tensor, scale: torch.Tensor, correction: torch.Tensor,
    ) -> None:  # fmt: skip
        along = (-1, *[1] * (weight.dim() - 1))
        on, lr = active.view(along), rate.view(along)
        mean, root = (factor.view(along) for factor in correction)
        g = gradient.float() * scale.view(along)
        m = first + (g - first) * (1 - beta1)
        v = second * beta2 + g * g * (1 - beta2)
        moved = weight * (1 - lr * decay) if decay else weight
        denominator = v.sqrt() * root + epsilon
        moved = torch.where(on, moved - lr * mean * (m / denominator), weight)
        weight.copy_(moved)
        first.copy_(torch.where(on, m, first))
        second.copy_(torch.where(on, v, second))
        work.copy_(moved)

    return update
