"""What a frozen encoder's layers know: scores of linear probes, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, task_name
from palimpsest.analysis.statistics import IntervalKind, summarise
from palimpsest.figures import style


@style.house_style
def probing(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
    interval: IntervalKind = "t",
    axis: Literal["layer", "removed"] = "layer",
) -> Figure:
    """One panel per task, one line per size.

    To remove the top k layers of a frozen encoder is to probe layer L - k, so one experiment serves both axes.

    Options: `experiment`, the label of the probing experiment (by default the first); `tasks` and `sizes`, some of its
    own; `interval`; `axis`, the layer that is probed or how many above it are removed.
    """
    rows = selection.experiment(table, "probing", label=experiment, tasks=tasks, sizes=sizes)
    done = selection.need_something(rows)
    summary = summarise(done, ["task", "size", "layer"], interval)
    depth = selection.depth(table)
    summary["place"] = depth - summary["layer"] if axis == "removed" else summary["layer"]
    figure, panels = style.lines_by_size(summary, selection.tasks(rows), selection.sizes(rows), "place", linestyle="--")
    for task, ax in panels.items():
        metric = metric_name(selection.metric(done[done["task"] == task]))
        ax.set(title=style.literal(task_name(task)), ylabel=style.literal(metric),
               xlabel="Top layers removed (k)" if axis == "removed" else "Layer probed")  # fmt: skip
        style.integer_axis(ax, 0, depth)
    style.footnote(figure, selection.mean_note(summary, interval), selection.missing_note(rows))
    return figure
