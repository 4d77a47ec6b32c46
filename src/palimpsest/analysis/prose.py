"""A figure in words: what an incremental experiment shows, said in one paragraph."""

from __future__ import annotations

import itertools

import pandas as pd

from palimpsest.analysis.names import metric_name, task_name
from palimpsest.analysis.statistics import Interval, mean_interval


def describe_incremental(table: pd.DataFrame) -> str:
    """The benefit of the pretrained layers per task and size, with its interval, and where most of it comes from."""
    rows = table[(table["kind"] == "incremental") & (table["status"] == "finished")]
    sentences = []
    for (task, size), part in rows.groupby(["task", "size"], sort=False):
        points = {int(str(k)): mean_interval(p["score"]) for k, p in part.groupby("preserved")}
        if len(points) < 2:
            continue
        low, high = points[min(points)], points[max(points)]
        metric = metric_name(str(part["metric"].iloc[0])).lower()
        best = max(points, key=lambda k: points[k].mean)
        sentences.append(
            f"{task_name(str(task))} with {size} examples: with all {max(points)} pretrained layers the {metric} is "
            f"{_said(high)}; with {'none' if min(points) == 0 else min(points)} of them it is {_said(low)}. "
            f"{_verdict(low, high)} The best point is k = {best} ({points[best].mean:.2f}); {_steepest(points)}"
        )
    return "\n".join(sentences) or "Nothing is finished yet."


def _said(point: Interval) -> str:
    if point.n < 2:
        return f"{point.mean:.2f} (one trial)"
    return f"{point.mean:.2f} (95 % interval {point.low:.2f} to {point.high:.2f}, n = {point.n})"


def _verdict(low: Interval, high: Interval) -> str:
    if min(low.n, high.n) < 2:
        return "Single trials decide nothing."
    if low.high < high.low:
        return "The intervals do not overlap: pretraining helps."
    if high.high < low.low:
        return "The intervals do not overlap: pretraining harms."
    return "The intervals overlap: not decided."


def _steepest(points: dict[int, Interval]) -> str:
    ks = sorted(points)
    gains = {(a, b): points[b].mean - points[a].mean for a, b in itertools.pairwise(ks)}
    (a, b), gain = max(gains.items(), key=lambda item: item[1])
    which = f"layer {b}" if b == a + 1 else f"layers {a + 1} to {b}"
    return f"the largest gain, {gain:+.2f}, comes from preserving {which}."
