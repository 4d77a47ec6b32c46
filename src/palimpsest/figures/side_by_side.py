"""The same experiments under several protocols, side by side: what a choice does to the curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, short, task_name
from palimpsest.analysis.statistics import IntervalKind, summarise
from palimpsest.figures import style


@style.house_style
def side_by_side(
    table: pd.DataFrame,
    *,
    experiments: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
    interval: IntervalKind = "t",
) -> Figure:
    """A row per task and a column per labelled incremental experiment; probing of the same label is dashed.

    The first column's curves are repeated in the others, thin and grey.

    Options: `experiments`, the labels (by default all); `tasks` and `sizes`, some of theirs; `interval`.
    """
    incremental = table[selection.is_(table, "kind", "incremental")]
    columns = list(experiments) if experiments is not None else selection.unique(incremental["experiment"])
    parts = {label: selection.experiment(table, "incremental", label=label, tasks=tasks) for label in columns}
    if sizes is not None:
        parts = {
            label: rows[selection.among("size", selection.labels(sizes), rows["size"])] for label, rows in parts.items()
        }
    rows = pd.concat(parts.values())
    done = selection.need_something(rows)
    probes = _probes(table, columns, tasks)
    names, labels = selection.tasks(rows), selection.sizes(rows)
    summary = summarise(done, ["experiment", "task", "size", "preserved"], interval)
    probing = summarise(probes, ["experiment", "task", "layer"], interval)
    figure = Figure(
        figsize=(max(1.55 * len(columns) + 0.6, 3.6), 1.65 * len(names) + 1.0),
        layout=ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.05),
    )
    grid = figure.subplots(len(names), len(columns), squeeze=False, sharex=True, sharey="row")
    highest = int(rows["preserved"].max())
    handles: dict[str, Any] = {}
    for i, task in enumerate(names):
        for j, column in enumerate(columns):
            ax = grid[i, j]
            here = summary[(summary["task"] == task) & (summary["experiment"] == column)]
            first = summary[(summary["task"] == task) & (summary["experiment"] == columns[0])]
            dashed = probing[(probing["task"] == task) & (probing["experiment"] == column)]
            handles |= _panel(ax, here, dashed, labels)
            if j:
                handles |= _reference(ax, first, columns[0])
            style.integer_axis(ax, 0, highest)
            if highest > 6:
                ax.set_xticks(range(0, highest + 1, 3))
            if not i:
                ax.set_title(style.literal(short(column)), fontsize=8)
        metric = metric_name(selection.metric(done[done["task"] == task]))
        grid[i, 0].set_ylabel(f"{style.literal(task_name(task))}\n{style.literal(metric)}")
    for ax in grid[-1]:
        ax.set_xlabel("k", labelpad=1)
    style.legend(figure, list(handles.values()), list(handles), title="Training examples; k layers preserved")
    drawn = pd.concat([rows, probes])
    style.footnote(figure, selection.mean_note(summary, interval), selection.missing_note(drawn))
    return figure


def _probes(table: pd.DataFrame, columns: Sequence[str], tasks: Sequence[str] | None) -> pd.DataFrame:
    """The probing experiments with these labels; each at its largest size."""
    probes = table[selection.is_(table, "kind", "probing")]
    found = [probes.iloc[:0]]
    for label in columns:
        if label in selection.unique(probes["experiment"]):
            rows = selection.experiment(probes, "probing", label=label)
            rows = rows if tasks is None else rows[rows["task"].isin(list(tasks))]
            found.append(selection.one_size(rows, None)[0] if len(rows) else rows)
    return pd.concat(found)


def _panel(ax: Axes, lines: pd.DataFrame, dashed: pd.DataFrame, labels: Sequence[str]) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for i, (label, color) in enumerate(zip(labels, style.shades(len(labels)), strict=True)):
        line = lines[lines["size"] == label]
        if not line.empty:
            marker = style.MARKERS[i % len(style.MARKERS)]
            handles[label] = style.bars(
                ax, line, "preserved", color=color, marker=marker, markersize=2.6, linewidth=1.1
            )
    if not dashed.empty:
        handles["probing layer k"] = style.bars(
            ax, dashed, "layer", color=style.ORANGE, linestyle="--", marker="P", markersize=2.6, linewidth=1.0
        )
    return handles


def _reference(ax: Axes, lines: pd.DataFrame, name: str) -> dict[str, Any]:
    handles = {}
    for _, line in lines.groupby("size", sort=False):
        line = line.sort_values("preserved")
        (handles[f"{short(name)}, the same sizes"],) = ax.plot(
            line["preserved"].to_numpy(dtype=float), line["mean"].to_numpy(dtype=float), color=style.GREY,
            linewidth=0.7, zorder=1.8,
        )  # fmt: skip
    return handles
