"""Which rows of the tidy table a drawing or a claim is about, and what must be said about them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pandas as pd

from palimpsest.analysis.names import METRICS, size_order
from palimpsest.analysis.statistics import INTERVALS, finished
from palimpsest.errors import NothingFinished, NotInStudy, PalimpsestError, UnknownName
from palimpsest.specs.size import parse_size, size_label

POINT = ("preserved", "mode", "first", "block_size", "permutation", "layer", "head", "variant", "chain")
"""The coordinates that tell an experiment's points apart."""


def experiment(
    table: pd.DataFrame,
    kind: str,
    *,
    label: str | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
) -> pd.DataFrame:
    """The rows of one experiment: all parts of this kind that share a label, by default the first label there is.

    Trials that differ in their protocol, epochs or seeds are never averaged: where two of them stand at the same point,
    that is an error, which a label for each experiment mends.
    """
    rows = table[is_(table, "kind", kind)]
    if rows.empty:
        kinds = ", ".join(unique(table["kind"])) or "nothing"
        raise NotInStudy(f"this figure or table needs an experiment of kind {kind!r}, but the study has: {kinds}")
    known = unique(rows["experiment"])
    if label is not None and label not in known:
        raise UnknownName(f"experiment of kind {kind}", label, known)
    rows = rows[is_(rows, "experiment", label or known[0])]
    if tasks is not None:
        rows = rows[among("task", tasks, rows["task"])]
    if sizes is not None:
        rows = rows[among("size", labels(sizes), rows["size"])]
    return unmixed(rows, repr(label or known[0]))


def unmixed(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of an experiment of this name, if none of its points has different trials of the same index."""
    at_one_point = rows.groupby(["task", "size", "trial", *POINT], dropna=False)["id"].nunique()
    if (at_one_point > 1).any():
        protocols = unique(rows["protocol"])
        raise PalimpsestError(
            f"the experiment {name} has different trials at the same point (protocols: {', '.join(protocols)}), which "
            "must not be averaged; give each experiment a label of its own, and the drawing the one it is about"
        )
    return rows


def has(table: pd.DataFrame, kind: str) -> bool:
    return bool(is_(table, "kind", kind).any())


def is_(table: pd.DataFrame, column: str, value: str | int) -> pd.Series[bool]:
    """Which rows have this value; missing ones do not."""
    return table[column].eq(value).fillna(False).astype(bool)


def among(what: str, asked: Iterable[str], column: pd.Series[str]) -> pd.Series[bool]:
    """Which rows have one of the values asked for; an error names a value that no row has."""
    known = unique(column)
    for name in asked:
        if name not in known:
            raise UnknownName(what, name, known)
    return column.isin(list(asked)).fillna(False).astype(bool)


def labels(sizes: Iterable[str | int | float]) -> list[str]:
    """Sizes as an option gives them, as the table calls them."""
    return [size_label(parse_size(size)) for size in sizes]


def one_size(rows: pd.DataFrame, size: str | int | float | None) -> tuple[pd.DataFrame, str]:
    """The rows of one size: the one asked for, or the largest that anything is finished of."""
    known = sizes(rows[finished(rows)]) or sizes(rows)
    label = known[-1] if size is None else size_label(parse_size(size))
    return rows[among("size", [label], rows["size"])], label


def unique(column: pd.Series[str]) -> list[str]:
    """The values of a column, in the order in which they first appear."""
    return [str(v) for v in column.dropna().unique()]


def sizes(rows: pd.DataFrame) -> list[str]:
    """The size labels, from small to large."""
    return sorted(unique(rows["size"]), key=size_order)


def tasks(rows: pd.DataFrame) -> list[str]:
    return unique(rows["task"])


def metric(rows: pd.DataFrame) -> str:
    """The name of what `score` is; empty while nothing is finished."""
    names = unique(rows["metric"])
    return names[0] if names else ""


def in_metric(rows: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """The rows with another of their metrics for a score; tasks that do not have it are left out. None: as they are."""
    if metric is None:
        return rows
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    values = rows[metric] if metric in rows else pd.Series(float("nan"), index=rows.index)
    having = rows["task"][values.notna()]
    if not len(having) and not rows[finished(rows)].empty:
        raise NothingFinished(f"no finished trial has the metric {metric}: when they ran, it was not recorded")
    changed = rows.assign(score=values, metric=rows["metric"].where(values.isna(), metric))
    return changed[changed["task"].isin(list(having))] if len(having) else changed


def depth(table: pd.DataFrame) -> int:
    """The number of layers: as the table's attribute ``depth`` says, or the highest that any trial names."""
    if table.attrs.get("depth"):
        return int(table.attrs["depth"])
    highest = [int(v) for name in ("preserved", "layer") for v in table[name].dropna()]
    for text in unique(table["interventions"]):
        gone = 0  # what comes after a deletion counts the layers that are left
        for intervention in json.loads(text):
            named = intervention.get("layers", []) + intervention.get("order", [])
            named += [layer for layer, _ in intervention.get("heads", [])]
            highest += [layer + gone for layer in named]
            gone += len(intervention["layers"]) if intervention["kind"] == "delete" else 0
    return max(highest, default=0)


def need_something(rows: pd.DataFrame) -> pd.DataFrame:
    """The finished rows; an error when there are none."""
    done = rows[finished(rows) & rows["score"].notna()]
    if done.empty:
        trials = rows.drop_duplicates("id")
        failed = int(is_(trials, "status", "failed").sum())
        if failed:
            raise NothingFinished(
                f"nothing finished: {failed} of {len(trials)} trials failed; `palimpsest status` says why"
            )
        raise NothingFinished(
            f"nothing finished yet: none of these {len(trials)} trials is in the store; run the study first. If it was "
            "run: with the same --model, --data and --set? They are part of what a trial is"
        )
    return done


def missing_note(rows: pd.DataFrame) -> str:
    """``missing: 12 of 1,500 trials (2 failed)``; empty when nothing is missing."""
    trials = rows.drop_duplicates("id")
    absent = int((~finished(trials)).sum())
    failed = int(is_(trials, "status", "failed").sum())
    if not absent:
        return ""
    return f"missing: {absent:,} of {len(trials):,} trials" + (f" ({failed:,} failed)" if failed else "")


def mean_note(summary: pd.DataFrame, interval: str, shape: str = "bars") -> str:
    """``mean of n = 3 to 50 trials; bars: 95 % t intervals``."""
    low, high = int(summary["n"].min()), int(summary["n"].max())
    count = f"n = {low}" if low == high else f"n = {low} to {high}"
    if high == 1:
        return "one trial per point"
    centre = "median" if interval == "median" else "mean"
    return f"{centre} of {count} trials; {shape}: {INTERVALS[interval]}"
