"""Does another task first, or beside it, help: the matrix of intermediate and final tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

from palimpsest.analysis import selection
from palimpsest.analysis.comparisons import CORRECTIONS, SHORT_CORRECTIONS, Correction, corrected, pair_with, paired
from palimpsest.analysis.names import chain_name, metric_name, size_name, task_name
from palimpsest.analysis.statistics import INTERVALS, IntervalKind, summarise
from palimpsest.errors import NotInStudy
from palimpsest.figures import style
from palimpsest.figures.matrix import heat_map
from palimpsest.figures.text_table import TextTable, number, probability
from palimpsest.specs.expansion import DIRECT

_KINDS = ("sequential", "interleaved")


def comparisons(
    table: pd.DataFrame,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
    correction: Correction = "holm",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per final task and chain: mean, interval, difference to the direct baseline, p and corrected p.

    Trials of the same index are pairs; the correction is over all chains of a task. Also returns the rows it is about.
    """
    parts = [selection.experiment(table, kind, tasks=tasks) for kind in _KINDS if selection.has(table, kind)]
    if not parts:
        raise NotInStudy("this figure or table needs an experiment of kind 'sequential' or 'interleaved'")
    rows, _ = selection.one_size(selection.unmixed(pd.concat(parts), " and ".join(_KINDS)), size)
    done = selection.need_something(rows).drop_duplicates(["task", "chain", "id"])
    summary = summarise(done, ["task", "chain"], interval)
    direct = done[selection.is_(done, "chain", DIRECT)]
    pairs = pair_with(done[~selection.is_(done, "chain", DIRECT)], direct, "protocol")
    tests = []
    for (task, chain), part in pairs.groupby(["task", "chain"], sort=False):
        one = paired(part["difference"], interval)
        tests.append((task, chain, one.interval.mean, one.interval.low, one.interval.high, one.interval.n, one.p))
    columns = ["task", "chain", "difference", "difference_low", "difference_high", "pairs", "p"]
    tested = pd.DataFrame(tests, columns=columns)
    tested["corrected"] = np.nan
    for _, part in tested.groupby("task", sort=False):
        tested.loc[part.index, "corrected"] = corrected(part["p"], correction)
    data = summary.merge(tested.astype({"task": "string", "chain": "string"}), on=["task", "chain"], how="left")
    order = {task: i for i, task in enumerate(selection.tasks(rows))}
    data = data.sort_values("task", key=lambda c: c.map(order), kind="stable").reset_index(drop=True)
    data["best"] = data["mean"] == data.groupby("task")["mean"].transform("max")
    data["above"] = data["difference"] > 0
    return data, rows


def _grid(
    data: pd.DataFrame, rows: pd.DataFrame
) -> tuple[list[str], list[str], dict[tuple[str, str], dict[str, object]]]:
    """Final tasks, columns, and what stands where: the direct baseline is where a task would follow upon itself."""
    finals = selection.tasks(rows)
    chains = [c for c in selection.unique(rows["chain"]) if c != DIRECT]
    single = list(dict.fromkeys([*finals, *(c for c in chains if "," not in c and not c.startswith("with "))]))
    columns = single + [c for c in chains if c not in single]
    cells: dict[tuple[str, str], dict[str, object]] = {}
    for row in data.to_dict("records"):
        column = row["task"] if row["chain"] == DIRECT else row["chain"]
        cells[str(row["task"]), str(column)] = {str(k): v for k, v in row.items()}
    return finals, columns, cells


@style.house_style
def sequential(
    table: pd.DataFrame,
    *,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
    correction: Correction = "holm",
) -> Figure:
    """A heat map: final tasks down, intermediate tasks across, the direct baseline on the diagonal, framed.

    Cells hold scores and their intervals, colours differences to the baseline. `[ ]` marks the best of a row, a star
    differences with a corrected p below 0.05.

    Options: `tasks`, some of the final ones; `size` (by default the largest); `interval`; `correction`.
    """
    data, rows = comparisons(table, tasks, size, interval, correction)
    finals, columns, cells = _grid(data, rows)
    values = np.full((len(finals), len(columns)), np.nan)
    texts = [["–" for _ in columns] for _ in finals]
    below = [["" for _ in columns] for _ in finals]
    metrics = {t: metric_name(selection.metric(rows[selection.is_(rows, "task", t)])) for t in finals}
    down = [style.literal(f"{task_name(t)} ({metrics[t]})") for t in finals]
    across = [_column(c) for c in columns]
    width = max(0.85, *(0.075 * len(line) for name in across for line in name.split("\n")))
    lines = max(name.count("\n") for name in across)
    figure = Figure(
        figsize=(max(width * len(columns) + 2.2, 3.8), 0.45 * len(finals) + 0.14 * lines + 1.1),
        layout=ConstrainedLayoutEngine(),
    )
    ax = figure.subplots()
    for (task, column), cell in cells.items():
        i, j = finals.index(task), columns.index(column)
        direct = cell["chain"] == DIRECT
        values[i, j] = 0.0 if direct else cell["difference"]
        text = _signed(cell["mean"]) + ("*" if not direct and _small(cell["corrected"]) else "")
        texts[i][j] = f"[{text}]" if cell["best"] else text
        if not np.isnan(float(str(cell["low"]))):
            below[i][j] = f"({_signed(cell['low'])}, {_signed(cell['high'])})"
        if direct:
            ax.add_patch(Rectangle((j - 0.49, i - 0.49), 0.98, 0.98, fill=False, edgecolor=style.GREY, linewidth=1))
    heat_map(ax, values, texts, down, across, below=below, label="paired difference\nto the baseline")
    ax.set(xlabel="Before the final task, or learnt with it (framed: nothing)", ylabel="Final task")
    star = f"[ ] best of a row; * p < 0.05, paired, {SHORT_CORRECTIONS[correction]}"
    label = size_name(selection.unique(rows["size"])[0])
    note = selection.mean_note(data, interval, shape="small print")
    style.footnote(figure, label, note, star, selection.missing_note(rows))
    return figure


def _column(chain: str) -> str:
    """A chain with a line for each of its tasks."""
    how, names = ("with\n", chain.removeprefix("with ")) if chain.startswith("with ") else ("", chain)
    separator = ",\n" if how else "\nthen "
    return how + separator.join(style.literal(task_name(name)) for name in names.split(", "))


def _signed(value: object) -> str:
    return number(float(str(value))).replace("-", "−")


def _bracketed(cell: Mapping[Any, Any]) -> str:
    """The score of a cell, in brackets where it is the best of its task."""
    mean = number(float(cell["mean"]))
    return f"[{mean}]" if cell["best"] else mean


def _count(row: Mapping[Any, Any]) -> str:
    """How many trials a mean is of, and how many pairs a difference, where that is another number."""
    alike = pd.isna(row["pairs"]) or int(row["pairs"]) == int(row["n"])
    return str(row["n"]) if alike else f"{row['n']} ({int(row['pairs'])} pairs)"


def _small(p: object) -> bool:
    return isinstance(p, float) and p < 0.05


def sequential_matrix(
    table: pd.DataFrame,
    *,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
) -> TextTable:
    """Final tasks down, intermediate tasks across, the direct baseline on the diagonal; [ ] best of a row, + above it.

    Options: `tasks`, some of the final ones; `size`; `interval`, which says whether means or medians are shown.
    """
    data, rows = comparisons(table, tasks, size, interval)
    finals, columns, cells = _grid(data, rows)
    shown = []
    for task in finals:
        line = [task_name(task)]
        for column in columns:
            cell = cells.get((task, column))
            line.append("–" if cell is None else _bracketed(cell) + "+" * bool(cell["above"]))
        shown.append([*line, metric_name(selection.metric(rows[selection.is_(rows, "task", task)]))])
    across = [task_name(c) if c in finals else chain_name(c) for c in columns]
    note = "Columns: the intermediate task, none on the diagonal. [ ] best of the row, + above the baseline."
    note = "\n".join(part for part in (note, selection.missing_note(rows)) if part)
    return TextTable(["", *across, "Metric"], shown, data, note=note, right=frozenset(across))


def sequential_tests(
    table: pd.DataFrame,
    *,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
    correction: Correction = "holm",
) -> TextTable:
    """One row per final task and chain: mean, interval, difference to the direct baseline, paired p, corrected p.

    Options: as for the figure sequential.
    """
    data, rows = comparisons(table, tasks, size, interval, correction)
    shown = [
        [task_name(row["task"]), chain_name(row["chain"]), _bracketed(row),
         "–" if pd.isna(row["low"]) else f"({number(row['low'])}, {number(row['high'])})",
         number(row["difference"]), probability(row["p"]), probability(row["corrected"]), _count(row)]
        for row in data.to_dict("records")
    ]  # fmt: skip
    note = (
        f"[ ] best of its task. Intervals: {INTERVALS[interval]}. p: paired with the direct trial of the same index; "
    )
    note += f"{CORRECTIONS[correction]}, over the chains of a task."
    note = "\n".join(part for part in (note, selection.missing_note(rows)) if part)
    centre = "Median" if interval == "median" else "Mean"
    columns = ["Final task", "Before it", centre, "Interval", "Difference", "p", "Corrected p", "n"]
    return TextTable(columns, shown, data, note=note, right=frozenset(columns[2:]))
