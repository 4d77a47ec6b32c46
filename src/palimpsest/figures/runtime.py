"""What was spent here, against the account that the paper gives of itself (Appendix I.4)."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from palimpsest.analysis import selection
from palimpsest.analysis.names import size_name
from palimpsest.analysis.published import published
from palimpsest.analysis.statistics import finished
from palimpsest.figures.text_table import TextTable


def runtime(table: pd.DataFrame) -> TextTable:
    """One row per kind of experiment and size: trials and time here, and the paper's GPU time for the same.

    Time is what was recorded with each trial, its share of a pack's; a trial in several cells counts once. Where trials
    are missing, a column says what all of them would take at the pace of those of their task that are there.
    """
    account = published("runtime")
    found: list[dict[str, Any]] = []
    for kind in selection.unique(table["kind"]):
        rows = table[selection.is_(table, "kind", kind)]
        for size in selection.sizes(rows):
            trials = rows[selection.is_(rows, "size", size)].drop_duplicates("id")
            done = trials[finished(trials)]
            printed = account.find(kind=kind, size=size)
            hours = None
            if printed:
                product = printed["epochs"] * printed["trials"] * printed["points"] * printed["tasks"]
                hours = printed["minutes_per_epoch"] * product / 60
            found.append({
                "kind": kind, "size": size, "trials": len(done), "planned": len(trials),
                "steps": int(done["steps"].fillna(0).sum()), "hours": float(done["seconds"].sum()) / 3600,
                "hours_of_all": _hours_of_all(trials), "published_hours": hours,
                "published": printed["printed"] if printed else None,
            })  # fmt: skip
    data = pd.DataFrame(found)
    whole = table.drop_duplicates("id")  # blocks and incremental share some
    all_done = whole[finished(whole)]
    both = data.dropna(subset=["published_hours"])
    names = [f"{row['kind']}, {size_name(row['size'])}" for row in found]
    columns = {
        "Experiment": [*names, "in all"],
        "Trials": [
            *(_count(n, of) for n, of in zip(data["trials"], data["planned"], strict=True)),
            _count(len(all_done), len(whole)),
        ],
        "Steps": [f"{steps:,}" for steps in (*data["steps"], int(all_done["steps"].fillna(0).sum()))],
        "Time here": [duration(hours) for hours in (*data["hours"], float(all_done["seconds"].sum()) / 3600)],
        "All at this pace": [
            duration(hours) if math.isfinite(hours) else "–"
            for hours in (*data["hours_of_all"], sum(_hours_of_all(t) for _, t in whole.groupby(["kind", "size"])))
        ],
        "Published": [
            *(row["published"] or "–" for row in found),
            f"{duration(both['published_hours'].sum())} of a GPU" if len(both) else "–",
        ],
    }
    note = f"Published: {account.source}."
    missing = selection.missing_note(table)
    if missing:
        note += f"\n{missing}: the time here is that of finished trials only."
    else:
        del columns["All at this pace"]
    shown = [list(row) for row in zip(*columns.values(), strict=True)]
    return TextTable(list(columns), shown, data, note=note, right=frozenset(list(columns)[1:]))


def _hours_of_all(trials: pd.DataFrame) -> float:
    """What all trials would take, each as long as the finished ones of its task on average, or else as those of any."""
    done = trials[finished(trials)]
    if done.empty:
        return math.nan
    usual = done.groupby("task")["seconds"].mean()
    return float(trials["task"].map(usual).fillna(done["seconds"].mean()).sum()) / 3600


def duration(hours: float) -> str:
    """Hours in the unit that people would use."""
    for limit, factor, unit in ((1 / 60, 3600, "s"), (1.5, 60, "min"), (48, 1, "h")):
        if hours < limit:
            return f"{hours * factor:.3g} {unit}"
    return f"{hours / 24:.3g} days"


def _count(done: int, planned: int) -> str:
    return f"{done:,}" if done == planned else f"{done:,} of {planned:,}"
