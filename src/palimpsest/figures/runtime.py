"""What was spent here, against the account that the paper gives of itself (Appendix I.4)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from palimpsest.analysis import selection
from palimpsest.analysis.names import size_name
from palimpsest.analysis.published import published
from palimpsest.analysis.statistics import finished
from palimpsest.figures.text_table import TextTable


def runtime(table: pd.DataFrame) -> TextTable:
    """One row per kind of experiment and size: trials and time here, and the paper's GPU time for the same.

    Time is what was recorded with each trial, its share of a pack's; a trial in several cells counts once.
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
                "published_hours": hours, "published": printed["printed"] if printed else None,
            })  # fmt: skip
    data = pd.DataFrame(found)
    both = data.dropna(subset=["published_hours"])
    shown = [
        [f"{row['kind']}, {size_name(row['size'])}", _count(row["trials"], row["planned"]), f"{row['steps']:,}",
         duration(row["hours"]), row["published"] or "–"]
        for row in found
    ]  # fmt: skip
    shown.append(
        ["in all", _count(int(data["trials"].sum()), int(data["planned"].sum())), f"{data['steps'].sum():,}",
         duration(data["hours"].sum()), f"{duration(both['published_hours'].sum())} of a GPU" if len(both) else "–"]
    )  # fmt: skip
    note = f"Published: {account.source}."
    missing = selection.missing_note(table)
    note += f"\n{missing}: the time here is that of finished trials only." if missing else ""
    columns = ["Experiment", "Trials", "Steps", "Time here", "Published"]
    return TextTable(columns, shown, data, note=note, right=frozenset(columns[1:]))


def duration(hours: float) -> str:
    """Hours in the unit that people would use."""
    for limit, factor, unit in ((1 / 60, 3600, "s"), (1.5, 60, "min"), (48, 1, "h")):
        if hours < limit:
            return f"{hours * factor:.3g} {unit}"
    return f"{hours / 24:.3g} days"


def _count(done: int, planned: int) -> str:
    return f"{done:,}" if done == planned else f"{done:,} of {planned:,}"
