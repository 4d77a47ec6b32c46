"""One choice against another: the same experiment under two or more labels (Figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from palimpsest.analysis import selection
from palimpsest.analysis.comparisons import CORRECTIONS, Correction, corrected, pair_with, paired
from palimpsest.analysis.names import metric_name, short, size_name, task_name
from palimpsest.analysis.statistics import INTERVALS, IntervalKind, summarise
from palimpsest.errors import NothingFinished, PalimpsestError
from palimpsest.figures import style
from palimpsest.figures.text_table import TextTable, probability

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
    chosen = _chosen(table, experiments, tasks)
    labels = list(chosen)
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
        there = [label for label in labels if label in set(summary.loc[summary["task"] == task, "experiment"])]
        for i, label in enumerate(labels):
            line = summary[(summary["task"] == task) & (summary["experiment"] == label)]
            if not line.empty:
                aside = style.aside(there.index(label), len(there))
                handles[label] = style.bars(
                    ax, line, "preserved", color=style.HUES[i % len(style.HUES)], aside=aside,
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


def differences(
    table: pd.DataFrame,
    *,
    experiments: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    interval: IntervalKind = "t",
    correction: Correction = "holm",
) -> TextTable:
    """What each labelled experiment differs by from the first: over all k on average, and where most.

    Trials are paired with those of the same index, whose seeds are the same; where an experiment has the very trial of
    the first, there is nothing to compare. Options: `experiments`, the labels, of which the first is the baseline;
    `tasks`; `interval`; `correction`, for there being many tests.
    """
    chosen = _chosen(table, experiments, tasks)
    baseline, *others = chosen
    found, cut = [], []
    for label in others:
        own = chosen[label][~chosen[label]["id"].isin(list(chosen[baseline]["id"]))]
        pairs = pair_with(own, chosen[baseline], "preserved")
        for (task, size), part in pairs.groupby(["task", "size"], sort=False):
            every = part.pivot_table("difference", "trial", "preserved")
            grid = _complete(every)
            if grid.empty:
                continue
            if grid.shape != every.shape:
                cut.append(f"{short(str(label))}, {task_name(str(task))} at {size}: {_kept(grid, every)}")
            one, means = paired(grid.mean(axis="columns"), interval), grid.mean()
            most = int(means.abs().to_numpy().argmax())
            i = one.interval
            at, difference = int(str(means.index[most])), float(means.iloc[most])
            found.append((label, task, size, i.mean, i.low, i.high, i.n, one.p, at, difference))
    if not found:
        raise NothingFinished(f"nothing finished yet that could be compared with {baseline}")
    names = ["experiment", "task", "size", "difference", "low", "high", "n", "p", "most_at", "most"]
    data = pd.DataFrame(found, columns=names)
    data["corrected"] = corrected(data["p"], correction)
    shown = [
        [
            short(row["experiment"]), task_name(row["task"]), row["size"], f"{row['difference']:+.3f}",
            "–" if pd.isna(row["low"]) else f"({row['low']:+.3f}, {row['high']:+.3f})", str(row["n"]),
            probability(row["p"]), probability(row["corrected"]), f"{row['most']:+.3f} at k = {row['most_at']}",
        ]
        for row in data.to_dict("records")
    ]  # fmt: skip
    columns = ["Experiment", "Task", "Size", "Difference", "Interval", "n", "p", "Corrected p", "Most"]
    rows = pd.concat(chosen.values())
    how = f"Difference to {baseline}, the mean over k; {INTERVALS[interval]} over trials; {CORRECTIONS[correction]}."
    incomplete = f"Where pairs are missing: {'; '.join(cut)}." if cut else ""
    note = "\n".join(filter(None, (how, incomplete, selection.missing_note(rows))))
    return TextTable(columns, shown, data, note=note, right=frozenset(columns[3:8]))


def _complete(grid: pd.DataFrame) -> pd.DataFrame:
    """Trials that have a difference at every k; where there are not two of them, the k that have one of every trial."""
    trials, ks = grid.dropna(), grid.dropna(axis="columns")
    return trials if len(trials) > 1 or trials.size >= ks.size else ks


def _kept(grid: pd.DataFrame, every: pd.DataFrame) -> str:
    if len(grid) < len(every):
        return f"{len(grid)} of {len(every)} trials"
    return f"k = {', '.join(map(str, grid.columns))} alone"


def _chosen(table: pd.DataFrame, labels: Sequence[str] | None, tasks: Sequence[str] | None) -> dict[str, pd.DataFrame]:
    """The rows of each labelled incremental experiment; by default of all there are."""
    incremental = table[selection.is_(table, "kind", "incremental")]
    known = list(labels) if labels is not None else selection.unique(incremental["experiment"])
    if len(known) < 2:
        has = f"the study has one, {known[0]!r}" if known else "the study has none"
        raise PalimpsestError(f"a comparison needs two incremental experiments with labels of their own; {has}")
    return {label: selection.experiment(table, "incremental", label=label, tasks=tasks) for label in known}
