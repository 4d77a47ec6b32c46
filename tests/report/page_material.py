"""Studies that never ran, for the page: made-up records in a real store."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.execution.plan import Plan, Resources
from palimpsest.report.page import gather, payload, study_pages
from palimpsest.specs.expansion import Cell, EncoderIdentity, TaskIdentity, expand
from palimpsest.specs.study import Study
from palimpsest.store import Record, Store, open_store
from palimpsest.training.outcome import Epoch, Outcome

SMALL: dict[str, Any] = {
    "name": "small",
    "title": "A small study",
    "description": "Made up for the page.",
    "tasks": ["sst2", "cola"],
    "experiments": [
        {"kind": "incremental", "sizes": [500, 5000], "trials": 3},
        {"kind": "localized", "sizes": [500], "trials": 2, "block_size": 3},
        {"kind": "probing", "sizes": [500], "trials": 2},
        {"kind": "permutation", "sizes": [500], "permutations": 5},
        {"kind": "heads", "sizes": [500], "trials": 2, "layers": [1, 12]},
    ],
}


def make_plan(data: dict[str, Any], depth: int = 12) -> Plan:
    """A plan without encoders and data: nothing of it can be run, all of it can be shown."""
    study = Study.parse(data, "test")
    tasks = {name: TaskIdentity(name, None, 100_000) for name in study.task_names}
    cells = expand(study, EncoderIdentity("pocket", None, depth, 4), tasks)
    rows: dict[tuple[str, str | None], int] = {(name, None): 100_000 for name in study.task_names}
    return Plan((study,), cells, Resources({}, {}), rows, {}, depths={study.encoder: depth})


def made_up(cell: Cell, depth: int = 12) -> Record:
    """More pretrained layers and more examples help."""
    noise = np.random.default_rng(int(cell.trial.identity[:8], 16))
    touched = {n for i in cell.trial.interventions for n in getattr(i, "layers", ())}
    kept = 1 - len(touched) / depth
    size = {"500": 0.3, "5k": 0.6, "50k": 0.8}.get(cell.at["size"], 0.9)
    score = 0.5 + 0.42 * size * (0.3 + 0.7 * kept**0.7)
    if cell.at["kind"] == "permutation":
        score = 0.55
    if cell.at["kind"] == "probing":
        score = 0.5 + 0.4 / (1 + math.exp(depth * 0.5 - cell.at["layer"]))
    value = float(score + noise.normal(0, 0.03 * (1.2 - size)))
    cola = cell.trial.task == "cola"
    metrics = {"mcc": 2 * value - 1, "accuracy": value} if cola else {"accuracy": value}
    metric = "mcc" if cola else "accuracy"
    epochs = tuple(Epoch(e, 0.7 / e, 0.7 / (e + kept), {metric: metrics[metric] * (1 - 0.3 / e)}) for e in (1, 2, 3))
    outcome = Outcome("finished", metric=metric, metrics=metrics, epochs=epochs, train_examples=500, steps=189)
    return Record(cell.trial, outcome, {
        "palimpsest": "0.1.0", "versions": {"torch": "2.13.0"}, "device": "a test", "precision": "fp32",
        "engine": "stacked", "seconds": 12.5, "parameters": 4_000_000, "ended": "2026-01-02T03:04:05+00:00",
    })  # fmt: skip


def failed(cell: Cell, reason: str) -> Record:
    return Record(cell.trial, Outcome("failed", reason, "accuracy", steps=7), {"seconds": 1.0})


@dataclass
class Made:
    """A store with some of a study's trials."""

    plan: Plan
    store: Store
    place: Path
    missing: list[Cell] = field(default_factory=list)

    def payload(self) -> dict[str, Any]:
        return payload(study_pages(self.plan, gather(self.plan, self.store)), str(self.place), "palimpsest run it")


def make(folder: Path, data: dict[str, Any] = SMALL, leave: int = 0, fail: int = 0, reason: str = "diverged") -> Made:
    """A store in which the last `leave` trials of a study are missing, and the `fail` before them failed."""
    plan = make_plan(data)
    store = open_store(folder / "store", create=True)
    cells = list({cell.trial.identity: cell for cell in plan.cells}.values())
    ended = cells[: len(cells) - leave]
    for number, cell in enumerate(ended):
        record = failed(cell, reason) if number >= len(ended) - fail else made_up(cell)
        path = Path(store.place(record.id))
        path.parent.mkdir(exist_ok=True)
        path.write_text(record.to_json(), encoding="utf-8")  # not put(), which waits for the disk each time
    return Made(plan, store, folder / "store", cells[len(ended) :])
