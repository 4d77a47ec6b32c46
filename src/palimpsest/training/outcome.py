"""What a trial leaves behind: plain numbers, ready to be stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Epoch:
    """The validation set after one pass over the training examples."""

    epoch: int
    train_loss: float  # mean over the epoch's steps
    validation_loss: float
    metrics: dict[str, float]


@dataclass(frozen=True)
class Outcome:
    """The result of one trial. `failed` carries the reason and whatever was measured before it."""

    status: Literal["finished", "failed"]
    reason: str = ""
    metric: str = ""  # the task's first metric: the one that figures show
    metrics: dict[str, float] = field(
        default_factory=dict
    )  # on the validation set, after the last epoch (probes: their best one)
    epochs: tuple[Epoch, ...] = ()
    curve: tuple[tuple[int, float], ...] = ()  # (step, training loss), at most 200 points, each the mean of a stretch
    predictions: str = ""  # per validation example, packed: see training/predictions.py
    train_examples: int = 0
    steps: int = 0
    measures: dict[str, Any] = field(default_factory=dict)  # what a trial was asked to measure besides (drift, …)
