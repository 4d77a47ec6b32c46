"""Tidy tables of a small study whose store is complete, partial or damaged."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from palimpsest.analysis.table import COORDINATES, curves_table, epochs_table, everything, missing, table
from palimpsest.errors import StoreError, UnknownName
from palimpsest.specs.expansion import Cell, EncoderIdentity, TaskIdentity, expand
from palimpsest.specs.study import Study
from palimpsest.store import Record, Store, open_store
from palimpsest.store.export import export
from palimpsest.training.outcome import Epoch, Outcome

STUDY = {
    "name": "little",
    "tasks": ["sst2", "cola"],
    "experiments": [
        {"kind": "incremental", "sizes": [500, "all"], "trials": 2, "preserved": [0, "L"]},
        {"kind": "localized", "sizes": [500], "trials": 1, "block_size": 2, "mode": "reinitialized"},
        {"kind": "localized", "label": "everything", "sizes": [500], "trials": 2, "block_size": 2, "mode": "preserved"},
        {"kind": "permutation", "permutations": 2, "sizes": [500]},
    ],
}


@pytest.fixture
def cells() -> list[Cell]:
    study = Study.parse(STUDY, "here")
    tasks = {n: TaskIdentity(n, None, 9999) for n in ("sst2", "cola")}
    return expand(study, EncoderIdentity("pocket", None, 2, 2), tasks)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def outcome(score: float, metric: str = "accuracy", status: Any = "finished") -> Outcome:
    return Outcome(
        status,
        reason="" if status == "finished" else "diverged",
        metric=metric,
        metrics={metric: score, "f1": score / 2},
        epochs=(Epoch(1, 0.9, 0.8, {metric: score / 2}), Epoch(2, 0.7, 0.6, {metric: score})),
        curve=((10, 0.9), (20, 0.7)),
        train_examples=500,
        steps=20,
    )


def fill(store: Store, cells: list[Cell]) -> None:
    for n, cell in enumerate(cells):
        metric = "mcc" if cell.trial.task == "cola" else "accuracy"
        store.put(Record(cell.trial, outcome(n / 100, metric), {"seconds": 1.5, "engine": "reference"}))


def test_an_empty_store_gives_every_cell_as_missing(cells: list[Cell], store: Store) -> None:
    frame = table(cells, store)
    assert len(frame) == len(cells)
    assert set(frame["status"]) == {"missing"}
    assert frame["score"].isna().all()
    assert set(COORDINATES) <= set(frame)
    assert list(frame["id"]) == [c.trial.identity for c in cells]


def test_a_complete_study(cells: list[Cell], store: Store) -> None:
    fill(store, cells)
    frame = table(cells, store)
    assert set(frame["status"]) == {"finished"}
    row = frame.iloc[0]
    assert (row["study"], row["experiment"], row["kind"], row["part"]) == ("little", "incremental", "incremental", 0)
    assert (row["task"], row["size"], row["preserved"], row["trial"]) == ("sst2", "500", 0, 0)
    assert (row["metric"], row["score"], row["accuracy"]) == ("accuracy", 0.0, 0.0)
    assert (row["validation_loss"], row["train_examples"], row["steps"], row["seconds"]) == (0.6, 500, 20, 1.5)
    assert row["interventions"] == '[{"kind": "reinitialize", "layers": [1, 2]}]'
    cola = frame[frame["task"] == "cola"]
    assert set(cola["metric"]) == {"mcc"}
    assert cola["accuracy"].isna().all()
    assert (cola["mcc"] == cola["score"]).all()
    assert missing(frame).empty
    assert str(frame["preserved"].dtype) == "Int64"
    assert frame.loc[frame["kind"] == "permutation", "permutation"].tolist() == [1, 2, 1, 2]


def test_cells_that_share_a_trial_share_its_result(cells: list[Cell], store: Store) -> None:
    fill(store, cells)
    frame = table(cells, store)
    # Re-initialising the one block of both layers is preserving none.
    shared = frame[frame["mode"].eq("reinitialized").fillna(False) & (frame["task"] == "sst2")].iloc[0]
    twin = frame[(frame["preserved"] == 0).fillna(False) & (frame["id"] == shared["id"])].iloc[0]
    assert shared["score"] == twin["score"]


def test_failed_missing_and_damaged(cells: list[Cell], store: Store) -> None:
    failed, damaged, done = cells[0], cells[1], cells[2]
    store.put(Record(failed.trial, outcome(math.nan, status="failed"), {}))
    store.put(Record(done.trial, outcome(0.5), {}))
    path = Path(store.place(damaged.trial.identity))
    path.parent.mkdir(exist_ok=True)
    path.write_text("{")
    frame = table(cells, store)
    assert frame["status"].iloc[:3].tolist() == ["failed", "missing", "finished"]
    assert frame["reason"].iloc[0] == "diverged"
    assert [p.path for p in store.problems] == [str(path)]
    summary = {tuple(row[:3]): tuple(row[3:]) for row in missing(frame).itertuples(index=False)}
    assert summary["incremental", "sst2", "500"] == (1, 1, 2)  # finished, failed, missing
    assert summary["incremental", "cola", "all"] == (0, 0, 4)


def test_epochs_and_curves(cells: list[Cell], store: Store) -> None:
    fill(store, cells[:2])
    epochs = epochs_table(cells, store)
    assert epochs["epoch"].tolist()[:2] == [1, 2]
    second = epochs[(epochs["id"] == cells[1].trial.identity) & (epochs["epoch"] == 2)].iloc[0]
    assert (second["train_loss"], second["validation_loss"], second["score"], second["metric"]) == (
        0.7, 0.6, 0.01, "accuracy",
    )  # fmt: skip
    curves = curves_table(cells, store)
    assert curves[curves["id"] == cells[0].trial.identity]["step"].tolist()[:2] == [10, 20]
    assert curves_table(cells[2:4], store).empty
    assert {"step", "loss", "task"} <= set(curves_table(cells[2:4], store))


def test_everything_flattens_trials(cells: list[Cell], store: Store) -> None:
    fill(store, cells)
    frame = everything(store)
    assert len(frame) == len({c.trial.identity for c in cells})
    assert list(frame)[:3] == ["id", "encoder", "weights"]
    row = frame[frame["id"] == cells[0].trial.identity].iloc[0]
    assert (row["size"], row["protocol.name"], row["protocol.epochs"], row["protocol.initialiser.std"]) == (
        "500", "paper", 3, 0.02,
    )  # fmt: skip
    assert (row["seeds.order"], row["protocol.dropout"], row["provenance.engine"]) == (0, "true", "reference")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_export_can_be_read_back(cells: list[Cell], store: Store, tmp_path: Path, ending: str) -> None:
    fill(store, cells[:-1])
    for name, frame in {"cells": table(cells, store), "all": everything(store)}.items():
        path = export(frame, tmp_path / f"{name}.{ending}")
        again = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
        assert list(again) == list(frame)
        assert again["id"].tolist() == frame["id"].tolist()
        assert again["score"].dropna().tolist() == pytest.approx(frame["score"].dropna().tolist())
    assert sorted(p.name for p in tmp_path.glob("*.*")) == [f"all.{ending}", f"cells.{ending}"]


def test_export_says_what_it_cannot_write(cells: list[Cell], store: Store, tmp_path: Path) -> None:
    frame = table(cells, store)
    with pytest.raises(UnknownName, match=r"end the name in \.csv or \.parquet"):
        export(frame, tmp_path / "results.xlsx")
    with pytest.raises(StoreError, match="cannot write"):
        export(frame, tmp_path / "missing" / "results.csv")
