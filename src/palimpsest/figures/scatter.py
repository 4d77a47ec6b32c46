"""Every trial by itself: how far single runs lie from their mean (Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, size_name, size_order, task_name
from palimpsest.analysis.statistics import summarise
from palimpsest.figures import style


@style.house_style
def scatter(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
) -> Figure:
    """One panel per task: a dot per trial over the number of layers preserved, at one size; the mean dotted.

    Options: `experiment`, the label of the incremental experiment (by default the first); `tasks`; `size` (by default
    the one with the most trials).
    """
    rows = selection.experiment(table, "incremental", label=experiment, tasks=tasks)
    most = rows.groupby("size")["id"].nunique()
    default = min(most.index, key=lambda label: (-most[label], size_order(label)))
    rows, label = selection.one_size(rows, default if size is None else size)
    done = selection.need_something(rows).drop_duplicates(["task", "preserved", "id"])
    means = summarise(done, ["task", "preserved"])
    names = selection.tasks(rows)
    figure, axes = style.panels(len(names))
    handles: dict[str, Any] = {}
    for ax, task in zip(axes, names, strict=True):
        trials = done[done["task"] == task]
        # A little to the side, by the trial's index, so that equal scores can be told apart.
        aside = 0.3 * ((trials["trial"].to_numpy(dtype=float) * 0.618) % 1 - 0.5)
        handles["one trial"] = ax.scatter(
            trials["preserved"].to_numpy(dtype=float) + aside, trials["score"],
            s=10, color=style.BLUE, alpha=0.5, linewidths=0, zorder=2,
        )  # fmt: skip
        line = means[means["task"] == task].sort_values("preserved")
        (handles["mean"],) = ax.plot(
            line["preserved"].to_numpy(dtype=float), line["mean"].to_numpy(dtype=np.float64),
            color=style.DARK, linestyle=":", linewidth=1.8, zorder=3,
        )  # fmt: skip
        metric = metric_name(selection.metric(trials))
        ax.set(title=style.literal(task_name(task)), xlabel="Layers preserved (k)", ylabel=style.literal(metric))
        style.integer_axis(ax, 0, int(rows["preserved"].max()))
    style.legend(figure, list(handles.values()), list(handles))
    low, high = int(means["n"].min()), int(means["n"].max())
    count = f"n = {low} trials per k" if low == high else f"n = {low} to {high} trials per k"
    style.footnote(figure, size_name(label), count, selection.missing_note(rows))
    return figure
