"""How much an experiment differs from another one with the same seeds, over all numbers of layers."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from palimpsest.errors import PalimpsestError, StoreError
from palimpsest.figures.comparison import differences

SAME = {"kind": "incremental", "sizes": [500], "trials": 3}
STUDY: dict[str, Any] = {
    "tasks": ["sst2", "cola"],
    "experiments": [
        {**SAME, "label": "mine"},
        {**SAME, "label": "kept", "protocol": {"initialiser": {"layer_norm": "keep"}}},
        {**SAME, "label": "slow", "protocol": {"learning_rate": 1.0e-6}},
    ],
}


def worse(table: pd.DataFrame, label: str, task: str, by: list[float]) -> pd.DataFrame:
    """The table with scores of one experiment that are those of `mine`, less so much in each trial, at k = 1 twice."""
    point = ["task", "preserved", "trial"]
    mine = table[table["experiment"] == "mine"].set_index(point)["score"]
    here = (table["experiment"] == label) & (table["task"] == task)
    for row in table[here].itertuples():
        same = mine[row.task, row.preserved, row.trial]
        table.loc[row.Index, "score"] = same - by[int(row.trial)] * (2 if row.preserved == 1 else 1)
    return table


def test_trials_are_paired_and_averaged_over_k(tables: Any) -> None:
    table = worse(worse(tables(STUDY, depth=3).table, "slow", "sst2", [0.1, 0.2, 0.3]), "slow", "cola", [0, 0, 0])
    found = differences(table)
    assert [row[:3] for row in found.rows] == [
        ["kept", "SST-2", "500"], ["kept", "CoLA", "500"], ["slow", "SST-2", "500"], ["slow", "CoLA", "500"],
    ]  # fmt: skip
    slow = found.data.iloc[2]
    assert slow["difference"] == pytest.approx(-0.25)  # four k, one of which counts twice
    assert (slow["most_at"], slow["n"]) == (1, 3)
    assert slow["most"] == pytest.approx(-0.4)
    assert found.rows[2][3] == "-0.250"
    assert found.rows[2][-1] == "-0.400 at k = 1"
    assert slow["p"] < slow["corrected"]
    assert found.data.iloc[3]["p"] == 1.0
    assert "Difference to mine" in found.note


def test_the_same_trial_is_no_comparison(tables: Any) -> None:
    """With all layers preserved nothing is re-initialised: that trial is the same under both labels."""
    table = worse(tables(STUDY, depth=3).table, "kept", "sst2", [0.1, 0.1, 0.1])
    shared = table[(table["preserved"] == 3) & table["experiment"].isin(["mine", "kept"])]
    assert shared["id"].nunique() == len(shared) / 2
    found = differences(table, experiments=["mine", "kept"], tasks=["sst2"])
    [row] = found.data.to_dict("records")
    assert row["difference"] == pytest.approx(-0.4 / 3)


def test_a_trial_without_its_pair_does_not_count(tables: Any) -> None:
    made = tables(STUDY, depth=3, keep=lambda c: c.at["experiment"] != "slow" or c.at["trial"] < 2)
    found = differences(made.table, experiments=["mine", "slow"])
    assert [row[5] for row in found.rows] == ["2", "2"]
    assert "missing: 8 of" in found.note


def test_nothing_to_compare(tables: Any) -> None:
    with pytest.raises(PalimpsestError, match="needs two incremental experiments"):
        differences(tables({**STUDY, "experiments": STUDY["experiments"][:1]}, depth=3).table)
    with pytest.raises(StoreError, match="nothing finished yet that could be compared with mine"):
        differences(tables(STUDY, depth=3, keep=lambda c: c.at["experiment"] == "mine").table)


def test_trials_that_are_not_complete_are_left_out_and_no_k_is(tables: Any) -> None:
    """A single failure must not hide what happens where it happened."""
    table = worse(tables(STUDY, depth=3).table, "slow", "sst2", [0.1, 0.2, 0.3])
    here = (table["experiment"] == "slow") & (table["task"] == "sst2")
    table.loc[here & (table["preserved"] == 1) & (table["trial"] == 2), "status"] = "failed"
    found = differences(table, experiments=["mine", "slow"], tasks=["sst2"])
    [row] = found.data.to_dict("records")
    assert (row["n"], row["most_at"]) == (2, 1)
    assert row["difference"] == pytest.approx(-0.15 * 5 / 4)
    assert "slow, SST-2 at 500: 2 of 3 trials" in found.note
    for k in range(4):  # now no trial is complete, and all but one k are not
        table.loc[here & (table["preserved"] == k) & (table["trial"] == k), "status"] = "failed"
    found = differences(table, experiments=["mine", "slow"], tasks=["sst2"])
    assert found.data["n"].tolist() == [3]
    assert "k = 3 alone" in found.note
    table.loc[here & (table["preserved"] == 3) & (table["trial"] == 0), "status"] = "failed"
    with pytest.raises(StoreError, match="nothing finished yet that could be compared with mine"):
        differences(table, experiments=["mine", "slow"], tasks=["sst2"])
