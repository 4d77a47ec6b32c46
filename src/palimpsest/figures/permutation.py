"""Does the order of the layers matter: scores of shuffled models between the two baselines (Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy import stats

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, size_name, task_name
from palimpsest.analysis.statistics import mean_interval
from palimpsest.figures import style
from palimpsest.figures.baselines import EMBEDDINGS, FULL, baselines, draw_baselines

_NAMES = {FULL: "original order", EMBEDDINGS: "all layers re-initialised"}


@style.house_style
def permutation(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    baseline: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
) -> Figure:
    """One narrow panel per task: a circle per permutation, their density, their mean with its 95 % interval.

    A permutation with several trials is one circle, at their mean. The baselines are dashed, with bands of ±2σ.

    Options: `experiment`, the label of the permutation experiment (by default the first); `baseline`, that of the
    incremental experiment which the dashed lines come from; `tasks`; `size` (by default the largest).
    """
    rows = selection.experiment(table, "permutation", label=experiment, tasks=tasks)
    rows, label = selection.one_size(rows, size)
    done = selection.need_something(rows)
    names = selection.tasks(rows)
    figure, axes = style.panels(len(names), width=2.0, height=3.0, most=6)
    handles: dict[str, Any] = {
        "one permutation": Line2D([], [], linestyle="", marker="o", markerfacecolor="none", color=style.ORANGE),
        "density": Patch(color=style.ORANGE, alpha=0.25, linewidth=0),
        "mean, 95 % CI": Line2D([], [], color=style.ORANGE, linewidth=2),
    }
    drawn = [rows]
    counts = []
    for ax, task in zip(axes, names, strict=True):
        found, their_rows = baselines(table, task, label, label=baseline, interval="2sigma")
        lines = draw_baselines(ax, found, bands=True)
        handles |= {_NAMES[name]: line for name, line in lines.items()}
        drawn.append(their_rows)
        trials = done[done["task"] == task].drop_duplicates("id")
        scores = trials.groupby("permutation")["score"].mean().to_numpy(dtype=np.float64)
        if scores.size:
            _draw_scores(ax, scores)
            counts.append(scores.size)
        metric = metric_name(selection.metric(trials))
        ax.set(title=style.literal(task_name(task)), ylabel=style.literal(metric), xlim=(-0.75, 1.0), xticks=[])
        ax.spines["bottom"].set_visible(False)
    style.legend(figure, list(handles.values()), list(handles))
    low, high = min(counts), max(counts)
    count = f"{low}" if low == high else f"{low} to {high}"
    notes = f"{count} permutation{'s' if high > 1 else ''}"
    style.footnote(figure, size_name(label), notes, "bands: ±2σ", selection.missing_note(pd.concat(drawn)))
    return figure


def _draw_scores(ax: Axes, scores: npt.NDArray[np.float64]) -> None:
    if scores.size >= 3 and np.ptp(scores) > 1e-9:
        estimate = stats.gaussian_kde(scores)
        room = 2.5 * float(np.sqrt(estimate.covariance[0, 0]))
        top = 1.0 if scores.max() <= 1.0 else np.inf  # where no score can lie, no density is shown
        heights = np.linspace(scores.min() - room, min(scores.max() + room, top), 200)
        density = estimate(heights)
        ax.fill_betweenx(heights, 0.2, 0.2 + 0.7 * density / density.max(), color=style.ORANGE, alpha=0.25, linewidth=0)
    low, high = ax.get_ylim()  # the baselines are there already
    places = side_by_side(scores, 0.03 * max(high - low, float(np.ptp(scores))))
    ax.plot(places, scores, linestyle="", marker="o", markersize=5, markerfacecolor="none", color=style.ORANGE)
    mean = mean_interval(scores)
    ax.plot([-0.5, 0.1], [mean.mean] * 2, color=style.ORANGE, linewidth=2, solid_capstyle="butt", label="mean")
    if mean.n > 1:
        half = [[mean.mean - mean.low], [mean.high - mean.mean]]
        ax.errorbar([-0.58], [mean.mean], yerr=half, color=style.ORANGE, capsize=3, marker="")


def side_by_side(scores: npt.NDArray[np.float64], within: float) -> npt.NDArray[np.float64]:
    """Where circles stand: those `within` about the same height beside each other, so that all of them are seen.

    Not by chance, so that a figure is the same each time it is drawn.
    """
    order = np.argsort(scores, kind="stable")
    apart = np.diff(scores[order]) > within
    places = np.empty(scores.size)
    for group in np.split(order, np.flatnonzero(apart) + 1):
        spacing = min(0.09, 0.54 / max(1, group.size - 1))
        places[group] = -0.2 + spacing * (np.arange(group.size) - (group.size - 1) / 2)
    return places
