"""Which layers finetuning changes: how far weights move, and how like the pretrained ones hidden states stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.names import task_name
from palimpsest.analysis.statistics import IntervalKind, finished, summarise
from palimpsest.errors import PalimpsestError
from palimpsest.figures import style

Matrix = Literal["query", "key", "value", "attention_output", "intermediate", "output"]


@style.house_style
def drift(
    table: pd.DataFrame,
    drift: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
    preserved: int | None = None,
    matrix: Matrix = "output",
    distance: Literal["frobenius", "spectral"] = "frobenius",
    relative: bool = False,
    normalised: bool = False,
    interval: IntervalKind = "t",
) -> Figure:
    """One panel per task, one line per size: the distance of each layer's weight matrix from the pretrained one.

    Options: `experiment`, the label of an incremental experiment with ``measure: drift`` (by default the first);
    `tasks` and `sizes`; `preserved`, which of its points (by default the one with most layers preserved); `matrix`;
    `distance`; `relative`, whether it is divided by the norm of the pretrained weight; `normalised`, whether every line
    is stretched to run from 0 to 1; `interval`.
    """
    rows = selection.experiment(table, "incremental", label=experiment, tasks=tasks, sizes=sizes)
    value = f"{distance}_relative" if relative else distance
    name = {"frobenius": "Frobenius", "spectral": "Spectral"}[distance]
    ylabel = f"{name} distance" + (" / norm" if relative else "") + (", min-max" if normalised else "")
    chosen = drift[selection.is_(drift, "matrix", matrix)]
    return _over_layers(rows, chosen, preserved, value, ylabel, normalised, interval, f"weights: {matrix}")


@style.house_style
def cka(
    table: pd.DataFrame,
    cka: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
    preserved: int | None = None,
    interval: IntervalKind = "t",
) -> Figure:
    """One panel per task, one line per size: linear CKA between pretrained and finetuned hidden states, by layer.

    Options: as for drift, of an experiment with ``measure: cka``.
    """
    rows = selection.experiment(table, "incremental", label=experiment, tasks=tasks, sizes=sizes)
    note = "layer 0: embeddings"
    chosen = cka[cka["id"].isin(list(rows["id"])) & selection.is_(cka, "at_layer", 0)]
    if chosen["cka"].isna().all():
        note += ", of which the first token's is the same in all examples"
    return _over_layers(rows, cka, preserved, "cka", "Linear CKA", False, interval, note)


def _over_layers(
    rows: pd.DataFrame, measured: pd.DataFrame, preserved: int | None, value: str, ylabel: str, normalised: bool,
    interval: IntervalKind, note: str,
) -> Figure:  # fmt: skip
    point = int(rows["preserved"].max()) if preserved is None else preserved
    rows = rows[selection.is_(rows, "preserved", point)]
    if rows.empty:
        raise PalimpsestError(f"this experiment has no trials with {point} layers preserved")
    selection.need_something(rows)
    keys = ["experiment", "task", "size", "id"]
    long = measured[finished(measured)].merge(rows[keys].drop_duplicates(), on=keys)
    if long.empty:
        raise PalimpsestError("the finished trials of this experiment measured nothing: add `measure: [drift, cka]`")
    summary = summarise(long.drop_duplicates([*keys, "at_layer"]), ["task", "size", "at_layer"], interval, value)
    if normalised:
        summary = _stretched(summary)
    figure, panels = style.lines_by_size(summary, selection.tasks(rows), selection.sizes(rows), "at_layer")
    for task, ax in panels.items():
        ax.set(title=style.literal(task_name(task)), xlabel="Layer", ylabel=ylabel)
        style.integer_axis(ax, int(long["at_layer"].min()), int(long["at_layer"].max()))
    touched = "" if point == int(rows["preserved"].max()) and preserved is None else f"{point} layers preserved"
    style.footnote(figure, note, touched, selection.mean_note(summary, interval), selection.missing_note(rows))
    return figure


def _stretched(summary: pd.DataFrame) -> pd.DataFrame:
    """Every line's means from 0 to 1, as the report plots them; intervals are stretched along."""
    lines = summary.groupby(["task", "size"])["mean"]
    low, spread = lines.transform("min"), lines.transform("max") - lines.transform("min")
    stretched = summary.copy()
    for column in ("mean", "low", "high"):
        stretched[column] = (summary[column] - low) / spread.where(spread > 0, 1.0)
    return stretched
