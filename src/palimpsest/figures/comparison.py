"""One choice against another: the same experiment under two or more labels (Figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, short, size_name, task_name
from palimpsest.analysis.statistics import IntervalKind, summarise
from palimpsest.errors import PalimpsestError
from palimpsest.figures import style

_LINES = ("-", "--", "-.", ":")


@style.house_style
def comparison(
    table: pd.DataFrame,
    *,
    experiments: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "2sigma",
) -> Figure:
    """One panel per task: scores over the number of layers preserved, a line per labelled experiment.

    Options: `experiments`, the labels of incremental experiments (by default all there are); `tasks`; `size` (by
    default the largest that all of them have); `interval`.
    """
    incremental = table[selection.is_(table, "kind", "incremental")]
    labels = list(experiments) if experiments is not None else selection.unique(incremental["experiment"])
    if len(labels) < 2:
        raise PalimpsestError("a comparison needs two incremental experiments with labels of their own")
    chosen = {label: selection.experiment(table, "incremental", label=label, tasks=tasks) for label in labels}
    common = set.intersection(*(set(selection.sizes(rows)) for rows in chosen.values()))
    if size is None and not common:
        raise PalimpsestError(f"the experiments {', '.join(labels)} have no size in common to be compared at")
    if size is None:
        size = selection.sizes(pd.DataFrame({"size": list(common)}))[-1]
    one = {label: selection.one_size(rows, size)[0] for label, rows in chosen.items()}
    rows = pd.concat(one.values())
    done = selection.need_something(rows)
    summary = summarise(done, ["experiment", "task", "preserved"], interval)
    names = selection.tasks(rows)
    figure, axes = style.panels(len(names))
    handles: dict[str, Any] = {}
    for ax, task in zip(axes, names, strict=True):
        for i, label in enumerate(labels):
            line = summary[(summary["task"] == task) & (summary["experiment"] == label)]
            if not line.empty:
                handles[label] = style.bars(
                    ax, line, "preserved", color=style.HUES[i % len(style.HUES)], aside=style.aside(i, len(labels)),
                    marker=style.MARKERS[i % len(style.MARKERS)], linestyle=_LINES[i % len(_LINES)],
                )  # fmt: skip
        metric = metric_name(selection.metric(done[done["task"] == task]))
        ax.set(title=style.literal(task_name(task)), xlabel="Layers preserved (k)", ylabel=style.literal(metric))
        style.integer_axis(ax, 0, int(rows["preserved"].max()))
    shown = [label for label in labels if label in handles]
    style.legend(figure, [handles[label] for label in shown], [short(label) for label in shown])
    label = selection.unique(rows["size"])[0]
    style.footnote(figure, size_name(label), selection.mean_note(summary, interval), selection.missing_note(rows))
    return figure
