"""What each layer adds: paired over trials, against the next smaller number of layers and against all of them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from scipy import stats

from palimpsest.errors import NothingFinished, NotInStudy
from palimpsest.figures.gains import gains

STUDY: dict[str, Any] = {
    "tasks": ["sst2", "cola"],
    "experiments": [{"kind": "incremental", "sizes": [500, "5k"], "trials": 4}],
}
SCORES = {0: 0.5, 1: 0.6, 2: 0.9, 3: 0.8}
OWN = [0.0, 0.05, -0.05, 0.02]  # each trial is better or worse than others at every k
ODD = [0.003, -0.001, 0.002, -0.004]  # and has its own luck with two layers


def scored(table: pd.DataFrame) -> pd.DataFrame:
    table["score"] = [
        SCORES[int(k)] + OWN[int(trial)] + (ODD[int(trial)] if k == 2 else 0)
        for k, trial in zip(table["preserved"], table["trial"], strict=True)
    ]
    return table


def test_gains_are_of_pairs_and_know_the_intact_encoder(tables: Any) -> None:
    found = gains(scored(tables(STUDY, depth=3).table))
    assert len(found.rows) == 2 * 2 * 4
    assert [row[:3] for row in found.rows[:5]] == [["SST-2", "500", str(k)] for k in range(4)] + [["SST-2", "5k", "0"]]
    none, one, two, three = found.data.iloc[:4].to_dict("records")
    assert found.rows[0][3:6] == found.rows[3][6:9] == ["–"] * 3
    assert (none["gain_n"], none["to_all_n"], three["to_all_n"]) == (0, 4, 0)
    assert none["to_all"] == pytest.approx(-0.3)
    assert one["gain"] == pytest.approx(0.1)
    assert two["gain"] == pytest.approx(0.3)
    assert three["gain"] == pytest.approx(-0.1)
    t = stats.ttest_1samp([0.3 + odd for odd in ODD], 0.0)
    assert two["gain_p"] == pytest.approx(t.pvalue)
    assert (two["gain_low"], two["gain_high"]) == pytest.approx(tuple(t.confidence_interval()))
    assert two["gain_corrected"] == pytest.approx(3 * t.pvalue)  # the smallest of three
    assert found.rows[2][3] == "+0.300"
    assert found.rows[2][5] == "<0.001"


def test_experiments_have_curves_of_their_own(tables: Any) -> None:
    same = {"kind": "incremental", "sizes": [500], "trials": 2}
    slow = {**same, "label": "slow", "protocol": {"learning_rate": 1.0e-6}}
    table = tables({"tasks": ["sst2"], "experiments": [{**same, "label": "mine"}, slow]}, depth=3).table
    found = gains(table)
    assert [row[0] for row in found.rows] == ["mine"] * 4 + ["slow"] * 4
    assert found.columns[0] == "Experiment"


def test_some_trials_and_some_layers(tables: Any) -> None:
    table = scored(tables(STUDY, depth=3).table)
    there = (table["trial"] < 2) | table["preserved"].isin([0, 2])
    table.loc[~there, "status"] = "missing"
    data = gains(table[table["preserved"] != 3], tasks=["cola"]).data
    assert set(data["task"]) == {"cola"}
    assert list(data["gain_n"])[:3] == [0, 2, 2]  # pairs of which both are finished
    table.loc[table["preserved"] > 0, "status"] = "missing"
    with pytest.raises(NothingFinished):
        gains(table)


def test_one_number_of_layers_is_no_curve(tables: Any) -> None:
    one = {"tasks": ["sst2"], "experiments": [{"kind": "incremental", "preserved": ["L"], "sizes": [500], "trials": 2}]}
    with pytest.raises(NotInStudy, match="two numbers of layers"):
        gains(tables(one, depth=3).table)
    other = {"tasks": ["sst2"], "experiments": [{"kind": "permutation", "permutations": 2, "sizes": [500]}]}
    with pytest.raises(NotInStudy, match="incremental"):
        gains(tables(other, depth=3).table)
