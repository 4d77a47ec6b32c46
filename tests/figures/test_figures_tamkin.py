"""Protocols side by side, runtime, claims, and published numbers beside one's own."""

from __future__ import annotations

import math
from typing import Any

import pytest
from figure_artists import error_bars, footnote, legend, lines
from matplotlib.colors import to_hex

from palimpsest.analysis.claims import Finding
from palimpsest.errors import NothingFinished, UnknownName
from palimpsest.figures import style
from palimpsest.figures.registry import figure_of, table_of, with_published
from palimpsest.figures.runtime import duration
from palimpsest.specs.study import Drawing, Study

GRID = {"kind": "incremental", "sizes": [500, "5k"], "trials": 3, "preserved": [0, 2, 4]}
TWO: dict[str, Any] = {
    "tasks": ["sst2", "cola"],
    "experiments": [
        {**GRID, "label": "paper"},
        {**GRID, "label": "near-zero-init", "protocol": "near-zero-init"},
        {"kind": "probing", "label": "paper", "trials": 2},
    ],
}


def test_protocols_stand_side_by_side(tables: Any) -> None:
    found = tables(TWO, depth=4)
    figure = figure_of(found.table, Drawing(kind="side-by-side"))
    assert len(figure.axes) == 4  # tasks × protocols
    first, second, third, fourth = figure.axes
    assert [ax.get_title() for ax in (first, second)] == ["paper", "near-zero-init"]
    assert "SST-2" in first.get_ylabel()
    assert "CoLA" in third.get_ylabel()
    assert "MCC" in third.get_ylabel()
    assert first.get_ylim() == second.get_ylim()
    assert third.get_ylim() == fourth.get_ylim() != first.get_ylim()
    assert len(error_bars(first)) == 3  # two sizes and probing
    assert len(error_bars(second)) == 2  # near-zero-init has no probing of its own
    assert [line.get_linestyle() for line in lines(first)] == ["-", "-", "--"]
    grey = [line for line in second.lines if to_hex(line.get_color()) == style.GREY.lower()]
    assert len(grey) == 2  # the first column's sizes, for comparison
    assert {"500", "5k", "probing layer k"} <= set(legend(figure))
    assert "95 % t intervals" in footnote(figure)


def test_side_by_side_draws_what_is_there_and_says_what_is_missing(tables: Any) -> None:
    found = tables(TWO, depth=4, keep=lambda cell: cell.at["experiment"] == "paper")
    figure = figure_of(found.table, Drawing(kind="side-by-side"))
    assert [line.get_xdata().tolist() for line in lines(figure.axes[1])] == [[4], [4]]  # intact: the paper's own trials
    assert "missing: 24 of" in footnote(figure)
    one = figure_of(found.table, Drawing(kind="side-by-side", options={"experiments": ["paper"], "sizes": [500]}))
    assert len(one.axes) == 2
    with pytest.raises(NothingFinished, match="nothing finished yet"):
        figure_of(tables(TWO, depth=4, keep=lambda _: False).table, Drawing(kind="side-by-side"))
    with pytest.raises(UnknownName, match="near-zero"):
        figure_of(found.table, Drawing(kind="side-by-side", options={"experiments": ["near-zero"]}))


def test_runtime_lies_beside_the_papers(tables: Any) -> None:
    found = tables({"tasks": ["sst2"], "experiments": [
        {"kind": "incremental", "sizes": [500, 700], "trials": 2, "preserved": [0, 4]},
        {"kind": "probing", "trials": 1, "layers": [0, 1]},
    ]}, depth=4, keep=lambda cell: cell.at["size"] != "700")  # fmt: skip
    shown = table_of(found.table, Drawing(kind="runtime"))
    rows = {row[0]: row[1:] for row in shown.rows}
    assert rows["incremental, 500 examples"] == ["4", "400", "4 s", "4 s", "45 GPU-hours"]
    assert rows["incremental, 700 examples"] == ["0 of 4", "0", "0 s", "–", "–"]
    assert rows["probing, all examples"][-1] == "22 GPU-days"
    assert rows["in all"][:4] == ["6 of 10", "600", "6 s", "–"]
    assert shown.data["published_hours"].tolist()[0] == pytest.approx(45)
    assert "Titan XP" in shown.note
    assert "missing" in shown.note


def test_the_time_that_missing_trials_would_take(tables: Any) -> None:
    study = {"tasks": ["sst2"], "experiments": [{"kind": "incremental", "sizes": [500], "trials": 5, "preserved": [0]}]}
    half = tables(study, depth=4, keep=lambda cell: cell.at["trial"] < 2)
    rows = table_of(half.table, Drawing(kind="runtime")).rows
    assert [row[1:5] for row in rows] == 2 * [["2 of 5", "200", "2 s", "5 s"]]
    assert "All at this pace" not in table_of(tables(study, depth=4).table, Drawing(kind="runtime")).columns


def test_missing_trials_of_a_slow_task_would_take_long(tables: Any) -> None:
    one = {"kind": "incremental", "sizes": [500], "trials": 4, "preserved": [0]}
    made = tables({"tasks": ["sst2", "qnli", "cola"], "experiments": [one]}, depth=4, keep=lambda cell: (
        cell.at["trial"] < {"sst2": 4, "qnli": 1, "cola": 0}[cell.at["task"]]))  # fmt: skip
    table = made.table
    table.loc[table["task"] == "qnli", "seconds"] = 6.0
    [row, _] = table_of(table, Drawing(kind="runtime")).rows
    assert row[1:5] == ["5 of 12", "500", "10 s", "36 s"]  # 4 × 1, 4 × 6, and of the task without any 4 × 2


def test_durations_have_a_unit_that_people_use() -> None:
    assert [duration(h) for h in (10 / 3600, 0.5, 2, 100)] == ["10 s", "30 min", "2 h", "4.17 days"]


FINDINGS = [
    Finding(1, "", "paper", "SST-2, 5k against 500, k = 6", "benefit", 0.1, 0.05, 0.15, "supported"),
    Finding(1, "", "paper", "CoLA, 5k against 500, k = 6", "benefit", 0.1, 0.02, 0.18, "supported"),
    Finding(4, "", "paper", "SST-2, 5k", "shuffled minus intact", -0.2, -0.3, -0.1, "supported"),
    Finding(1, "", "released-code", "SST-2, …", "benefit", 0.0, -0.01, 0.01, "contradicted"),
    Finding(1, "", "5 × rate", "SST-2", "benefit", reason="needs two sizes"),
]


def test_claims_with_their_effects_intervals_and_verdicts(tables: Any) -> None:
    shown = table_of(tables(TWO).table, Drawing(kind="claims"), claims=FINDINGS)
    assert shown.columns == ["Claim", "Protocol", "Where", "Effect", "Size", "95 % interval", "Verdict"]
    assert [
        "1",
        "paper",
        "SST-2, 5k against 500, k = 6",
        "benefit",
        "0.100",
        "(0.050, 0.150)",
        "supported",
    ] in shown.rows
    assert [row[-1] for row in shown.rows if row[2] == "claim as a whole"] == ["SUPPORTED", "CONTRADICTED", "SUPPORTED"]
    assert not any("5 ×" in row[1] for row in shown.rows)  # nothing could be tested under it
    assert len(shown.data) == 4
    alone = table_of(tables(TWO).table, Drawing(kind="claims"), claims=FINDINGS[-1:])
    assert alone.rows[0][-1] == "not decided yet: needs two sizes"
    assert math.isnan(alone.data["effect"].iloc[0])


def test_claims_protocol_by_protocol(tables: Any) -> None:
    shown = table_of(tables(TWO).table, Drawing(kind="claims-by-protocol"), claims=FINDINGS)
    assert shown.rows == [
        ["paper", "supported", "–", "–", "supported"],
        ["released-code", "contradicted", "–", "–", "–"],
    ]
    with pytest.raises(NothingFinished):
        table_of(tables(TWO).table, Drawing(kind="claims"), claims=[])


def test_published_numbers_are_laid_beside_where_there_are_any(tables: Any) -> None:
    study = Study.parse({
        "name": "s", "tasks": ["sst2", "cola", "mini-sentiment"],
        "experiments": [{"kind": "permutation", "sizes": ["5k"]}, {**GRID, "label": "paper"}],
        "figures": [{"kind": "incremental"}, {"kind": "permutation"}], "tables": [{"kind": "correlations"}],
    }, "test")  # fmt: skip
    beside = with_published(study)
    assert [d.options for d in beside.figures] == [{"published": True}, {}]
    found = tables(study.model_dump(exclude={"name"}), depth=4)
    curves = figure_of(found.table, beside.figures[0])
    dotted = [[line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == ":"] for ax in curves.axes]
    assert dotted == [[0.935], [0.521], []]  # nobody has published a miniature
    assert "Devlin" in footnote(curves)
    assert "published, intact BERT-base" in legend(curves)
    table = table_of(found.table, beside.tables[0])
    assert table.columns[-2:] == ["Published Spearman", "Published Pearson"]
    assert table.rows[0][0] == "SST-2, CoLA"
    assert table.rows[0][-2:] == ["0.74 (0.02)", "0.77 (0.01)"]
    assert table.rows[1][-2:] == ["–", "–"]
    sets = [("sst2", 67_349, 872, "sentence", "a, b", "accuracy"), ("mine", 10, 5, "sentence", "a, b", "accuracy")]
    data = table_of(found.table, Drawing(kind="datasets", options={"published": True}), datasets=sets)
    assert [row[-2:] for row in data.rows] == [["67k", "872k"], ["–", "–"]]


def test_what_two_experiments_share_is_reckoned_once(tables: Any) -> None:
    study = {"tasks": ["sst2"], "experiments": [
        {"kind": "incremental", "sizes": [500], "trials": 2, "preserved": [0, 4]},
        {"kind": "localized", "block_size": 4, "sizes": [500], "trials": 2, "mode": "reinitialized"},
    ]}  # fmt: skip
    made = tables(study, depth=4, keep=lambda cell: cell.at["trial"] < 1)
    rows = {row[0]: row[1:5] for row in table_of(made.table, Drawing(kind="runtime")).rows}
    assert rows["localized, 500 examples"] == ["1 of 2", "100", "1 s", "2 s"]
    assert rows["in all"] == ["2 of 4", "200", "2 s", "4 s"]
