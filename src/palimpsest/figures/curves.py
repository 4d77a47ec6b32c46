"""How the training loss falls: loss curves over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import Field

from palimpsest.analysis import selection
from palimpsest.analysis.names import chain_name, short, size_name, task_name
from palimpsest.analysis.statistics import finished
from palimpsest.errors import PalimpsestError
from palimpsest.figures import style
from palimpsest.specs.expansion import DIRECT

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
    smooth: Annotated[int, Field(ge=1)] = 5,
) -> Figure:
    """One panel per task, one line per point of the experiment: the training loss, averaged over its trials.

    Lines go on while at least half of the trials do.

    Options: `kind` and `experiment`, which one (by default the first incremental one); `tasks`; `size` (by default
    the largest); `own_numbering`, whether incremental lines are named by the first re-initialised layer; `smooth`, over
    how many stored points a running mean is taken (short curves: over a tenth of theirs).
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
    names = selection.tasks(rows)
    looks = _looks(_ordered(list(rows[along].dropna().unique()), kind, names), kind)
    figure, axes = style.panels(len(names))
    handles: dict[Any, Any] = {}
    widest = 1
    for ax, task in zip(axes, names, strict=True):
        here = long[selection.is_(long, "task", task)]
        for point, look in looks.items():
            mean = _mean(here[here[along].eq(point).fillna(False).astype(bool)])
            if mean.empty:
                continue
            window = max(1, min(smooth, len(mean) // 10))
            widest = max(widest, window)
            smoothed = mean.rolling(window, min_periods=1).mean()
            (handles[point],) = ax.plot(
                smoothed.index.to_numpy(dtype=float),
                smoothed.to_numpy(dtype=np.float64),
                linewidth=1.3,
                marker="o" if len(mean) == 1 else "",
                **look,
            )
        ax.set(title=style.literal(task_name(task)), xlabel="Step", ylabel="Training loss")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    title = "" if kind != "incremental" else "First re-initialised layer" if own_numbering else "Layers preserved (k)"
    shown = {_name(point, kind, own_numbering): handles[point] for point in looks if point in handles}
    style.legend(figure, list(shown.values()), list(shown), title=title)
    runs = int(long.groupby(["task", along])["id"].nunique().max())
    style.footnote(
        figure, size_name(label), f"mean of up to {runs} trials" if runs > 1 else "one trial per line",
        f"running mean over {widest} points" if widest > 1 else "", selection.missing_note(rows),
    )  # fmt: skip
    return figure


def _ordered(points: list[Any], kind: str, tasks: list[str]) -> list[Any]:
    """By layers; by the length of the chain, and then as the tasks are; or as the study names them."""
    if kind == "incremental":
        return sorted(points)
    if kind == "custom":
        return points
    order = {DIRECT: -1} | {task: i for i, task in enumerate(tasks)}
    return sorted(points, key=lambda chain: (chain.count(", "), order.get(chain.split(", ")[0], len(tasks))))


def _looks(points: list[Any], kind: str) -> dict[Any, dict[str, Any]]:
    """The darker the more layers are preserved; where there is no order, a colour and a stroke for each line."""
    if kind == "incremental":
        return {p: {"color": c} for p, c in zip(points, style.shades(len(points)), strict=True)}
    hues = len(style.HUES)
    return {
        p: {"color": style.HUES[i % hues], "linestyle": ("-", "--", "-.", ":")[i // hues % 4]}
        for i, p in enumerate(points)
    }


def _mean(long: pd.DataFrame) -> pd.Series[float]:
    """The mean curve of these trials, which may differ in length and then in the steps that are stored."""
    trials = [part.sort_values("step") for _, part in long.groupby("id", sort=False)]
    if not trials:
        return pd.Series(dtype="float64")
    longest = max(trials, key=lambda part: int(part["step"].max()))
    steps = longest["step"].to_numpy(dtype=np.float64)
    losses = np.array(
        [
            np.interp(
                steps, part["step"].to_numpy(dtype=np.float64), part["loss"].to_numpy(dtype=np.float64), right=np.nan
            )
            for part in trials
        ]
    )
    running = 2 * (~np.isnan(losses)).sum(0) >= len(trials)
    return pd.Series(np.nanmean(losses[:, running], axis=0), index=steps[running], dtype="float64")


def _name(point: Any, kind: str, own_numbering: bool) -> str:
    if kind == "incremental":
        return str(int(point) + 1 if own_numbering else int(point))
    return short(str(point)) if kind == "custom" else chain_name(str(point))
