"""What a task is: two splits of examples, a kind of target, and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from palimpsest.specs.expansion import TaskIdentity

__all__ = ["Answers", "Split", "Task", "TaskIdentity"]

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Answers:
    """The acceptable answers to one question: texts and where each starts in the context. No texts: unanswerable."""

    texts: tuple[str, ...]
    starts: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """Examples, column by column. `second` is None for tasks on single sentences."""

    first: Sequence[str]
    second: Sequence[str] | None
    targets: npt.NDArray[np.int64] | npt.NDArray[np.float64] | Sequence[Answers]

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, eq=False)
class Task:
    """A data set to learn. Splits are read when first looked at."""

    name: str
    kind: Literal["classification", "regression", "spans"]
    labels: tuple[str, ...]  # class names in the order of their numbers; empty unless kind is classification
    metrics: tuple[str, ...]  # the first is the one that figures show
    load: Callable[[], tuple[Split, Split]]  # reads train and validation
    data: str | None = None  # see Trial.data
    source: str = ""  # for people: where the examples come from

    @cached_property
    def _splits(self) -> tuple[Split, Split]:
        return self.load()

    @property
    def train(self) -> Split:
        return self._splits[0]

    @property
    def validation(self) -> Split:
        return self._splits[1]
