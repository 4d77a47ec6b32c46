"""Figure 2: what is drawn, looked at through the artists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from figure_artists import bar_ends, footnote, legend, lines, places

from palimpsest.analysis.statistics import mean_interval
from palimpsest.errors import PalimpsestError, StoreError, UnknownName
from palimpsest.figures.incremental import incremental

EXPERIMENT: dict[str, Any] = {"kind": "incremental", "sizes": [500, "5k"], "trials": {"500": 4, "default": 2}}
STUDY: dict[str, Any] = {"tasks": ["sst2", "cola"], "experiments": [EXPERIMENT]}


def test_one_panel_per_task_one_line_per_size(tables: Any) -> None:
    made = tables(STUDY, depth=4)
    figure = incremental(made.table)
    assert [ax.get_title() for ax in figure.axes] == ["SST-2", "CoLA"]
    assert [ax.get_ylabel() for ax in figure.axes] == ["Accuracy", "MCC"]
    assert {ax.get_xlabel() for ax in figure.axes} == {"Layers preserved (k)"}
    assert legend(figure) == ["500", "5k"]
    assert footnote(figure) == "mean of n = 2 to 4 trials; bars: 95 % t intervals"
    for ax in figure.axes:
        assert len(lines(ax)) == 2
        for line in lines(ax):
            assert places(line) == [0, 1, 2, 3, 4]
            assert line.get_linestyle() == "-"


def test_means_and_bars_are_those_of_the_table(tables: Any) -> None:
    made = tables(STUDY, depth=4)
    figure = incremental(made.table)
    table = made.table
    at = table[(table["task"] == "sst2") & (table["size"] == "500") & (table["preserved"] == 3)]
    expected = mean_interval(at["score"])
    ax = figure.axes[0]
    assert lines(ax)[0].get_ydata()[3] == pytest.approx(expected.mean)
    assert bar_ends(ax, 0)[3].tolist() == pytest.approx([expected.low, expected.high])


def test_larger_sizes_are_darker(tables: Any) -> None:
    figure = incremental(tables(STUDY, depth=2).table)
    brightness = [np.mean(line.get_color()[:3]) for line in lines(figure.axes[0])]
    assert brightness == sorted(brightness, reverse=True)


def test_probing_is_dashed_and_can_be_left_out(tables: Any) -> None:
    made = tables(STUDY | {"experiments": [EXPERIMENT, {"kind": "probing", "trials": 2}]}, depth=3)
    figure = incremental(made.table)
    dashed = [line for line in lines(figure.axes[0]) if line.get_linestyle() == "--"]
    assert [places(line) for line in dashed] == [[0, 1, 2, 3]]
    assert legend(figure) == ["500", "5k", "all, probing layer k"]
    assert legend(incremental(made.table, probing=False)) == ["500", "5k"]


def test_error_bars_do_not_hide_each_other(tables: Any) -> None:
    made = tables(STUDY | {"experiments": [EXPERIMENT, {"kind": "probing", "trials": 2}]}, depth=3)
    at_three = [line.get_xdata()[3] for line in lines(incremental(made.table).axes[0])]
    assert np.diff(at_three).tolist() == pytest.approx([0.14, 0.14])
    assert np.mean(at_three) == pytest.approx(3)
    alone = incremental(made.table, sizes=[500], probing=False)
    assert lines(alone.axes[0])[0].get_xdata().tolist() == [0, 1, 2, 3]


def test_an_unfinished_study_draws_what_is_there(tables: Any) -> None:
    made = tables(STUDY, depth=4, keep=lambda cell: cell.at["trial"] == 0 and cell.at["preserved"] != 2)
    figure = incremental(made.table)
    assert footnote(figure) == "one trial per point; missing: 44 of 60 trials"
    for ax in figure.axes:
        for number, line in enumerate(lines(ax)):
            assert places(line) == [0, 1, 3, 4]
            assert all(low == high for low, high in bar_ends(ax, number)), "a mean of one trial has no bar"


def test_nothing_finished(tables: Any) -> None:
    with pytest.raises(StoreError, match="nothing finished yet: none of these 60 trials"):
        incremental(tables(STUDY, depth=4, keep=lambda _: False).table)


def test_tasks_and_sizes_can_be_chosen(tables: Any) -> None:
    made = tables(STUDY, depth=2)
    figure = incremental(made.table, tasks=["cola"], sizes=[5000])
    assert [ax.get_title() for ax in figure.axes] == ["CoLA"]
    assert legend(figure) == ["5k"]
    with pytest.raises(UnknownName, match="Did you mean 'cola'"):
        incremental(made.table, tasks=["kola"])
    with pytest.raises(UnknownName, match="unknown size '7'"):
        incremental(made.table, sizes=[7])


def test_protocols_are_never_averaged(tables: Any) -> None:
    other = EXPERIMENT | {"protocol": {"extends": "paper", "learning_rate": 1e-4, "name": "fast"}}
    made = tables(STUDY | {"experiments": [EXPERIMENT, other]}, depth=2)
    with pytest.raises(PalimpsestError, match=r"different trials at the same point \(protocols: paper, fast\)"):
        incremental(made.table)
    made = tables(STUDY | {"experiments": [EXPERIMENT, other | {"label": "faster"}]}, depth=2)
    fast = made.table[made.table["experiment"] == "faster"]
    figure = incremental(made.table, experiment="faster")
    mean = fast[(fast["task"] == "sst2") & (fast["size"] == "500") & (fast["preserved"] == 0)]["score"].mean()
    assert lines(figure.axes[0])[0].get_ydata()[0] == pytest.approx(mean)
    with pytest.raises(UnknownName, match="Did you mean 'faster'"):
        incremental(made.table, experiment="fastr")


def test_a_study_without_such_an_experiment(tables: Any) -> None:
    made = tables(STUDY | {"experiments": [{"kind": "permutation"}]}, depth=2)
    with pytest.raises(
        PalimpsestError, match="needs an experiment of kind 'incremental', but the study has: permutation"
    ):
        incremental(made.table)


def test_a_trial_in_two_parts_counts_once(tables: Any) -> None:
    twice = tables(STUDY | {"experiments": [EXPERIMENT, EXPERIMENT]}, depth=2)
    assert footnote(incremental(twice.table)) == "mean of n = 2 to 4 trials; bars: 95 % t intervals"


def test_a_score_that_is_not_a_number_is_not_drawn(tables: Any) -> None:
    table = tables(STUDY, depth=2).table
    table.loc[table["preserved"] == 1, "score"] = math.nan
    assert places(lines(incremental(table).axes[0])[0]) == [0, 2]
