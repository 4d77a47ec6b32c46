"""How many pretrained layers are needed: scores over the number of layers preserved (Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, task_name
from palimpsest.analysis.published import published as published_table
from palimpsest.analysis.statistics import IntervalKind, summarise
from palimpsest.figures import scales, style


@style.house_style
def incremental(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
    interval: IntervalKind = "t",
    probing: bool = True,
    published: bool = False,
    axis: scales.Axis = "preserved",
    metric: str | None = None,
) -> Figure:
    """One panel per task, one solid line per size, the darker the larger; probing dashed.

    Options: `experiment`, the label of the incremental experiment (by default the first); `tasks` and `sizes`, some
    of its own; `interval`, the kind of the error bars; `probing`, whether to draw probing if the study has it;
    `published`, whether to mark what BERT-base is known to reach with all examples; `axis`, how layers are counted:
    those preserved, those re-initialised, or from which on they are re-initialised (L + 1: none); `metric`, instead of
    each task's first: f1, em, spearman, …
    """
    table = selection.in_metric(table, metric)
    rows = selection.experiment(table, "incremental", label=experiment, tasks=tasks, sizes=sizes)
    done = selection.need_something(rows)
    labels = selection.sizes(rows)
    summary = summarise(done, ["task", "size", "preserved"], interval)
    names = selection.tasks(rows)
    probes = selection.experiment(table, "probing") if probing and selection.has(table, "probing") else table.iloc[:0]
    probes = probes[probes["task"].isin(names)]
    count = len(labels) + len(selection.sizes(probes))
    looks: dict[str, dict[str, Any]] = {
        label: {"color": color, "marker": style.MARKERS[i % len(style.MARKERS)], "aside": style.aside(i, count)}
        for i, (label, color) in enumerate(zip(labels, style.shades(len(labels)), strict=True))
    }
    figure, axes = style.panels(len(names))
    handles: dict[str, Any] = {}
    depth = selection.depth(table) if axis == "reinitialized" else int(rows["preserved"].max())
    summary["place"] = scales.place(summary["preserved"], axis, depth)
    for ax, task in zip(axes, names, strict=True):
        for label in labels:
            line = summary[(summary["task"] == task) & (summary["size"] == label)]
            if not line.empty:
                handles[label] = style.bars(ax, line, "place", **looks[label])
        score = metric_name(selection.metric(done[done["task"] == task]))
        ax.set(title=style.literal(task_name(task)), xlabel=scales.AXES[axis], ylabel=style.literal(score))
        style.integer_axis(ax, *scales.ends(axis, depth))
    notes = [selection.mean_note(summary, interval)]
    handles |= _probing(dict(zip(names, axes, strict=True)), probes, interval, axis, depth, count)
    if published:
        notes.append(_published(dict(zip(names, axes, strict=True)), done, handles))
    shown = [label for label in labels if label in handles]
    dashed = [label for label in handles if label not in labels]
    style.legend(figure, [handles[h] for h in shown + dashed], shown + dashed, title="Training examples")
    style.footnote(figure, *notes, selection.missing_note(pd.concat([rows, probes])))
    return figure


def _published(panels: dict[str, Axes], done: pd.DataFrame, handles: dict[str, Any]) -> str:
    """A dotted line at the published score of each task that has one, in the metric shown; returns its source."""
    known = published_table("scores")
    source = ""
    for task, ax in panels.items():
        row = known.find(task=task, metric=selection.metric(done[done["task"] == task]))
        if row:
            handles["published, intact BERT-base"] = ax.axhline(
                row["score"], color=style.GREY, linestyle=":", zorder=1.5
            )
            source = f"published: {known.source}"
    return source


def _probing(
    panels: dict[str, Axes], probes: pd.DataFrame, interval: str, axis: scales.Axis, depth: int, count: int
) -> dict[str, Any]:
    """A dashed line per size of the probing experiment, over the layer that is probed; the last of `count` lines."""
    handles: dict[str, Any] = {}
    summary = summarise(probes, ["task", "size", "layer"], interval)
    summary["place"] = scales.place(summary["layer"], axis, depth)
    sizes = selection.sizes(probes)
    for i, label in enumerate(sizes):
        for task, ax in panels.items():
            line = summary[(summary["task"] == task) & (summary["size"] == label)]
            if not line.empty:
                handles[f"{label}, probing layer k"] = style.bars(
                    ax, line, "place", aside=style.aside(count - len(sizes) + i, count), color=style.ORANGE,
                    linestyle="--", marker=style.MARKERS[-1 - i % len(style.MARKERS)], markersize=3.5,
                )  # fmt: skip
    return handles
