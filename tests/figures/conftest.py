"""Tidy tables of studies that never ran: made-up scores with the shape that real ones have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from palimpsest.analysis.table import epochs_table, table
from palimpsest.specs.expansion import Cell, EncoderIdentity, TaskIdentity, expand
from palimpsest.specs.study import Study
from palimpsest.store import Record, Store
from palimpsest.training.outcome import Epoch, Outcome


class Memory(Store):
    """A store that keeps its records in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Record] = {}

    def ids(self) -> set[str]:
        return set(self.held)

    def put(self, record: Record) -> None:
        self.held[record.id] = record

    def place(self, id: str) -> str:
        return f"memory:{id}"

    def _read(self, id: str) -> bytes:
        return self.held[id].to_json().encode()


def _outcome(cell: Cell, depth: int) -> Outcome:
    """More pretrained layers help, and more examples help; permutations are bad; probing is in between."""
    at = cell.at
    noise = np.random.default_rng(int(cell.trial.identity[:8], 16))
    touched = {n for i in cell.trial.interventions for n in getattr(i, "layers", ())}
    kept = sum(1 for n in range(1, depth + 1) if n not in touched) / max(depth, 1)
    size = {"500": 0.3, "5k": 0.6, "50k": 0.8}.get(at["size"], 0.9)
    score = 0.5 + 0.42 * size * (0.3 + 0.7 * kept**0.7)
    if at["kind"] == "permutation":
        score = 0.55 + 0.1 * noise.random() + 0.02 * at["permutation"] % 0.1
    if at["kind"] == "probing":
        score = 0.5 + 0.4 / (1 + math.exp(depth * 0.5 - at["layer"]))
    metric = "mcc" if cell.trial.task == "cola" else "accuracy"
    value = float(score + noise.normal(0, 0.03 * (1.2 - size)))
    value = 2 * value - 1 if metric == "mcc" else value
    last = cell.trial.protocol.epochs
    seen = range(1 if cell.trial.protocol.evaluate == "epoch" else last, last + 1)
    epochs = tuple(Epoch(e, 0.7 / e, 0.7 / (e + kept) + 0.02 * e, {metric: value * (1 - 0.3 / e)}) for e in seen)
    return Outcome("finished", metric=metric, metrics={metric: value}, epochs=epochs, train_examples=500, steps=100)


class Tables:
    """The tables of a study as if it had been run; `keep` says which cells were, by default all."""

    def __init__(self, data: dict[str, Any], depth: int = 12, keep: Callable[[Cell], bool] = lambda _: True) -> None:
        self.study = Study.parse({"name": "made-up", **data}, "test")
        tasks = {name: TaskIdentity(name, None, 100_000) for name in self.study.task_names}
        self.cells = expand(self.study, EncoderIdentity("pocket", None, depth, 4), tasks)
        self.store = Memory()
        for cell in self.cells:
            if keep(cell):
                self.store.put(Record(cell.trial, _outcome(cell, depth), {"seconds": 1.0}))

    @property
    def table(self) -> pd.DataFrame:
        return table(self.cells, self.store)

    @property
    def epochs(self) -> pd.DataFrame:
        return epochs_table(self.cells, self.store)


MakeTables = Callable[..., Tables]


@pytest.fixture
def tables() -> MakeTables:
    return Tables
