"""The summary table, in every form."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pytest

from palimpsest.errors import PalimpsestError, StoreError
from palimpsest.figures.by_layer import by_layer
from palimpsest.figures.tables import summary
from palimpsest.figures.text_table import TextTable

STUDY: dict[str, Any] = {
    "tasks": ["sst2", "cola"],
    "experiments": [{"kind": "incremental", "sizes": ["all", "5k", 500], "trials": 2, "preserved": [0, "L"]}],
}


def test_rows_come_by_task_size_and_point(tables: Any) -> None:
    made = tables(STUDY, depth=3)
    found = summary(made.table)
    assert list(found.columns) == ["Task", "Size", "Point", "Metric", "Mean", "95 % interval", "n"]
    assert [row[:4] for row in found.rows[:3]] == [
        ["SST-2", "500", "k = 0", "Accuracy"],
        ["SST-2", "500", "k = 3", "Accuracy"],
        ["SST-2", "5k", "k = 0", "Accuracy"],
    ]
    assert {row[3] for row in found.rows if row[0] == "CoLA"} == {"MCC"}
    assert {row[-1] for row in found.rows} == {"2"}


def test_every_kind_of_point_has_a_name(tables: Any) -> None:
    experiments = [
        {"kind": "localized", "block_size": 2, "mode": "preserved"},
        {"kind": "localized", "block_size": 1, "mode": "reinitialized", "label": "single"},
        {"kind": "permutation", "permutations": 2},
        {"kind": "probing", "layers": [1]},
        {"kind": "heads", "layers": [2], "heads": [3]},
        {"kind": "custom", "variants": {"mine": [{"kind": "reinitialize", "layers": [1]}]}},
    ]
    found = summary(tables({"tasks": ["sst2"], "experiments": experiments}, depth=2).table)
    assert [(row[0], row[3]) for row in found.rows] == [
        ("localized", "layers 1–2 preserved"),
        ("single", "layer 1 re-initialised"),
        ("single", "layer 2 re-initialised"),
        ("permutation", "permutation 1"),
        ("permutation", "permutation 2"),
        ("probing", "layer 1"),
        ("heads", "layer 2, head 3"),
        ("custom", "mine"),
    ]


def test_unfinished_points_are_there(tables: Any) -> None:
    made = tables(STUDY, depth=3, keep=lambda c: c.at["preserved"] == 0 and c.at["trial"] == 0)
    found = summary(made.table)
    assert found.rows[0][4:] == [f"{found.data['mean'].iloc[0]:.3f}", "–", "1 of 2"]
    assert found.rows[1][3:] == ["–", "–", "–", "0 of 2"]
    assert "missing: 18 of 24 trials" in found.text()
    with pytest.raises(StoreError, match="nothing finished yet"):
        summary(tables(STUDY, depth=3, keep=lambda _: False).table)


def test_the_csv_holds_full_precision(tables: Any) -> None:
    made = tables(STUDY, depth=3)
    found = summary(made.table, interval="2sigma")
    again = pd.read_csv(io.StringIO(found.csv()))
    table = made.table
    at = table[(table["task"] == "sst2") & (table["size"] == "500") & (table["preserved"] == 0)]["score"]
    assert again["mean"].iloc[0] == pytest.approx(at.mean(), abs=1e-15)
    assert again["high"].iloc[0] == pytest.approx(at.mean() + 2 * at.std(), abs=1e-12)


ODD = TextTable(
    ["Name", "n"],
    [["a_b & 5 % of $1 \\ {x} <i>|</i> *z*", "3"], ["±2σ, ρ – …\x1b[31m", "12"]],
    pd.DataFrame({"n": [3, 12]}),
    title="A_title",
    note="One\nTwo",
    right=frozenset({"n"}),
)


def test_plain_text_is_aligned_and_free_of_control_characters() -> None:
    lines = ODD.text().splitlines()
    assert lines[0] == "A_title"
    table = lines[2:6]
    assert len({len(line) for line in table}) == 1
    assert table[2].endswith("   3")
    assert "\x1b" not in ODD.text()
    assert lines[-2:] == ["One", "Two"]


def test_markdown_shows_names_literally() -> None:
    text = ODD.markdown()
    assert r"a\_b \& 5 % of \$1 \\ {x} \<i\>\|\</i\> \*z\*" in text
    assert "**A\\_title**" in text
    rule = text.splitlines()[3]
    assert rule.endswith(":|") or rule.endswith(": |")


def test_latex_shows_names_literally_and_needs_no_package() -> None:
    text = ODD.latex()
    assert r"a\_b \& 5 \% of \$1 \textbackslash{} \{x\} \textless{}i\textgreater{}|" in text
    assert r"$\pm$2$\sigma$, $\rho$ -- \dots{}" in text
    assert r"\begin{tabular}{lr}" in text
    assert text.isascii()
    assert text.splitlines()[0] == "% A_title"
    assert "% One Two" in text


CURVES: dict[str, Any] = {
    "tasks": ["sst2", "cola"],
    "experiments": [
        {"kind": "incremental", "sizes": [500, "5k"], "trials": {"500": 3, "default": 2}},
        {"kind": "probing", "trials": 2},
        {"kind": "localized", "block_size": 2, "trials": 2, "sizes": ["5k"]},
    ],
}


def test_a_curve_is_a_line_of_the_table(tables: Any) -> None:
    made = tables(CURVES, depth=3)
    found = by_layer(made.table)
    assert list(found.columns) == ["Experiment", "Task", "Size", "Metric", "0", "1", "2", "3", "±", "n"]
    assert [row[:4] for row in found.rows] == [
        ["incremental", "SST-2, k kept", "500", "Accuracy"],
        ["incremental", "SST-2, k kept", "5k", "Accuracy"],
        ["incremental", "CoLA, k kept", "500", "MCC"],
        ["incremental", "CoLA, k kept", "5k", "MCC"],
        ["probing", "SST-2, probed", "all", "Accuracy"],
        ["probing", "CoLA, probed", "all", "MCC"],
        ["localized", "SST-2, re-initialised from", "5k", "Accuracy"],
        ["localized", "SST-2, preserved from", "5k", "Accuracy"],
        ["localized", "CoLA, re-initialised from", "5k", "MCC"],
        ["localized", "CoLA, preserved from", "5k", "MCC"],
    ]
    assert [row[-1] for row in found.rows[:2]] == ["3", "2"]
    rows = summary(made.table).data
    here = rows[(rows["kind"] == "incremental") & (rows["task"] == "cola") & (rows["size"] == "500")]
    assert found.rows[2][4:8] == [f"{mean:.3f}" for mean in here["mean"]]
    assert found.rows[2][8] == f"{((here['high'] - here['low']) / 2).max():.3f}"
    assert found.rows[-1][4:8] == ["–", *found.rows[-1][5:7], "–"]


def test_curves_with_points_missing(tables: Any) -> None:
    study = {**CURVES, "experiments": CURVES["experiments"][:2]}
    made = tables(study, depth=3, keep=lambda c: c.at["kind"] == "incremental" and c.at["trial"] <= c.at["preserved"])
    found = by_layer(made.table, tasks=["sst2"])
    assert [row[-1] for row in found.rows] == ["1 to 3", "1 to 2"]
    assert "missing: " in found.note
    only: dict[str, Any] = {"tasks": ["sst2"], "experiments": [{"kind": "permutation", "permutations": 2}]}
    with pytest.raises(PalimpsestError, match="incremental, probing, localized; the study has: permutation"):
        by_layer(tables(only, depth=3).table)
    mixed = {"tasks": ["sst2"], "experiments": [*only["experiments"], {"kind": "incremental", "preserved": ["L"]}]}
    assert "Not in this table: permutation." in by_layer(tables(mixed, depth=3).table).note
