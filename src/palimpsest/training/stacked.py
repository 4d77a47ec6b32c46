"""The stacked engine: T trials of one architecture trained in one program (training/stack.py), and judged.

On a CPU it steps in fp32 (training/stepper.py). On a GPU the working weights are bf16 copies of fp32 masters, and a
whole step (gather, forward, backward, Adam) is one CUDA graph per padded length (training/graphs.py): nothing is copied
or waited for in between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.training.data import Data
from palimpsest.training.evaluation import (
    Evaluation,
    OnLosses,
    curve,
    epochs_of,
    evaluate,
    failure,
    ruined,
)
from palimpsest.training.graphs import GraphStepper, fitting_trials, roomy_stack
from palimpsest.training.kernels import good_kernels
from palimpsest.training.measures import conclude
from palimpsest.training.outcome import Outcome
from palimpsest.training.preparation import Prepared
from palimpsest.training.stack import Stack, assemble
from palimpsest.training.stepper import HostStepper, Stepper


@good_kernels
def train(
    trials: Sequence[Prepared],
    data: Data,
    device: torch.device | str = "cpu",
    on_step: Callable[[int, int], None] | None = None,
    on_finish: Callable[[Prepared, Outcome], None] | None = None,
    ahead: int = 0,
    on_losses: OnLosses | None = None,
    places: int = 0,
    took: dict[str, float] | None = None,
) -> list[Outcome]:
    """Finetune a pack of trials. `on_step(step, running)` after each step; `on_finish` as each trial ends.

    `ahead` is how many trial-steps of the same shape will follow in later packs: it decides whether compiling pays. On
    a GPU a pack that is the rest of larger ones may run their programs: in as many `places`, some of them idle. `took`
    is kept up to date on what the time went into, in seconds.
    """
    device, phases = torch.device(device), _Phases({} if took is None else took)
    if device.type == "cuda":
        stack = roomy_stack(trials, data, device, ahead, places)
        stepper: Stepper = GraphStepper(stack, ahead=ahead)
    else:
        stack = Stack(assemble(trials, data), device)
        stepper = HostStepper(stack)
    pack = stack.pack
    ledger = _Ledger(stack, on_finish)
    phases.end("setting up")

    def predict() -> torch.Tensor:
        phases.end("stepping")
        logits = stack.predict(stepper.working())
        phases.end("evaluating")
        return logits

    for step in range(pack.steps):
        phases.note("making programs", stepper.prepare(step))
        stepper.advance(step)
        if on_step:
            on_step(step + 1, ledger.running(step))
        if on_losses:
            on_losses(step + 1, stepper.losses)
        if step + 1 in pack.boundaries:
            ledger.note(step + 1, stepper.losses(), predict)
            if ledger.complete:
                break
    return ledger.outcomes()


class _Phases:
    """What time goes into. Steps are queued on a GPU: they take until the losses are there."""

    def __init__(self, took: dict[str, float]) -> None:
        self._took, self._since = took, time.perf_counter()
        took.clear()

    def end(self, what: str) -> None:
        """The time since the last end went into this."""
        self.note(what, time.perf_counter() - self._since)

    def note(self, what: str, seconds: float) -> None:
        """So many of the seconds since the last end went into this, and not into what ends next."""
        self._took[what] = self._took.get(what, 0.0) + seconds
        self._since += seconds


class _Ledger:
    """Collects what each trial of a pack is worth, and closes its account when it ends."""

    def __init__(self, stack: Stack, on_finish: Callable[[Prepared, Outcome], None] | None) -> None:
        self._stack, self._pack, self._on_finish = stack, stack.pack, on_finish
        self._evaluations: list[list[Evaluation]] = [[] for _ in stack.pack.trials]
        self._outcomes: dict[int, Outcome] = {}

    @property
    def complete(self) -> bool:
        return len(self._outcomes) == len(self._pack.trials)

    def running(self, step: int) -> int:
        """How many trials the step with this number, counted from 0, was one of."""
        return sum(length > step and t not in self._outcomes for t, length in enumerate(self._pack.lengths))

    def note(self, step: int, losses: npt.NDArray[np.float64], predict: Callable[[], torch.Tensor]) -> None:
        """After `step` steps: evaluate the trials that are due."""
        due = []
        for t, prepared in enumerate(self._pack.trials):
            length = self._pack.lengths[t]
            if t in self._outcomes or step > length or step % prepared.evaluated_every(length):
                continue
            bad = np.flatnonzero(~np.isfinite(losses[t, :step]))
            if len(bad):
                reason = f"the training loss{self._on(t, bad[0])} became {losses[t, bad[0]]} at step {bad[0] + 1}"
                self._close(t, failure(reason, prepared.task.metrics[0], self._pack.own(t, losses[t, : bad[0]])))
            else:
                due.append(t)
        if not due:
            return
        logits = predict()
        for t in due:
            prepared, own = self._pack.trials[t], self._pack.own(t, losses[t, :step])
            found = evaluate(prepared.task, self._pack.data.validation, logits[t], prepared.protocol)
            self._evaluations[t].append(found)
            if not math.isfinite(found.loss):
                self._close(t, failure(ruined(found.loss, step), prepared.task.metrics[0], own))
            elif step == self._pack.lengths[t] or prepared.converged(own, len(self._evaluations[t])):
                self._close(t, self._finished(t, own, step))

    def _on(self, t: int, step: int) -> str:
        """Which task a step is of, in words, where there are several."""
        pack = self._pack
        return "" if pack.tasks is None else f" on {(pack.data, *pack.data.beside)[pack.tasks[t, step]].task.name}"

    def _finished(self, t: int, losses: npt.NDArray[np.float64], steps: int) -> Outcome:
        prepared, last = self._pack.trials[t], self._evaluations[t][-1]
        return Outcome(
            status="finished",
            metric=prepared.task.metrics[0],
            metrics=last.metrics,
            epochs=epochs_of(losses, self._evaluations[t], prepared.epochs_after(len(self._evaluations[t]))),
            curve=curve(losses),
            predictions=last.predictions,
            train_examples=len(prepared.examples),
            steps=steps,
            measures=conclude(prepared, self._pack.data, lambda: self._stack.learnt(t), self._stack.device),
        )

    def _close(self, t: int, outcome: Outcome) -> None:
        self._outcomes[t] = outcome
        if self._on_finish:
            self._on_finish(self._pack.trials[t], outcome)

    def outcomes(self) -> list[Outcome]:
        return [self._outcomes[t] for t in range(len(self._pack.trials))]


def fitting(trials: Sequence[Prepared], data: Data, device: torch.device | str) -> int:
    """How many of these trials fit into the device's free memory at once, by measuring one of them."""
    if torch.device(device).type != "cuda":
        return len(trials)
    return fitting_trials(trials, data, torch.device(device))
