"""One probe's examples, some of them held out, and its account: how it has done, epoch by epoch, and when it stops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from palimpsest import streams
from palimpsest.errors import TrainingError
from palimpsest.specs.trial import Probe
from palimpsest.tasks.metrics import score
from palimpsest.training.batches import Rows
from palimpsest.training.evaluation import curve, failure
from palimpsest.training.outcome import Epoch, Outcome
from palimpsest.training.predictions import pack
from palimpsest.training.preparation import Prepared


@dataclass(frozen=True, eq=False)
class Draw:
    """The examples of a trial: what its probe is trained on, and what early stopping looks at."""

    training: Rows
    held_out: Rows

    @classmethod
    def of(cls, prepared: Prepared) -> Draw:
        """At least one example is held out, and at least one is not."""
        probe, examples = prepared.trial.probe, prepared.examples
        if probe is None or len(examples) < 2:
            raise TrainingError(
                f"{prepared.task.name}: a probe needs at least two examples, one of them to be held out"
            )
        held = min(max(round(probe.held_out * len(examples)), 1), len(examples) - 1)
        order = streams.permutation(len(examples), "held out", prepared.trial.seeds.subsample)
        return cls(examples[order[held:]], examples[order[:held]])


@dataclass(eq=False)
class Account:
    """One probe: what it is trained on and how it has done so far."""

    prepared: Prepared
    probe: Probe
    draw: Draw
    per_epoch: int  # steps
    losses: list[npt.NDArray[np.float32]] = field(default_factory=list)  # of each step, epoch by epoch
    epochs: list[Epoch] = field(default_factory=list)
    best_loss: float = float("inf")
    best_epoch: int = 0
    predictions: npt.NDArray[Any] | None = None  # after the best epoch
    outcome: Outcome | None = None

    def note(
        self, losses: npt.NDArray[np.float32], held_out: float, validation: float, predictions: npt.NDArray[Any]
    ) -> None:
        """Enter an epoch; the account has an outcome when it was the last."""
        done = self.per_epoch * len(self.losses)
        self.losses.append(losses)
        number = len(self.losses)
        bad = np.flatnonzero(~np.isfinite(losses))
        if len(bad):
            self._fail(f"the training loss became {losses[bad[0]]} at step {done + bad[0] + 1}", done + int(bad[0]))
        elif not np.isfinite(held_out):
            self._fail(f"the held-out loss became {held_out} in epoch {number}", done + len(losses))
        elif not np.isfinite(validation):
            self._fail(f"the validation loss became {validation} in epoch {number}", done + len(losses))
        else:
            self.epochs.append(Epoch(number, float(losses.mean()), validation, score(self.prepared.task, predictions)))
            if held_out < self.best_loss:
                self.best_loss, self.best_epoch, self.predictions = held_out, number, predictions
            if number == self.probe.epochs or number - self.best_epoch >= self.probe.patience:
                self._finish()

    def _fail(self, reason: str, steps: int) -> None:
        losses = np.concatenate(self.losses).astype(np.float64)
        self.outcome = failure(reason, self.prepared.task.metrics[0], losses[:steps])

    def _finish(self) -> None:
        losses = np.concatenate(self.losses).astype(np.float64)
        self.outcome = Outcome(
            status="finished",
            metric=self.prepared.task.metrics[0],
            metrics=self.epochs[self.best_epoch - 1].metrics,
            epochs=tuple(self.epochs),
            curve=curve(losses),
            predictions=pack(self.predictions if self.predictions is not None else []),
            train_examples=len(self.draw.training) + len(self.draw.held_out),
            steps=len(losses),
            measures={
                "best_epoch": self.best_epoch,
                "held_out_loss": self.best_loss,
                "held_out_examples": len(self.draw.held_out),
            },
        )
