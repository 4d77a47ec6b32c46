"""Tasks against each other: their scores over the number of layers, in one panel (Singh and Giovanardi, Figure 1c)."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, task_name
from palimpsest.analysis.statistics import IntervalKind, summarise
from palimpsest.figures import scales, style

_STROKES = ("-", "--", "-.", ":")


@style.house_style
def overlay(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
    interval: IntervalKind = "t",
    axis: scales.Axis = "preserved",
) -> Figure:
    """One panel, one line per task and size: a colour for each task, a stroke for each of its sizes.

    Options: `experiment`, the label of the incremental experiment (by default the first); `tasks` and `sizes`, some
    of its own; `interval`, the kind of the error bars; `axis`, how layers are counted: see incremental.
    """
    rows = selection.experiment(table, "incremental", label=experiment, tasks=tasks, sizes=sizes)
    done = selection.need_something(rows)
    summary = summarise(done, ["task", "size", "preserved"], interval)
    depth = selection.depth(table) if axis == "reinitialized" else int(rows["preserved"].max())
    figure, (ax,) = style.panels(1, width=5.2, height=3.2)
    lines = [
        (task, i, size, j)
        for i, task in enumerate(selection.tasks(done))
        for j, size in enumerate(selection.sizes(done[done["task"] == task]))
    ]
    handles, labels = [], []
    for n, (task, i, size, j) in enumerate(lines):
        line = summary[(summary["task"] == task) & (summary["size"] == size)].copy()
        line["place"] = scales.place(line["preserved"], axis, depth)
        handles.append(
            style.bars(
                ax, line, "place", color=style.HUES[i % len(style.HUES)], linestyle=_STROKES[j % len(_STROKES)],
                marker=style.MARKERS[i % len(style.MARKERS)], aside=style.aside(n, len(lines)),
            )
        )  # fmt: skip
        labels.append(_label(done[(done["task"] == task) & (done["size"] == size)], task, size))
    metrics = {metric_name(selection.metric(done[done["task"] == task])) for task in selection.tasks(done)}
    ax.set(xlabel=scales.AXES[axis], ylabel=style.literal(" or ".join(sorted(metrics))))
    style.integer_axis(ax, *scales.ends(axis, depth))
    style.legend(figure, handles, labels)
    style.footnote(figure, selection.mean_note(summary, interval), selection.missing_note(rows))
    return figure


def _label(done: pd.DataFrame, task: str, size: str) -> str:
    """``SST-2, 1% (673 examples)``: how many there were is what makes tasks comparable."""
    examples = f"{int(done['train_examples'].max()):,} examples"
    return (
        f"{task_name(task)}, {size} ({examples})" if size == "all" or "%" in size else f"{task_name(task)}, {examples}"
    )
