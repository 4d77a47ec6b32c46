"""How a step of stacked trials is computed: here on a CPU; on a GPU, see training/graphs.py."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.training.adam import HostAdam
from palimpsest.training.sharing import arrange, share
from palimpsest.training.stack import Stack, gradients


class Stepper:
    """How one step is computed on a kind of device."""

    def prepare(self, step: int) -> float:  # noqa: ARG002 - of use to those that make programs
        """Make the program that a step needs, if it is not there yet; returns the seconds that this took."""
        return 0.0

    def advance(self, step: int) -> None:
        raise NotImplementedError

    def losses(self) -> npt.NDArray[np.float64]:
        """Training losses so far, [T, steps]."""
        raise NotImplementedError

    def working(self) -> dict[str, torch.Tensor]:
        """The weights that the network computes with, [T, …] each."""
        raise NotImplementedError


class HostStepper(Stepper):
    """On a CPU: fp32, step by step."""

    def __init__(self, stack: Stack) -> None:
        pack = stack.pack
        self.stack = stack
        stack.load()
        self._weights = {name: weight.detach().requires_grad_() for name, weight in stack.weights.items()}
        self._optimizer = HostAdam(
            stack.weights, stack.layers, pack.trials[0].protocol, pack.rates,
            [p.layer_rates() for p in pack.trials], [p.protocol.clip for p in pack.trials], pack.lengths,
        )  # fmt: skip
        self._losses = np.full((len(pack.trials), pack.steps), np.nan)

    def advance(self, step: int) -> None:
        stack, pack = self.stack, self.stack.pack
        stack.network.train()
        rows = pack.rows[:, step]
        length = stack.training.length(rows, stack.limit)
        tasks = None if pack.tasks is None else torch.as_tensor(pack.tasks[:, step])
        batch = stack.batch(torch.as_tensor(rows), tasks, length)
        if stack.shares:
            starts, lines = arrange(stack.lengths[:, step], length)
            batch = share(batch, torch.as_tensor(starts), int(lines.max()), length)
        found, losses = gradients(stack.network, self._weights, batch, torch.as_tensor(pack.keys[:, step]))
        self._losses[:, step] = losses.numpy()
        self._optimizer.step(step, found, stack.resting)

    def losses(self) -> npt.NDArray[np.float64]:
        return self._losses

    def working(self) -> dict[str, torch.Tensor]:
        return self._weights
