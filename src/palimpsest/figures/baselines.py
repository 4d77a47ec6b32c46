"""What other experiments are held against: the full model and the model with its embeddings only."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from palimpsest.analysis import selection
from palimpsest.analysis.statistics import Interval, finished, interval_of
from palimpsest.figures import style

FULL, EMBEDDINGS = "full model", "embeddings only"
LOOKS = {FULL: style.DARK, EMBEDDINGS: style.GREY}


def baselines(
    table: pd.DataFrame, task: str, size: str, *, label: str | None = None, interval: str = "2sigma"
) -> tuple[dict[str, Interval], pd.DataFrame]:
    """The mean with all layers preserved and with none, as far as there are finished trials, and the rows they are of.

    They come from the incremental experiment of this label (by default the first) at the same task and size; a study
    without one has no baselines.
    """
    if not selection.has(table, "incremental"):
        return {}, table.iloc[:0]
    rows = selection.experiment(table, "incremental", label=label)
    rows = rows[selection.is_(rows, "task", task) & selection.is_(rows, "size", size)]
    found = {}
    ends = {FULL: selection.depth(table), EMBEDDINGS: 0}
    rows = rows[rows["preserved"].isin(list(ends.values()))]
    for name, preserved in ends.items():
        trials = rows[selection.is_(rows, "preserved", preserved) & finished(rows)].drop_duplicates("id")
        mean = interval_of(trials["score"], interval)
        if mean.n:
            found[name] = mean
    return found, rows


def draw_baselines(ax: Axes, found: dict[str, Interval], *, bands: bool) -> dict[str, Any]:
    """Dashed lines across the panel, with their intervals as bands if asked for; returns the legend's handles."""
    handles = {}
    for name, mean in found.items():
        color = LOOKS[name]
        handles[name] = ax.axhline(mean.mean, color=color, linestyle=(0, (5, 3)), linewidth=1.1, zorder=1.5)
        if bands and mean.n > 1:
            ax.axhspan(mean.low, mean.high, color=color, alpha=0.1, linewidth=0, zorder=1)
            for edge in (mean.low, mean.high):  # bands may overlap
                ax.axhline(edge, color=color, alpha=0.45, linestyle=":", linewidth=0.8, zorder=1)
    return handles
