"""Sequences of tasks: the matrix, its tests and its curves, on made-up results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from study_drawings import drawn, line, set_scores, tabled

from palimpsest.errors import NothingFinished, PalimpsestError, SpecError
from palimpsest.figures import style
from palimpsest.store import Record
from palimpsest.training.outcome import Outcome


@pytest.fixture
def sequence(tables: Any) -> Any:
    experiments = [
        {"kind": "sequential", "chains": [["mrpc", "wnli"]], "sizes": ["all"], "trials": 5},
        {"kind": "interleaved", "tasks": ["rte"], "together": [["rte", "mrpc"]], "sizes": ["all"], "trials": 5},
    ]
    made = tables({"tasks": ["mrpc", "rte", "wnli"], "experiments": experiments})
    gains = {("rte", "mrpc"): 0.05, ("mrpc", "wnli"): -0.03, ("rte", "with rte, mrpc"): 0.02}

    def score(at: dict[str, Any]) -> float:
        noise = 1e-4 * ((at["trial"] * 7 + len(at["chain"])) % 3)  # another one for each chain
        return 0.6 + 0.01 * at["trial"] + gains.get((at["task"], at["chain"]), 0.0) + noise

    set_scores(made, score)
    return made


def test_the_matrix_has_the_baseline_on_its_diagonal(sequence: Any) -> None:
    table = tabled(sequence, "sequential-matrix")
    assert list(table.columns)[:4] == ["", "MRPC", "RTE", "WNLI"]
    assert "after MRPC, WNLI" in table.columns
    assert "with RTE, MRPC" in table.columns
    rte = next(row for row in table.rows if row[0] == "RTE")
    assert rte[1].endswith("]+")  # best of its row, and above the baseline
    assert "[" not in rte[2]
    mrpc = next(row for row in table.rows if row[0] == "MRPC")
    assert "+" not in mrpc[3]


def test_sequences_are_tested_in_pairs(sequence: Any) -> None:
    data = tabled(sequence, "sequential-tests").data.set_index(["task", "chain"])
    assert data.loc[("rte", "mrpc"), "difference"] == pytest.approx(0.05, abs=1e-3)
    assert data.loc[("rte", "mrpc"), "corrected"] < 0.05
    assert data.loc[("rte", "wnli"), "corrected"] > 0.5
    assert pd.isna(data.loc[("rte", "direct"), "p"])
    assert data.loc[("rte", "mrpc"), "best"]


def test_the_heat_map_of_sequences(sequence: Any) -> None:
    figure = drawn(sequence, "sequential", interval="median")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert any(text.startswith("[") for text in texts)
    assert "Final task" in figure.axes[0].get_ylabel()


def test_cells_hold_intervals_and_the_baseline_is_framed(sequence: Any) -> None:
    figure = drawn(sequence, "sequential")
    ax = figure.axes[0]
    texts = {text.get_position(): text.get_text() for text in ax.texts}
    data = tabled(sequence, "sequential-tests").data.set_index(["task", "chain"])
    direct = data.loc[("mrpc", "direct")]
    assert f"({direct['low']:.3f}, {direct['high']:.3f})" in texts.values()
    assert [(round(p.get_x() + 0.49), round(p.get_y() + 0.49)) for p in ax.patches] == [(0, 0), (1, 1), (2, 2)]
    columns = [label.get_text() for label in ax.get_xticklabels()]
    assert columns == ["MRPC", "RTE", "WNLI", "MRPC\nthen WNLI", "with\nRTE,\nMRPC"]
    assert texts[3, 2] == "–"  # WNLI does not follow upon itself


def test_rows_of_the_tests_go_task_by_task(sequence: Any) -> None:
    rows = tabled(sequence, "sequential-tests").rows
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=["MRPC", "RTE", "WNLI"].index)


def test_lines_without_an_order_differ_in_hue_and_stroke(sequence: Any) -> None:
    figure = drawn(sequence, "curves", kind="sequential")
    legend = figure.legends[0]
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["direct", "after MRPC", "after RTE", "after WNLI", "after MRPC, WNLI"]
    looks = {(found.get_color(), found.get_linestyle()) for found in legend.get_lines()}
    assert len(looks) == len(names)


def test_curves_of_different_length_go_on_while_half_of_the_trials_do(tables: Any) -> None:
    made = tables(
        {"tasks": ["rte"], "experiments": [{"kind": "incremental", "preserved": [12], "sizes": ["all"], "trials": 2}]}
    )
    set_scores(made, lambda _: 0.5)
    long, short = made.cells
    for cell, curve in ((long, ((2, 1.0), (4, 0.8), (6, 0.6), (8, 0.4))), (short, ((1, 0.5), (3, 0.5), (5, 0.4)))):
        held = made.store.held[cell.trial.identity]
        made.store.held[cell.trial.identity] = Record(cell.trial, replace(held.outcome, curve=curve), held.provenance)
    figure = drawn(made, "curves")
    found = figure.axes[0].lines[0]
    assert list(found.get_xdata()) == [2, 4, 6, 8]
    np.testing.assert_allclose(found.get_ydata(), [(1 + 0.5) / 2, (0.8 + 0.45) / 2, 0.6, 0.4])
    assert "running mean" not in figure._supxlabel.get_text()  # four points are not smoothed


def test_a_curve_of_one_step_is_a_dot(tables: Any) -> None:
    made = tables(
        {"tasks": ["rte"], "experiments": [{"kind": "incremental", "preserved": [12], "sizes": ["all"], "trials": 1}]}
    )
    [held] = made.store.held.values()
    made.store.held[held.id] = Record(held.trial, replace(held.outcome, curve=((1, 0.7),)), held.provenance)
    figure = drawn(made, "curves")
    assert figure.axes[0].lines[0].get_marker() == "o"
    assert "one trial per line" in figure._supxlabel.get_text()
    with pytest.raises(SpecError, match="option smooth of the figure curves"):
        drawn(made, "curves", smooth=0)


def test_a_matrix_without_a_baseline_has_scores_and_no_colours(tables: Any) -> None:
    experiment = {"kind": "sequential", "direct": False, "sizes": ["all"], "trials": 2}
    made = tables({"tasks": ["mrpc", "rte"], "experiments": [experiment]})
    set_scores(made, lambda at: 0.6 + 0.1 * at["trial"])
    figure = drawn(made, "sequential")
    assert len(figure.axes) == 1  # no colour bar
    assert "[0.650]" in [text.get_text() for text in figure.axes[0].texts]


def test_when_all_trials_have_failed(tables: Any) -> None:
    made = tables({"tasks": ["mrpc", "rte"], "experiments": [{"kind": "sequential", "sizes": ["all"], "trials": 1}]})
    for id, held in made.store.held.items():
        made.store.held[id] = Record(held.trial, Outcome("failed", "the loss became nan", "accuracy"), {})
    with pytest.raises(NothingFinished, match="4 of 4 trials failed; `palimpsest status` says why"):
        drawn(made, "sequential")


def test_five_panels_are_three_and_two() -> None:
    _, axes = style.panels(5)
    assert {ax.get_subplotspec().get_gridspec().get_geometry() for ax in axes} == {(2, 3)}


@pytest.mark.parametrize("kind", ["sequential", "interleaved"])
def test_loss_curves_of_sequences(sequence: Any, kind: str) -> None:
    figure = drawn(sequence, "curves", kind=kind, smooth=1)
    np.testing.assert_allclose(line(figure).get_ydata(), [0.7, 0.5, 0.4])


def test_loss_curves_in_the_reports_numbering(tables: Any) -> None:
    made = tables({"tasks": ["rte"], "experiments": [{"kind": "incremental", "preserved": [0, 12], "sizes": ["all"]}]})
    set_scores(made, lambda at: at["preserved"] / 12)
    figure = drawn(made, "curves", own_numbering=True)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["1", "13"]


def test_the_small_print_is_no_wider_than_a_small_figure(tables: Any) -> None:
    made = tables({"tasks": ["rte", "cola"], "experiments": [{"kind": "sequential", "sizes": [200], "trials": 3}]})
    figure = drawn(made, "sequential")
    assert figure._supxlabel.get_window_extent().x1 <= figure.bbox.x1


def test_protocols_are_not_mixed_between_kinds(tables: Any) -> None:
    parts = [
        {"kind": "sequential", "sizes": ["all"], "trials": 3},
        {"kind": "interleaved", "tasks": ["rte"], "together": [["rte", "mrpc"]], "sizes": ["all"], "trials": 3,
         "protocol": {"learning_rate": 1.0e-6}},
    ]  # fmt: skip
    with pytest.raises(PalimpsestError, match="sequential and interleaved has different trials at the same point"):
        tabled(tables({"tasks": ["mrpc", "rte"], "experiments": parts}), "sequential-tests")


def test_means_and_differences_say_of_how_many(tables: Any) -> None:
    made = tables({"tasks": ["mrpc", "rte"], "experiments": [{"kind": "sequential", "sizes": ["all"], "trials": 4}]},
                  keep=lambda cell: cell.at["chain"] != "direct" or cell.at["trial"] < 2)  # fmt: skip
    shown = {(row[0], row[1]): row[-1] for row in tabled(made, "sequential-tests").rows}
    assert shown["RTE", "direct"] == "2"
    assert shown["RTE", "after MRPC"] == "4 (2 pairs)"
