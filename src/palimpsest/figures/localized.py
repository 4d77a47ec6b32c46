"""Which layers matter: blocks of consecutive layers re-initialised, or preserved alone (Figures 3 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, mode_name, size_name, span, task_name
from palimpsest.analysis.statistics import IntervalKind, summarise
from palimpsest.errors import PalimpsestError
from palimpsest.figures import style
from palimpsest.figures.baselines import EMBEDDINGS, FULL, baselines, draw_baselines

LOOKS: dict[str, dict[str, Any]] = {
    "reinitialized": {"color": style.ORANGE, "marker": "s"},
    "preserved": {"color": style.BLUE, "marker": "o"},
}


@style.house_style
def localized(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    baseline: str | None = None,
    block_size: int | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "t",
) -> Figure:
    """One panel per task: scores over the block's position, re-initialised and preserved; baselines dashed.

    Options: `experiment`, the label of the localized experiment (by default the first); `baseline`, that of the
    incremental experiment which the dashed lines come from; `block_size` and `size` (by default the largest); `tasks`;
    `interval`.
    """
    rows = selection.experiment(table, "localized", label=experiment, tasks=tasks)
    known = sorted(int(b) for b in rows["block_size"].dropna().unique())
    block = block_size or known[-1]
    if block not in known:
        raise PalimpsestError(f"there are no blocks of {block} layers in this experiment, but of: {known}")
    rows = rows[selection.is_(rows, "block_size", block)]
    modes = [mode for mode in LOOKS if mode in selection.unique(rows["mode"])]
    labels = {mode: f"block {mode_name(mode)}" for mode in modes}
    return _draw(table, rows, labels, [FULL, EMBEDDINGS], "Layers in the block", baseline, size, interval)


@style.house_style
def single(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    baseline: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    interval: IntervalKind = "2sigma",
) -> Figure:
    """One panel per task: scores after a single layer was re-initialised; the full model dashed.

    Options: `experiment`, the label of a localized experiment with blocks of one layer (by default the first with
    such); `baseline`, that of the incremental experiment which the dashed line comes from; `tasks`; `size` (by default
    the largest); `interval`.
    """
    ones = table[selection.is_(table, "block_size", 1) & selection.is_(table, "mode", "reinitialized")]
    if ones.empty:
        raise PalimpsestError(
            "this figure needs a localized experiment with block_size: 1 and mode: reinitialized; the study has none"
        )
    rows = selection.experiment(ones, "localized", label=experiment, tasks=tasks)
    labels = {"reinitialized": "layer re-initialised"}
    return _draw(table, rows, labels, [FULL], "Layer re-initialised", baseline, size, interval)


def _draw(
    table: pd.DataFrame,
    rows: pd.DataFrame,
    labels: dict[str, str],
    lines: Sequence[str],
    xlabel: str,
    baseline: str | None,
    size: str | int | float | None,
    interval: str,
) -> Figure:
    rows, label = selection.one_size(rows, size)
    done = selection.need_something(rows)
    summary = summarise(done, ["task", "mode", "first"], interval)
    names = selection.tasks(rows)
    figure, axes = style.panels(len(names))
    handles: dict[str, Any] = {}
    drawn = [rows]
    positions = sorted(int(f) for f in rows["first"].unique())
    block = int(rows["block_size"].iloc[0])
    for ax, task in zip(axes, names, strict=True):
        for i, (mode, name) in enumerate(labels.items()):
            line = summary[(summary["task"] == task) & (summary["mode"] == mode)]
            if not line.empty:
                handles[name] = style.bars(ax, line, "first", aside=style.aside(i, len(labels)), **LOOKS[mode])
        found, their_rows = baselines(table, task, label, label=baseline)
        handles |= draw_baselines(ax, {name: mean for name, mean in found.items() if name in lines}, bands=False)
        drawn.append(their_rows)
        metric = metric_name(selection.metric(done[done["task"] == task]))
        ax.set(title=style.literal(task_name(task)), xlabel=xlabel, ylabel=style.literal(metric))
        ax.set_xlim(positions[0] - 0.4, positions[-1] + 0.4)
        every = 1 + (len(positions) - 1) // 16
        ticks = positions[::every]
        ax.set_xticks(ticks, [span(p, p + block - 1) for p in ticks], rotation=45 if block > 1 else 0)
    order = [name for name in (*labels.values(), *lines) if name in handles]
    style.legend(figure, [handles[name] for name in order], order)
    notes = [size_name(label), selection.mean_note(summary, interval), selection.missing_note(pd.concat(drawn))]
    style.footnote(figure, *notes)
    return figure
