"""The figures of Singh and Giovanardi: axes from either end, equal sizes, drift and CKA, on made-up results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from study_drawings import drawn, line, set_scores

from palimpsest.errors import PalimpsestError
from palimpsest.figures.registry import figure_of
from palimpsest.specs.study import Drawing
from palimpsest.store import Record


@pytest.mark.parametrize(
    ("axis", "places"), [("preserved", [0, 6, 12]), ("reinitialized", [0, 6, 12]), ("from", [1, 7, 13])]
)
def test_the_incremental_figure_counts_as_each_report_does(tables: Any, axis: str, places: list[int]) -> None:
    made = tables(
        {"tasks": ["sst2"], "experiments": [{"kind": "incremental", "preserved": [0, 6, 12], "sizes": [500]}]}
    )
    set_scores(made, lambda at: 0.5 + at["preserved"] / 100)
    drawn_line = line(drawn(made, "incremental", axis=axis))
    assert list(drawn_line.get_xdata()) == places
    expected = [0.5, 0.56, 0.62]
    np.testing.assert_allclose(drawn_line.get_ydata(), expected[::-1] if axis == "reinitialized" else expected)


@pytest.fixture
def equal(tables: Any) -> Any:
    """Two tasks that have about as many examples at different fractions, as in Singh and Giovanardi's Figure 1."""
    parts = [
        {"kind": "incremental", "label": "equal size", "tasks": [task], "sizes": [size], "preserved": [0, 6, 12]}
        for task, size in (("sst2", "1%"), ("qnli", "0.6%"))
    ]
    made = tables({"tasks": ["sst2", "qnli"], "experiments": parts})
    set_scores(made, lambda at: at["preserved"] / 12 * (0.8 if at["task"] == "sst2" else 0.6))
    for id, held in made.store.held.items():
        outcome = replace(held.outcome, train_examples=673 if held.trial.task == "sst2" else 628)
        made.store.held[id] = Record(held.trial, outcome, held.provenance)
    return made


def test_tasks_of_equal_size_share_a_panel(equal: Any) -> None:
    figure = drawn(equal, "overlay", experiment="equal size", axis="reinitialized")
    [ax] = figure.axes
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [
        "SST-2, 1% (673 examples)",
        "QNLI, 0.6% (628 examples)",
    ]
    first, second = line(figure, 0, 0), line(figure, 0, 1)
    np.testing.assert_allclose(first.get_ydata(), [0.8, 0.4, 0])
    np.testing.assert_allclose(second.get_ydata(), [0.6, 0.3, 0])
    assert first.get_color() != second.get_color()
    apart = np.asarray(second.get_xdata()) - np.asarray(first.get_xdata())
    assert ((apart > 0) & (apart < 0.5)).all()  # beside each other, and nearer to their own tick than to the next
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Layers re-initialised", "Accuracy")


def test_sizes_of_a_task_differ_by_stroke(tables: Any) -> None:
    experiment = {"kind": "incremental", "preserved": [0, 12], "sizes": [500, "all"]}
    made = tables({"tasks": ["sst2", "cola"], "experiments": [experiment]})
    figure = drawn(made, "overlay")
    lines = [line(figure, 0, n) for n in range(4)]
    assert [found.get_linestyle() for found in lines] == ["-", "--", "-", "--"]
    assert len({found.get_color() for found in lines}) == 2
    assert figure.axes[0].get_ylabel() == "Accuracy or MCC"
    assert figure.legends[0].get_texts()[0].get_text() == "SST-2, 500 examples"


@pytest.mark.parametrize("kind", ["overlay", "incremental"])
def test_a_title_makes_way_for_the_legend(equal: Any, kind: str) -> None:
    figure = figure_of(equal.table, Drawing(kind=kind, title="A title", options={"experiment": "equal size"}))
    FigureCanvasAgg(figure).draw()
    title = figure._suptitle.get_window_extent()
    legend = figure.legends[0].get_window_extent()
    panels = [ax.get_tightbbox() for ax in figure.axes]
    assert title.y1 <= figure.bbox.y1
    assert title.y0 > legend.y1
    assert legend.y0 > max(panel.y1 for panel in panels)


def test_probing_by_removing_layers_is_probing_from_the_top(tables: Any) -> None:
    made = tables({"tasks": ["sst2"], "experiments": [{"kind": "probing", "sizes": ["all"], "trials": 2}]})
    set_scores(made, lambda at: at["layer"] / 100)
    by_layer, removed = (line(drawn(made, "probing", axis=axis)) for axis in ("layer", "removed"))
    np.testing.assert_allclose(by_layer.get_ydata(), np.arange(13) / 100)
    np.testing.assert_allclose(removed.get_ydata(), np.arange(13)[::-1] / 100)
    assert list(removed.get_xdata()) == list(range(13))


@pytest.fixture
def drifting(tables: Any) -> Any:
    experiment = {"kind": "incremental", "preserved": ["L"], "sizes": ["1%", "all"], "measure": ["drift", "cka"]}
    made = tables({"tasks": ["sst2", "qnli"], "experiments": [experiment]}, depth=3)
    for id, held in made.store.held.items():
        reach = 1.0 if held.trial.size else 2.0
        one = {"frobenius": [reach, 2 * reach, 4 * reach], "spectral": [0.1, 0.3, 0.2],
               "frobenius_relative": [0.01, 0.02, 0.04], "spectral_relative": [0.1, 0.2, 0.3]}  # fmt: skip
        measures = {"drift": {"output": one, "query": one}, "cka": [1.0, 0.9, 0.8, 0.5]}
        made.store.held[id] = Record(held.trial, replace(held.outcome, measures=measures), held.provenance)
    return made


def test_drift_is_drawn_by_layer_and_size(drifting: Any) -> None:
    figure = drawn(drifting, "drift", distance="frobenius")
    assert [ax.get_title() for ax in figure.axes] == ["SST-2", "QNLI"]
    np.testing.assert_allclose(line(figure, 0, 0).get_ydata(), [1, 2, 4])
    np.testing.assert_allclose(line(figure, 1, 1).get_ydata(), [2, 4, 8])
    assert "output" in figure._supxlabel.get_text()


def test_drift_as_the_report_plots_it(drifting: Any) -> None:
    figure = drawn(drifting, "drift", distance="spectral", normalised=True)
    np.testing.assert_allclose(line(figure).get_ydata(), [0, 1, 0.5])
    relative = drawn(drifting, "drift", relative=True, matrix="query")
    np.testing.assert_allclose(line(relative).get_ydata(), [0.01, 0.02, 0.04])


def test_cka_begins_with_the_embeddings(drifting: Any) -> None:
    np.testing.assert_allclose(line(drawn(drifting, "cka")).get_ydata(), [1, 0.9, 0.8, 0.5])


def test_cka_without_embeddings_still_begins_with_layer_0(drifting: Any) -> None:
    for id, held in drifting.store.held.items():
        measures = {**held.outcome.measures, "cka": [float("nan"), 0.9, 0.8, 0.5]}
        drifting.store.held[id] = Record(held.trial, replace(held.outcome, measures=measures), held.provenance)
    figure = drawn(drifting, "cka")
    np.testing.assert_allclose(line(figure).get_ydata(), [0.9, 0.8, 0.5])
    assert list(figure.axes[0].get_xticks()) == [0, 1, 2, 3]
    assert "the first token's is the same in all examples" in figure._supxlabel.get_text()


def test_a_study_that_measured_nothing_is_told_how_to(tables: Any) -> None:
    made = tables({"tasks": ["sst2"], "experiments": [{"kind": "incremental", "sizes": [500], "preserved": ["L"]}]})
    with pytest.raises(PalimpsestError, match="measure"):
        drawn(made, "drift")
