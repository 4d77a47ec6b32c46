"""Steps of linear probes that are trained together, each with its own rate and step count."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from palimpsest.training.network import Kind
from palimpsest.training.preparation import Prepared

_BLOCK = 32  # steps in a CUDA graph


class Recipe(NamedTuple):
    """What probes must have in common to be stacked."""

    batch: int
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    dropout: float

    @classmethod
    def of(cls, prepared: Prepared) -> Recipe:
        p = prepared.protocol
        return cls(p.batch_size, p.beta1, p.beta2, p.epsilon, p.weight_decay, p.head_dropout)


class ProbeSteps:
    """The weights and moments of probes, and how they move, step by step.

    A step is a dozen tiny kernels, which take less time than starting them: on a GPU a block of steps is a CUDA graph.
    """

    def __init__(
        self, recipe: Recipe, kind: Kind, weights: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> None:
        self.recipe, self.kind = recipe, kind
        self.weights, self.first, self.second = weights, first, second
        self.clip: torch.Tensor | None = None
        self._gradient, self._update = torch.empty_like(weights), torch.empty_like(weights)
        self._block: tuple[torch.Tensor, ...] = ()  # what the graph reads
        self._found: torch.Tensor | None = None  # and what it writes
        self._graph: torch.cuda.CUDAGraph | None = None

    def advance(self, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """As many steps as are given: features, goals, shares, rates, sizes and roots [S, P, …]. Losses [S, P]."""
        steps = len(given[0])
        if self.weights.device.type != "cuda" or steps < _BLOCK:
            return self._plainly(given)
        losses = [self._captured(tuple(t[n : n + _BLOCK] for t in given)) for n in range(0, steps - _BLOCK + 1, _BLOCK)]
        if steps % _BLOCK:
            losses.append(self._plainly(tuple(t[steps - steps % _BLOCK :] for t in given)))
        return torch.cat(losses)

    def _plainly(self, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return torch.stack([self._step(*(t[n] for t in given)) for n in range(len(given[0]))])

    def _captured(self, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
        if self._graph is None:
            state = [t.clone() for t in (self.weights, self.first, self.second)]
            self._block = tuple(t.clone() for t in given)
            stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._step(*(t[0] for t in self._block))  # warms up
            torch.cuda.current_stream().wait_stream(stream)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._found = self._plainly(self._block)
            for t, before in zip((self.weights, self.first, self.second), state, strict=True):
                t.copy_(before)
        for place, t in zip(self._block, given, strict=True):
            place.copy_(t)
        self._graph.replay()
        assert self._found is not None
        return self._found.clone()

    def _step(
        self,
        x: torch.Tensor,
        goals: torch.Tensor,
        share: torch.Tensor,
        rate: torch.Tensor,
        size: torch.Tensor,
        root: torch.Tensor,
    ) -> torch.Tensor:
        r, weights, gradient, update = self.recipe, self.weights, self._gradient, self._update
        losses, slope = losses_and_slopes(torch.bmm(x, weights.mT), goals, self.kind)
        torch.bmm((slope * share).mT, x, out=gradient)
        if self.clip is not None:
            norm = gradient.square().sum((1, 2), keepdim=True).sqrt()
            gradient.mul_((self.clip / (norm + 1e-6)).clamp(max=1.0))
        # Adam as torch.optim has it, with a step count and a rate for every probe.
        self.first.lerp_(gradient, 1 - r.beta1)
        self.second.mul_(r.beta2).addcmul_(gradient, gradient, value=1 - r.beta2)
        if r.decay:
            weights.mul_(1 - rate * r.decay)
        torch.sqrt(self.second, out=update).div_(root).add_(r.epsilon)
        weights.sub_(torch.div(self.first, update, out=update).mul_(size))
        return (losses * share[..., 0]).sum(1)


def losses_and_slopes(logits: torch.Tensor, goals: torch.Tensor, kind: Kind) -> tuple[torch.Tensor, torch.Tensor]:
    """Of every example, its loss […] and the loss's derivative by the logits […, outputs]."""
    if kind == "regression":
        error = logits - goals
        return error[..., 0].square(), 2 * error
    log_p = F.log_softmax(logits, -1)
    return -(log_p * goals).sum(-1), log_p.exp() - goals
