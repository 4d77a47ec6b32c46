"""How the training loss falls: loss curves over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.names import chain_name, short, size_name, task_name
from palimpsest.analysis.statistics import finished
from palimpsest.errors import PalimpsestError
from palimpsest.figures import style

_ALONG = {"incremental": "preserved", "sequential": "chain", "interleaved": "chain", "custom": "variant"}


@style.house_style
def curves(
    table: pd.DataFrame,
    curves: pd.DataFrame,
    *,
    kind: Literal["incremental", "sequential", "interleaved", "custom"] = "incremental",
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    own_numbering: bool = False,
    smooth: int = 5,
) -> Figure:
    """One panel per task, one line per point of the experiment: the training loss, averaged over its trials.

    Options: `kind` and `experiment`, which one (by default the first incremental one); `tasks`; `size` (by default
    the largest); `own_numbering`, whether incremental lines are named by the first re-initialised layer; `smooth`, over
    how many stored points a running mean is taken.
    """
    rows = selection.experiment(table, kind, label=experiment, tasks=tasks)
    rows, label = selection.one_size(rows, size)
    selection.need_something(rows)
    along = _ALONG[kind]
    keys = ["experiment", "task", "size", "id"]
    long = curves[finished(curves)].merge(rows[keys].drop_duplicates(), on=keys)
    long = long.drop_duplicates([*keys, along, "step"])
    if long.empty:
        raise PalimpsestError("the finished trials of this experiment have no loss curves to be drawn")
    points = sorted(long[along].dropna().unique(), key=lambda p: p if kind == "incremental" else str(p))
    colors = dict(zip(points, style.shades(len(points)), strict=True))
    names = selection.tasks(rows)
    figure, axes = style.panels(len(names))
    handles: dict[str, Any] = {}
    for ax, task in zip(axes, names, strict=True):
        here = long[selection.is_(long, "task", task)]
        for i, point in enumerate(points):
            mean = here[here[along].eq(point).fillna(False).astype(bool)].groupby("step")["loss"].mean().sort_index()
            if mean.empty:
                continue
            smoothed = mean.rolling(max(1, smooth), min_periods=1).mean()
            (handles[_name(point, kind, own_numbering)],) = ax.plot(
                smoothed.index.to_numpy(dtype=float), smoothed.to_numpy(dtype=np.float64), color=colors[point],
                linestyle=("-", "--", "-.", ":")[i % 4 if kind != "incremental" else 0], linewidth=1.3,
            )  # fmt: skip
        ax.set(title=style.literal(task_name(task)), xlabel="Step", ylabel="Training loss")
    title = "" if kind != "incremental" else "First re-initialised layer" if own_numbering else "Layers preserved (k)"
    style.legend(figure, list(handles.values()), list(handles), title=title)
    runs = long.groupby(["task", along])["id"].nunique()
    style.footnote(
        figure, size_name(label), f"mean of up to {int(runs.max())} trials, running mean over {smooth} points",
        selection.missing_note(rows),
    )  # fmt: skip
    return figure


def _name(point: Any, kind: str, own_numbering: bool) -> str:
    if kind == "incremental":
        return str(int(point) + 1 if own_numbering else int(point))
    return short(str(point)) if kind == "custom" else chain_name(str(point))
