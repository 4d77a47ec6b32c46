"""The tidy tables: a study's grid, with what the store holds of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import pandas as pd

from palimpsest.specs.expansion import Cell
from palimpsest.specs.size import size_label
from palimpsest.store import Record, Store

Kind = Literal["text", "count", "number"]
T = TypeVar("T")

COORDINATES: dict[str, Kind] = {
    "study": "text",
    "experiment": "text",
    "kind": "text",
    "part": "count",
    "task": "text",
    "size": "text",
    "protocol": "text",
    "trial": "count",
    "preserved": "count",
    "mode": "text",
    "first": "count",
    "block_size": "count",
    "permutation": "count",
    "layer": "count",
    "head": "count",
    "variant": "text",
    "chain": "text",
}
"""Where a cell stands in its study; what does not apply to an experiment is missing."""

RESULTS: dict[str, Kind] = {
    "status": "text",
    "reason": "text",
    "metric": "text",
    "score": "number",
    "validation_loss": "number",
    "train_examples": "count",
    "steps": "count",
    "seconds": "number",
}
"""What every row says of its trial: `score` is the value of the task's first metric, whose name is `metric`."""


def table(cells: Sequence[Cell], store: Store | None) -> pd.DataFrame:
    """One row per cell: its coordinates, ``id``, ``interventions`` (as JSON), the results, and a column per metric.

    Without a store everything is missing.

    ``status`` is finished, failed or missing; a damaged record's trial is missing. Cells that hold the same trial have
    the same id.
    """
    results = _by_id(cells, store, _results)
    rows = [_coordinates(cell) | results.get(cell.trial.identity, {"status": "missing"}) for cell in cells]
    return _frame(rows, {**COORDINATES, "id": "text", "interventions": "text", **RESULTS})


def epochs_table(cells: Sequence[Cell], store: Store | None) -> pd.DataFrame:
    """One row per cell and epoch: coordinates, ``id``, ``status``, ``epoch``, losses, ``score`` and every metric."""

    def epochs(record: Record) -> list[dict[str, Any]]:
        metric = record.outcome.metric
        common = {"status": record.outcome.status, "metric": metric}
        return [
            common
            | {"epoch": e.epoch, "train_loss": e.train_loss, "validation_loss": e.validation_loss}
            | {"score": e.metrics.get(metric)}
            | e.metrics
            for e in record.outcome.epochs
        ]

    columns: dict[str, Kind] = {"status": "text", "epoch": "count", "train_loss": "number", "validation_loss": "number",
                                "metric": "text", "score": "number"}  # fmt: skip
    return _long(cells, _by_id(cells, store, epochs), columns)


def curves_table(cells: Sequence[Cell], store: Store | None) -> pd.DataFrame:
    """One row per cell and point of its training curve: coordinates, ``id``, ``status``, ``step``, ``loss``."""

    def points(record: Record) -> list[dict[str, Any]]:
        return [{"status": record.outcome.status, "step": step, "loss": loss} for step, loss in record.outcome.curve]

    columns: dict[str, Kind] = {"status": "text", "step": "count", "loss": "number"}
    return _long(cells, _by_id(cells, store, points), columns)


def drift_table(cells: Sequence[Cell], store: Store | None) -> pd.DataFrame:
    """One row per cell, layer and weight matrix: coordinates, ``id``, ``at_layer``, ``matrix``, and the distances."""

    def distances(record: Record) -> list[dict[str, Any]]:
        return [
            {"status": record.outcome.status, "at_layer": layer, "matrix": matrix}
            | {name: values[layer - 1] for name, values in measured.items()}
            for matrix, measured in record.outcome.measures.get("drift", {}).items()
            for layer in range(1, len(measured["frobenius"]) + 1)
        ]

    columns: dict[str, Kind] = {"status": "text", "at_layer": "count", "matrix": "text"}
    columns |= dict.fromkeys(("frobenius", "spectral", "frobenius_relative", "spectral_relative"), "number")
    return _long(cells, _by_id(cells, store, distances), columns)


def cka_table(cells: Sequence[Cell], store: Store | None) -> pd.DataFrame:
    """One row per cell and layer 0..L (0 is the embeddings): coordinates, ``id``, ``at_layer``, ``cka``."""

    def similarities(record: Record) -> list[dict[str, Any]]:
        measured = record.outcome.measures.get("cka", [])
        return [{"status": record.outcome.status, "at_layer": n, "cka": value} for n, value in enumerate(measured)]

    columns: dict[str, Kind] = {"status": "text", "at_layer": "count", "cka": "number"}
    return _long(cells, _by_id(cells, store, similarities), columns)


def everything(store: Store) -> pd.DataFrame:
    """One row per record of a store, with every field of its trial (``protocol.epochs``, …) and of its provenance."""
    rows = []
    trial_fields: dict[str, None] = {}
    for record in store.records():
        trial = dict(_flat(record.trial.model_dump(mode="json") | {"size": size_label(record.trial.size)}))
        trial_fields |= dict.fromkeys(trial)
        rows.append({"id": record.id} | trial | _results(record) | dict(_flat(record.provenance, "provenance.")))
    frame = _frame(rows, {"id": "text", **RESULTS})
    first = ["id", *trial_fields]
    return frame[first + [name for name in frame if name not in first]]


def missing(table: pd.DataFrame) -> pd.DataFrame:
    """How many trials are finished, failed and missing, for each experiment, task and size that is not complete."""
    by = ["experiment", "task", "size"]
    trials = table.drop_duplicates([*by, "id"])
    counts = pd.crosstab([trials[c] for c in by], trials["status"])
    counts = counts.reindex(columns=["finished", "failed", "missing"], fill_value=0).reset_index()
    counts.columns.name = None
    return counts[counts["failed"] + counts["missing"] > 0].reset_index(drop=True)


def _by_id(cells: Iterable[Cell], store: Store | None, extract: Callable[[Record], T]) -> dict[str, T]:
    """What `extract` takes from each cell's record; the records themselves are let go one by one."""
    if store is None:
        return {}
    return {record.id: extract(record) for record in store.records({cell.trial.identity for cell in cells})}


def _coordinates(cell: Cell) -> dict[str, Any]:
    interventions = json.dumps([i.canonical for i in cell.trial.interventions])
    return cell.at | {"id": cell.trial.identity, "interventions": interventions}


def _results(record: Record) -> dict[str, Any]:
    outcome = record.outcome
    last = outcome.epochs[-1].validation_loss if outcome.epochs else None
    return {
        "status": outcome.status,
        "reason": outcome.reason or None,
        "metric": outcome.metric or None,
        "score": outcome.metrics.get(outcome.metric),
        "validation_loss": last,
        "train_examples": outcome.train_examples,
        "steps": outcome.steps,
        "seconds": record.provenance.get("seconds"),
        **outcome.metrics,
    }


def _long(cells: Sequence[Cell], parts: dict[str, list[dict[str, Any]]], columns: dict[str, Kind]) -> pd.DataFrame:
    rows = []
    for cell in cells:
        if found := parts.get(cell.trial.identity):
            at = cell.at | {"id": cell.trial.identity}
            rows += [at | part for part in found]
    return _frame(rows, {**COORDINATES, "id": "text", **columns})


def _frame(rows: list[dict[str, Any]], columns: dict[str, Kind]) -> pd.DataFrame:
    """Rows with these columns first, even if empty, and whatever else the rows have after them."""
    others = dict.fromkeys(name for row in rows for name in row if name not in columns)
    data = {name: _column([row.get(name) for row in rows], kind) for name, kind in columns.items()}
    for name in others:
        values = [row.get(name) for row in rows]
        data[name] = _column(values, _kind_of(values))
    return pd.DataFrame(data)


def _column(values: list[Any], kind: Kind) -> pd.Series[Any]:
    if kind == "number":
        return pd.Series([float("nan") if v is None else v for v in values], dtype="float64")
    if kind == "count":
        return pd.Series(values, dtype="Int64")
    return pd.Series([None if v is None else str(v) for v in values], dtype="string")


def _kind_of(values: list[Any]) -> Kind:
    types = {type(v) for v in values if v is not None}
    if types <= {float, int}:
        return "count" if types == {int} else "number"
    return "text"


def _flat(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            yield f"{prefix}{name}", json.dumps(value)
        else:
            yield f"{prefix}{name}", str(value).lower() if isinstance(value, bool) else value
