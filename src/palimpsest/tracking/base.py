"""What a tracker is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from palimpsest.specs.size import size_label
from palimpsest.specs.trial import Trial
from palimpsest.training.outcome import Outcome

if TYPE_CHECKING:
    from palimpsest.execution.worker import Event


class Tracker(ABC):
    """Takes ended trials, each as a run of its own with its spec as configuration."""

    @abstractmethod
    def log(self, trial: Trial, outcome: Outcome) -> None:
        """Write one trial, finished or failed."""

    def close(self) -> None:
        """Write what is still held back."""
        return

    def show(self, event: Event) -> None:
        """Take in what a run reports; only ended trials matter."""
        if event.kind == "trial" and event.trial is not None and event.outcome is not None:
            self.log(event.trial, event.outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def name_of(trial: Trial) -> str:
    """A run's name: readable, and unlike any other's."""
    task = "".join(c if c.isalnum() or c in "-_." else "-" for c in trial.task)
    return f"{task}-{size_label(trial.size).replace('%', 'pc')}-{trial.identity[:12]}"


def config_of(trial: Trial) -> dict[str, Any]:
    """A trial's spec, flat, with everything that it leaves at its default."""
    return {"id": trial.identity, **dict(_flat(trial.model_dump(mode="json")))}


def _flat(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value) if isinstance(value, list) else value


def scalars_of(outcome: Outcome) -> Iterator[tuple[str, int, float]]:
    """(name, step, value): the training curve by step, then losses and metrics at the ends of epochs.

    Epochs are placed at the step at which they ended, so that everything shares one axis. What is not a number is left
    out: not every tracker takes it.
    """
    for step, loss in outcome.curve:
        if math.isfinite(loss):
            yield "train/loss", step, loss
    per_epoch = outcome.steps / outcome.epochs[-1].epoch if outcome.epochs else 0
    for epoch in outcome.epochs:
        step = round(epoch.epoch * per_epoch)
        values = {"train/epoch_loss": epoch.train_loss, "validation/loss": epoch.validation_loss}
        values |= {f"validation/{name}": value for name, value in epoch.metrics.items()}
        yield from ((name, step, value) for name, value in values.items() if math.isfinite(value))


def final_of(outcome: Outcome) -> dict[str, float]:
    """The metrics that figures show."""
    return {f"final/{name}": value for name, value in outcome.metrics.items() if math.isfinite(value)}
