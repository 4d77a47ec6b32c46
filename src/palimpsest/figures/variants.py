"""Interventions written out by hand, against each other: the scores of a custom experiment's variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, short, task_name
from palimpsest.analysis.statistics import IntervalKind, summarise
from palimpsest.figures import style

_APART = 0.22  # between the sizes of a variant, in rows


@style.house_style
def variants(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
    interval: IntervalKind = "t",
) -> Figure:
    """One panel per task, one row per variant: mean and interval, and every trial as a faint dot below.

    Options: `experiment`, the label of the custom experiment (by default the first); `tasks` and `sizes`, some of its
    own; `interval`, the kind of the error bars.
    """
    rows = selection.experiment(table, "custom", label=experiment, tasks=tasks, sizes=sizes)
    done = selection.need_something(rows)
    summary = summarise(done, ["task", "size", "variant"], interval)
    names, labels, listed = selection.tasks(rows), selection.sizes(rows), selection.unique(rows["variant"])
    figure = Figure(
        figsize=(2.6 * len(names) + 0.065 * max(len(short(v)) for v in listed), 0.36 * len(listed) + 1.5),
        layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06),
    )
    axes = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    handles: dict[str, Any] = {}
    for ax, task in zip(axes, names, strict=True):
        for i, (label, color) in enumerate(zip(labels, style.shades(len(labels)), strict=True)):
            line = summary[(summary["task"] == task) & (summary["size"] == label)]
            if line.empty:
                continue
            shift = _APART * (i - (len(labels) - 1) / 2)
            at = np.array([listed.index(v) for v in line["variant"]]) + shift
            mean, low, high = (line[name].to_numpy(dtype=float) for name in ("mean", "low", "high"))
            handles[label] = ax.errorbar(
                mean, at, xerr=np.nan_to_num([mean - low, high - mean]).clip(min=0), linestyle="", color=color,
                marker=style.MARKERS[i % len(style.MARKERS)], capsize=2, elinewidth=0.9, capthick=0.9,
            )  # fmt: skip
            trials = done[(done["task"] == task) & (done["size"] == label)].drop_duplicates(["variant", "id"])
            places = [listed.index(v) + shift + 0.1 for v in trials["variant"]]  # just below the bar
            ax.scatter(trials["score"].to_numpy(dtype=float), places, s=7, color=color, alpha=0.35, linewidths=0)
        metric = metric_name(selection.metric(done[done["task"] == task]))
        ax.set(title=style.literal(task_name(task)), xlabel=style.literal(metric), ylim=(len(listed) - 0.5, -0.5))
        ax.set_yticks(range(len(listed)), [style.literal(short(v)) for v in listed])
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x")
    if len(labels) > 1:
        shown = [label for label in labels if label in handles]
        style.legend(figure, [handles[label] for label in shown], shown, title="Training examples")
    style.footnote(figure, selection.mean_note(summary, interval), selection.missing_note(rows))
    return figure
