"""A table of what each pretrained layer adds to those below it, and of what is lost without those above, tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from palimpsest.analysis import selection
from palimpsest.analysis.comparisons import CORRECTIONS, Correction, corrected, paired
from palimpsest.analysis.names import short, size_order, task_name
from palimpsest.analysis.statistics import INTERVALS, IntervalKind, finished
from palimpsest.errors import NothingFinished, NotInStudy
from palimpsest.figures.text_table import TextTable, probability

_CURVE = ["experiment", "task", "size"]


def gains(
    table: pd.DataFrame,
    *,
    tasks: Sequence[str] | None = None,
    metric: str | None = None,
    interval: IntervalKind = "t",
    correction: Correction = "holm",
) -> TextTable:
    """One row per curve and k: what it scores more than the next smaller k, and than the encoder with all layers.

    Trials are paired with those of the same index, whose seeds are the same. Options: `tasks`; `metric`; `interval`;
    `correction`, for there being a test for every k of a curve.
    """
    labels = selection.unique(table[selection.is_(table, "kind", "incremental")]["experiment"])
    every = [selection.experiment(table, "incremental", label=label, tasks=tasks) for label in labels or [""]]
    rows = selection.in_metric(pd.concat(every), metric)
    if rows["preserved"].nunique() < 2:
        raise NotInStudy("the table gains needs an incremental experiment with two numbers of layers or more")
    done = rows[finished(rows) & rows["score"].notna()]
    depth = selection.depth(table)
    found: list[dict[str, Any]] = []
    for curve, part in done.groupby(_CURVE, sort=False):
        scores = part.pivot_table("score", "trial", "preserved")
        ks = [int(k) for k in scores.columns]
        lines: list[dict[str, Any]] = [dict(zip(_CURVE, curve, strict=True)) | {"preserved": k} for k in ks]
        for name, others in (("gain", [-1, *ks[:-1]]), ("to_all", [depth] * len(ks))):
            for line, k, other in zip(lines, ks, others, strict=True):
                line |= _tested(name, scores[k] - scores[other] if other in ks and other != k else None, interval)
            for line, p in zip(lines, corrected([line[f"{name}_p"] for line in lines], correction), strict=True):
                line[f"{name}_corrected"] = p
        found += lines
    if not any(line["gain_n"] for line in found):
        raise NothingFinished("nothing finished yet: two numbers of layers with the same trials are needed")
    data = pd.DataFrame(found)
    data["order"] = [size_order(label) for label in data["size"]]
    data["place"] = data["task"].map({name: i for i, name in enumerate(selection.tasks(rows))})
    data = data.sort_values(["place", "order"], kind="stable").drop(columns=["place", "order"])
    several = len(labels) > 1
    shown = [
        [
            *([short(row["experiment"])] if several else []), task_name(row["task"]), row["size"],
            str(row["preserved"]), *_shown(row, "gain"), *_shown(row, "to_all"),
            str(max(row["gain_n"], row["to_all_n"])),
        ]
        for row in data.to_dict("records")
    ]  # fmt: skip
    names = [*(["Experiment"] if several else []), "Task", "Size"]
    numbers = ["k", "Gain", "Interval", "Corrected p", "To all layers", "Interval", "Corrected p", "n"]
    how = (
        "Gain: k layers preserved minus the next smaller number of them; to all layers: minus the intact encoder; over "
        f"trials of the same index. {INTERVALS[interval]}; {CORRECTIONS[correction]}, over the k of a curve."
    )
    note = "\n".join(filter(None, (how, selection.missing_note(rows))))
    return TextTable([*names, *numbers], shown, data, note=note, right=frozenset(numbers))


def _tested(name: str, differences: pd.Series[float] | None, interval: str) -> dict[str, Any]:
    found = paired([] if differences is None else differences, interval)
    i = found.interval
    return {name: i.mean, f"{name}_low": i.low, f"{name}_high": i.high, f"{name}_n": i.n, f"{name}_p": found.p}


def _shown(row: dict[Any, Any], name: str) -> list[str]:
    if not row[f"{name}_n"]:
        return ["–"] * 3
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    band = "–" if pd.isna(low) else f"({low:+.3f}, {high:+.3f})"
    return [f"{row[name]:+.3f}", band, probability(row[f"{name}_corrected"])]
