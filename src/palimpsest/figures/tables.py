"""Tables of results: every point of a study with its mean, interval and number of trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from palimpsest.analysis import selection
from palimpsest.analysis.names import chain_name, metric_name, mode_name, printable, short, size_order, span, task_name
from palimpsest.analysis.published import published as published_table
from palimpsest.analysis.selection import POINT
from palimpsest.analysis.statistics import INTERVALS, IntervalKind, summarise
from palimpsest.figures.text_table import TextTable, number


def summary(
    table: pd.DataFrame,
    *,
    interval: IntervalKind = "t",
    tasks: Sequence[str] | None = None,
    metric: str | None = None,
) -> TextTable:
    """One row per experiment, task, size and point: mean, interval and n.

    Options: `interval`, its kind; `tasks`, some of the study's; `metric`, instead of each task's first: f1, em,
    best_f1, spearman, …
    """
    rows = table if tasks is None else table[table["task"].isin(list(tasks))]
    rows = selection.in_metric(rows, metric)
    done = selection.need_something(rows)
    by = ["part", "experiment", "kind", "task", "size", "protocol", *POINT]
    planned = rows.groupby(by, sort=False, dropna=False)["id"].nunique().rename("planned").reset_index()
    found = summarise(done, [*by, "metric"], interval)
    data = planned.merge(found, on=by, how="left")
    data["order"] = [size_order(label) for label in data["size"]]
    data["task_order"] = data["task"].map({name: i for i, name in enumerate(selection.tasks(rows))})
    data = data.sort_values(["part", "task_order", "order"], kind="stable").drop(columns=["order", "task_order"])
    data["point"] = [point_name(row) for row in data.to_dict("records")]
    data["n"] = data["n"].fillna(0).astype(int)
    many = data["experiment"].nunique() > 1
    shown = [
        [
            *([short(row["experiment"])] if many else []),
            task_name(row["task"]),
            row["size"],
            row["point"],
            metric_name(row["metric"]) if isinstance(row["metric"], str) else "–",
            number(row["mean"]),
            "–" if pd.isna(row["low"]) else f"({number(row['low'])}, {number(row['high'])})",
            str(row["n"]) if row["n"] == row["planned"] else f"{row['n']} of {row['planned']}",
        ]
        for row in data.to_dict("records")
    ]
    centre = "Median" if interval == "median" else "Mean"
    width = "±2σ" if interval == "2sigma" else "95 % interval"
    columns = [*(["Experiment"] if many else []), "Task", "Size", "Point", "Metric", centre, width, "n"]
    note = "\n".join(filter(None, (f"Intervals: {INTERVALS[interval]}.", selection.missing_note(rows))))
    numbers = data[["experiment", "kind", "task", "size", "protocol", *POINT, "metric",
                    "mean", "low", "high", "std", "median", "n", "planned"]]  # fmt: skip
    return TextTable(columns, shown, numbers, note=note, right=frozenset({centre, width, "n"}))


def point_name(row: dict[Any, Any]) -> str:
    """A point of an experiment's axis in words."""
    match row["kind"]:
        case "incremental":
            return f"k = {row['preserved']}"
        case "localized":
            first = int(row["first"])
            block = span(first, first + int(row["block_size"]) - 1)
            return f"{'layer' if row['block_size'] == 1 else 'layers'} {block} {mode_name(row['mode'])}"
        case "permutation":
            return f"permutation {row['permutation']}"
        case "probing":
            return f"layer {row['layer']}"
        case "heads":
            return f"layer {row['layer']}, head {row['head']}"
        case "sequential" | "interleaved":
            return chain_name(row["chain"])
        case _:
            return short(row["variant"])


def datasets(datasets: Sequence[Sequence[Any]], *, published: bool = False) -> TextTable:
    """The data sets of a study (Table 2), from rows of (task, train, validation, input, labels, metric).

    Options: `published`, whether to lay the paper's own numbers beside.
    """
    names = ["task", "train", "validation", "input", "labels", "metric"]
    data = pd.DataFrame([list(row) for row in datasets], columns=names)
    shown = [
        [task_name(task), f"{train:,}", f"{validation:,}", printable(kind), printable(labels), metric_name(metric)]
        for task, train, validation, kind, labels, metric in datasets
    ]
    columns = ["Task", "Train", "Validation", "Input", "Labels", "Metric"]
    note = ""
    if published:
        known = published_table("datasets")
        theirs = [known.find(task=row[0]) for row in datasets]
        for key in ("train", "validation"):
            columns.append(f"Published {key}")
            data[f"published_{key}"] = [row[key] if row else None for row in theirs]
            for i, row in enumerate(theirs):
                shown[i].append(row[key] if row else "–")
        note = f"Published: {known.source}; {known.what}."
    right = frozenset({"Train", "Validation", "Published train", "Published validation"})
    return TextTable(columns, shown, data, note=note, right=right)
