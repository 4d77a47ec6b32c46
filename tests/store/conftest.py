"""Records to put into stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palimpsest.specs.intervention import Reinitialize
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.store import DirectoryStore, Record
from palimpsest.training.outcome import Epoch, Outcome

MakeRecord = Callable[..., Record]


def _record(index: int = 0, status: Any = "finished", score: float = 0.75, **trial: Any) -> Record:
    return Record(
        Trial(
            encoder="pocket", task="sst2", size=500, interventions=(Reinitialize(layers=(2, 3)),),
            protocol=Protocol(name="mine", summary="for tests", epochs=2), seeds=Seeds.of(index),
        ).model_copy(update=trial),
        Outcome(
            status,
            metric="accuracy",
            metrics={"accuracy": score},
            epochs=(Epoch(1, 0.7, 0.6, {"accuracy": 0.5}), Epoch(2, 0.6, 0.5, {"accuracy": score})),
            curve=((1, 0.7), (2, 0.6)),
            train_examples=500,
            steps=126,
        ),
        {"engine": "reference", "seconds": 1.5},
    )  # fmt: skip


@pytest.fixture
def record() -> MakeRecord:
    return _record


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore.open(tmp_path / "store", create=True)
