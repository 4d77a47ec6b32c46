"""A table with a line for each curve: scores by the number of layers preserved, the layer probed, or a block's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, mode_name, short, size_order, task_name
from palimpsest.analysis.statistics import INTERVALS, IntervalKind, summarise
from palimpsest.errors import PalimpsestError
from palimpsest.figures.text_table import TextTable, number

_AXES = {"incremental": "preserved", "probing": "layer", "localized": "first"}
_AXIS_NAMES = {"incremental": "layers preserved", "probing": "the layer probed", "localized": "the (first) layer"}


def by_layer(
    table: pd.DataFrame,
    *,
    interval: IntervalKind = "t",
    tasks: Sequence[str] | None = None,
    metric: str | None = None,
) -> TextTable:
    """One row per curve, and a column for each number of layers preserved, layer probed or first layer of a block.

    Options as of `summary`. The last columns: half the width of the widest interval, and how many trials there are.
    """
    rows = table if tasks is None else table[table["task"].isin(list(tasks))]
    others = [kind for kind in selection.unique(rows["kind"]) if kind not in _AXES]
    rows = rows[rows["kind"].isin(list(_AXES))]
    if rows.empty:
        has = f"; the study has: {', '.join(others)}" if others else ""
        raise PalimpsestError(f"the table by-layer needs an experiment of one of the kinds {', '.join(_AXES)}{has}")
    rows = selection.in_metric(rows, metric)
    axis = [row[_AXES[str(row["kind"])]] for row in rows.to_dict("records")]
    rows = rows.assign(at=pd.array(axis, dtype="Int64"))
    curve = ["experiment", "kind", "task", "size", "protocol", "mode", "block_size"]
    found = summarise(selection.need_something(rows), [*curve, "metric", "at"], interval)
    found["half"] = (found["high"] - found["low"]) / 2
    found["order"] = [size_order(label) for label in found["size"]]
    found["task_order"] = found["task"].map({name: i for i, name in enumerate(selection.tasks(rows))})
    experiments = {name: i for i, name in enumerate(selection.unique(rows["experiment"]))}
    found["place"] = found["experiment"].map(experiments)
    found = found.sort_values(["place", "task_order", "order"], kind="stable")
    blocks = selection.has(rows, "localized")
    columns = sorted({int(at) for at in found["at"]})
    shown = []
    for _, line in found.groupby([*curve, "metric"], sort=False, dropna=False):
        first = line.iloc[0].to_dict()
        means = {int(at): number(mean) for at, mean in zip(line["at"], line["mean"], strict=True)}
        few, many = int(line["n"].min()), int(line["n"].max())
        shown.append(
            [
                *([short(str(first["experiment"]))] if len(experiments) > 1 else []),
                _curve_name(first, blocks),
                str(first["size"]),
                metric_name(str(first["metric"])),
                *(means.get(at, "–") for at in columns),
                "–" if pd.isna(line["half"].max()) else number(line["half"].max()),
                str(few) if few == many else f"{few} to {many}",
            ]
        )
    names = [*(["Experiment"] if len(experiments) > 1 else []), "Task", "Size", "Metric"]
    kinds = [name for kind, name in _AXIS_NAMES.items() if selection.has(found, kind)]
    notes = (
        f"Columns: {'; '.join(kinds)}. ±: half of the widest of the {INTERVALS[interval]}.",
        f"Not in this table: {', '.join(others)}." if others else "",
        selection.missing_note(rows),
    )
    numbers = found[[*curve, "metric", "at", "mean", "low", "high", "std", "median", "n"]]
    heads = [*names, *map(str, columns), "±", "n"]
    right = frozenset({*map(str, columns), "±", "n"})
    return TextTable(heads, shown, numbers, note="\n".join(filter(None, notes)), right=right)


def _curve_name(row: dict[Any, Any], beside: bool) -> str:
    """The task, and what the points of its curve are; layers preserved, unless blocks stand `beside` them."""
    task = task_name(row["task"])
    if row["kind"] == "localized":
        return f"{task}, {mode_name(row['mode'])}" + (" from" if row["block_size"] > 1 else "")
    return f"{task}, probed" if row["kind"] == "probing" else f"{task}, k kept" if beside else task
