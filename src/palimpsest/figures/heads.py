"""One attention head at a time: what its pretrained weights are worth, as a heat map and as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from palimpsest.analysis import selection
from palimpsest.analysis.comparisons import CORRECTIONS, SHORT_CORRECTIONS, Correction, corrected, pair_with, paired
from palimpsest.analysis.names import metric_name, size_name, task_name
from palimpsest.analysis.statistics import INTERVALS, IntervalKind
from palimpsest.errors import PalimpsestError, StoreError
from palimpsest.figures import style
from palimpsest.figures.matrix import heat_map
from palimpsest.figures.text_table import TextTable, number, probability

_SUMMARY = ("Count", "Mean", "Std Dev", "Min", "25%", "50%", "75%", "Max")


def differences(
    table: pd.DataFrame,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
    correction: Correction = "holm",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per task, layer and head: the difference to the intact encoder, its interval, p and corrected p.

    A trial is paired with the intact trial of the same index, whose seeds are the same; the correction is over all
    heads of a task. Also returns the rows that this is about. The intact trials are those of the study that are
    finetuned without any intervention: an incremental experiment with `preserved: L` has them.
    """
    rows = selection.experiment(table, "heads", label=experiment, tasks=tasks)
    rows, label = selection.one_size(rows, size)
    intact = table[
        table["interventions"].eq("[]").fillna(False).astype(bool) & ~selection.is_(table, "kind", "probing")
    ]
    intact = intact[intact["task"].isin(list(rows["task"])) & selection.is_(intact, "size", label)]
    intact = intact[intact["chain"].isna() | selection.is_(intact, "chain", "direct")]
    intact = intact[intact["protocol"].isin(list(rows["protocol"]))]
    if intact.empty:
        raise PalimpsestError(
            "differences need a baseline: add an incremental experiment with `preserved: [L]` at the same size, "
            "under the same protocol"
        )
    done = pair_with(rows.drop_duplicates(["task", "layer", "head", "id"]), intact, "protocol")
    if done.empty:
        raise StoreError("nothing finished yet: no head's trial has its intact counterpart in the store")
    found = []
    for (task, layer, head), part in done.groupby(["task", "layer", "head"], sort=True):
        one = paired(part["difference"], interval)
        i = one.interval
        found.append((task, int(str(layer)), int(str(head)), i.mean, i.low, i.high, i.n, one.p))
    columns = ["task", "layer", "head", "difference", "low", "high", "n", "p"]
    data = pd.DataFrame(found, columns=columns)
    data["corrected"] = np.concatenate([corrected(p["p"], correction) for _, p in data.groupby("task", sort=False)])
    order = {task: i for i, task in enumerate(selection.tasks(rows))}
    data = data.sort_values(["task", "layer", "head"], key=lambda c: c.map(order) if c.name == "task" else c)
    return data.reset_index(drop=True), pd.concat([rows, intact])


@style.house_style
def heads(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
    correction: Correction = "holm",
) -> Figure:
    """A heat map per task: layers down, heads across, the difference to the intact encoder in every cell.

    A star marks differences with a corrected p below 0.05.

    Options: `experiment`, the label of the heads experiment (by default the first); `tasks`; `size` (by default the
    largest); `interval`, which also says how differences are averaged and tested; `correction`: holm, bh or none.
    """
    data, rows = differences(table, experiment, tasks, size, interval, correction)
    names = list(data["task"].unique())
    layers, numbers = sorted(data["layer"].unique()), sorted(data["head"].unique())
    width = max(0.52 * len(numbers) + 1.6, 3.6)
    figure = Figure(figsize=(width, (0.34 * len(layers) + 0.9) * len(names) + 0.5), layout=ConstrainedLayoutEngine())
    axes = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    for ax, task in zip(axes, names, strict=True):
        part = data[data["task"] == task]
        grid = part.pivot_table(index="layer", columns="head", values="difference").reindex(layers, columns=numbers)
        stars = part[part["corrected"] < 0.05].set_index(["layer", "head"]).index
        texts = [[_cell(float(grid.loc[i, j])) + ("*" if (i, j) in stars else "") for j in numbers] for i in layers]
        values = grid.to_numpy(dtype=np.float64)
        down, across = [f"Layer {i}" for i in layers], [str(j) for j in numbers]
        heat_map(ax, values, texts, down, across, label="re-initialised\nminus intact")
        metric = metric_name(selection.metric(rows[selection.is_(rows, "task", task)]))
        ax.set(title=style.literal(f"{task_name(task)}: {metric}"))
    axes[-1].set_xlabel("Head")
    low, high = int(data["n"].min()), int(data["n"].max())
    count = f"paired differences, n = {low}" + (f" to {high}" if high > low else "")
    label = size_name(selection.unique(rows["size"])[0])
    star = f"* p < 0.05, {SHORT_CORRECTIONS[correction]}"
    style.footnote(figure, label, count, star, selection.missing_note(rows))
    return figure


def _cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:+.3f}".replace("-", "−") if abs(value) >= 0.0005 else "0.000"


def heads_difference(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
) -> TextTable:
    """One row per layer, one column per head: the difference to the intact encoder.

    Options: `experiment`, `tasks` (give one for the report's own layout), `size`, `interval`.
    """
    data, rows = differences(table, experiment, tasks, size, interval)
    numbers = sorted(data["head"].unique())
    lines = []
    for (task, layer), part in data.groupby(["task", "layer"], sort=False):
        at = part.set_index("head")["difference"]
        lines.append((task, f"Layer {layer}", [number(float(at.get(j, np.nan))) for j in numbers]))
    return _laid_out(lines, [f"Head {j}" for j in numbers], data, rows)


def heads_by_layer(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
) -> TextTable:
    """One row per layer: count, mean, standard deviation, extremes and quartiles of its heads' differences.

    Options: as for heads-difference.
    """
    data, rows = differences(table, experiment, tasks, size, interval)
    found = _summaries(data, "layer")
    lines = [(row["task"], f"Layer {row['layer']}", _shown(row)) for row in found.to_dict("records")]
    return _laid_out(lines, _SUMMARY, found, rows)


def heads_by_head(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
) -> TextTable:
    """One column per head: count, mean, standard deviation, extremes and quartiles over the layers.

    Options: as for heads-difference.
    """
    data, rows = differences(table, experiment, tasks, size, interval)
    found = _summaries(data, "head")
    numbers = sorted(data["head"].unique())
    lines = []
    for task, part in found.groupby("task", sort=False):
        by_head = {row["head"]: _shown(row) for row in part.to_dict("records")}
        for i, name in enumerate(_SUMMARY):
            lines.append((task, name, [by_head[j][i] if j in by_head else "–" for j in numbers]))
    return _laid_out(lines, [f"Head {j}" for j in numbers], found, rows)


def heads_tests(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
    correction: Correction = "holm",
) -> TextTable:
    """One row per head: difference, interval, number of pairs, p, and p corrected for there being many heads.

    Options: as for the figure heads.
    """
    data, rows = differences(table, experiment, tasks, size, interval, correction)
    shown = [
        [task_name(row["task"]), str(row["layer"]), str(row["head"]), number(row["difference"]),
         "–" if pd.isna(row["low"]) else f"({number(row['low'])}, {number(row['high'])})", str(row["n"]),
         probability(row["p"]), probability(row["corrected"])]
        for row in data.to_dict("records")
    ]  # fmt: skip
    note = f"Intervals: {INTERVALS[interval]}. Corrected p: {CORRECTIONS[correction]}, over the heads of a task."
    note = "\n".join(part for part in (note, selection.missing_note(rows)) if part)
    columns = ["Task", "Layer", "Head", "Difference", "Interval", "n", "p", "Corrected p"]
    return TextTable(columns, shown, data, note=note, right=frozenset(columns[1:]))


def _laid_out(
    lines: Sequence[tuple[Any, str, list[str]]], columns: Sequence[str], data: pd.DataFrame, rows: pd.DataFrame
) -> TextTable:
    """A table from (task, name, cells); tasks are named where there are several."""
    many = len({task for task, _, _ in lines}) > 1
    shown = [[*([task_name(str(task))] if many else []), name, *cells] for task, name, cells in lines]
    titles = [*(["Task"] if many else []), "", *columns]
    return TextTable(titles, shown, data, note=selection.missing_note(rows), right=frozenset(columns))


def _summaries(data: pd.DataFrame, by: str) -> pd.DataFrame:
    found = []
    for (task, key), part in data.groupby(["task", by], sort=False):
        values = part["difference"].to_numpy(dtype=np.float64)
        quartiles = np.quantile(values, [0.25, 0.5, 0.75])
        std = float(values.std(ddof=1)) if values.size > 1 else float("nan")
        found.append((task, key, values.size, values.mean(), std, values.min(), *quartiles, values.max()))
    return pd.DataFrame(found, columns=["task", by, *_SUMMARY])


def _shown(row: Mapping[Any, Any]) -> list[str]:
    return [str(int(row["Count"])), *(number(row[name]) for name in _SUMMARY[1:])]
