"""The figures and tables of the two CS224N reports, on made-up results."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from palimpsest.analysis.table import cka_table, curves_table, drift_table
from palimpsest.errors import NothingFinished, PalimpsestError, SpecError, UnknownName
from palimpsest.figures import style
from palimpsest.figures.registry import figure_of, table_of
from palimpsest.figures.schematic import layers_after, schematic
from palimpsest.specs.study import Drawing
from palimpsest.store import Record
from palimpsest.training.outcome import Outcome


def drawn(tables: Any, figure_kind: str, **options: Any) -> Any:
    material = {
        "drift": lambda: drift_table(tables.cells, tables.store),
        "cka": lambda: cka_table(tables.cells, tables.store),
        "curves": lambda: curves_table(tables.cells, tables.store),
    }
    figure = figure_of(tables.table, Drawing(kind=figure_kind, options=options), **material)
    figure.canvas.draw()
    return figure


def tabled(tables: Any, kind: str, **options: Any) -> Any:
    return table_of(tables.table, Drawing(kind=kind, options=options))


def set_scores(tables: Any, score: Any) -> None:
    """Give every trial the score that a function of its coordinates says."""
    for cell in tables.cells:
        held = tables.store.held[cell.trial.identity]
        metric = held.outcome.metric
        outcome = replace(held.outcome, metrics={metric: float(score(cell.at))}, curve=((1, 0.7), (2, 0.5), (3, 0.4)))
        tables.store.held[cell.trial.identity] = Record(cell.trial, outcome, held.provenance)


def line(figure: Any, panel: int = 0, number: int = 0) -> Any:
    """A line with error bars, or a plain one where there are none."""
    ax = figure.axes[panel]
    return ax.containers[number][0] if ax.containers else ax.lines[number]


# Axes


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


# Drift


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


# Heads


@pytest.fixture
def heads(tables: Any) -> Any:
    made = tables(
        {
            "tasks": ["cola", "stsb"],
            "experiments": [
                {"kind": "heads", "layers": [1, 2], "sizes": ["all"], "trials": 4},
                {"kind": "incremental", "preserved": ["L"], "sizes": ["all"], "trials": 4},
            ],
        },
        depth=2,
    )
    wobble = [0.001, -0.001, 0.002, -0.002]

    # Head 3 of layer 2 loses 0.1; the others nothing but a wobble. The trial's index moves head and baseline alike.
    def score(at: dict[str, Any]) -> float:
        loss = 0.1 if (at.get("layer"), at.get("head")) == (2, 3) else 0.0
        noise = wobble[(at["trial"] + at.get("head", 0)) % 4] if at["kind"] == "heads" else 0.0
        return 0.5 + 0.05 * at["trial"] - loss + noise

    set_scores(made, score)
    return made


def test_differences_of_heads_are_paired_and_corrected(heads: Any) -> None:
    data = tabled(heads, "heads-tests").data
    assert len(data) == 2 * 2 * 4
    loser = data[(data["layer"] == 2) & (data["head"] == 3)]
    np.testing.assert_allclose(loser["difference"], -0.1, atol=1e-9)
    assert (loser["corrected"] < 0.05).all()
    others = data.drop(loser.index)
    assert (others["corrected"] > 0.5).all()
    assert (data["corrected"] >= data["p"]).all()
    assert (data["n"] == 4).all()


def test_the_reports_tables_of_heads(heads: Any) -> None:
    table = tabled(heads, "heads-difference", tasks=["cola"])
    assert list(table.columns) == ["", "Head 1", "Head 2", "Head 3", "Head 4"]
    assert (table.rows[1][0], table.rows[1][3]) == ("Layer 2", "-0.100")
    by_layer = tabled(heads, "heads-by-layer", tasks=["cola"])
    assert list(by_layer.columns) == ["", "Count", "Mean", "Std Dev", "Min", "25%", "50%", "75%", "Max"]
    assert [row[0] for row in by_layer.rows] == ["Layer 1", "Layer 2"]
    layer2 = by_layer.data.iloc[1]
    assert layer2["Count"] == 4
    np.testing.assert_allclose([layer2["Mean"], layer2["Min"], layer2["Std Dev"]], [-0.025, -0.1, 0.05], atol=1e-9)
    by_head = tabled(heads, "heads-by-head", tasks=["cola"])
    assert [row[0] for row in by_head.rows] == ["Count", "Mean", "Std Dev", "Min", "25%", "50%", "75%", "Max"]
    assert by_head.rows[0][1:] == ["2", "2", "2", "2"]
    assert by_head.rows[1][3] == "-0.050"
    assert tabled(heads, "heads-difference").columns[0] == "Task"


def test_the_heat_map_marks_the_head_that_matters(heads: Any) -> None:
    figure = drawn(heads, "heads")
    starred = [text.get_text() for ax in figure.axes for text in ax.texts if "*" in text.get_text()]
    assert starred == ["−0.100*", "−0.100*"]
    assert figure.axes[0].get_title().startswith("CoLA")


def test_heads_without_a_baseline(tables: Any) -> None:
    made = tables({"tasks": ["cola"], "experiments": [{"kind": "heads", "layers": [1], "sizes": ["all"]}]}, depth=2)
    with pytest.raises(PalimpsestError, match="baseline"):
        drawn(made, "heads")


# Sequences


@pytest.fixture
def sequence(tables: Any) -> Any:
    experiments = [
        {"kind": "sequential", "chains": [["mrpc", "wnli"]], "sizes": ["all"], "trials": 5},
        {"kind": "interleaved", "tasks": ["rte"], "together": [["rte", "mrpc"]], "sizes": ["all"], "trials": 5},
    ]
    made = tables({"tasks": ["mrpc", "rte", "wnli"], "experiments": experiments})
    gains = {("rte", "mrpc"): 0.05, ("mrpc", "wnli"): -0.03, ("rte", "with rte, mrpc"): 0.02}

    def score(at: dict[str, Any]) -> float:
        return 0.6 + 0.01 * at["trial"] + gains.get((at["task"], at["chain"]), 0.0) + 1e-4 * ((at["trial"] * 7) % 3)

    set_scores(made, score)
    return made


def test_the_matrix_has_the_baseline_on_its_diagonal(sequence: Any) -> None:
    table = tabled(sequence, "sequential-matrix")
    assert list(table.columns)[:4] == ["", "MRPC", "RTE", "WNLI"]
    assert "after MRPC, WNLI" in table.columns
    assert "with RTE, MRPC" in table.columns
    rte = next(row for row in table.rows if row[0] == "RTE")
    assert rte[1].endswith("*+")  # best of its row, and above the baseline
    assert "*" not in rte[2]
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


# Other metrics


def test_other_metrics_than_the_first(tables: Any) -> None:
    experiment = {"kind": "incremental", "preserved": [0, 12], "sizes": ["all"], "trials": 2}
    made = tables({"tasks": ["squad2", "cola"], "experiments": [experiment]})
    for cell in made.cells:
        held = made.store.held[cell.trial.identity]
        if cell.trial.task == "squad2":
            outcome = replace(held.outcome, metric="f1", metrics={"f1": 0.5, "em": 0.1 * cell.at["preserved"] / 12})
            made.store.held[cell.trial.identity] = Record(cell.trial, outcome, held.provenance)
    figure = drawn(made, "incremental", metric="em")
    assert [(ax.get_title(), ax.get_ylabel()) for ax in figure.axes] == [("SQuAD 2.0", "Exact match")]
    np.testing.assert_allclose(line(figure).get_ydata(), [0, 0.1])
    table = tabled(made, "summary", metric="em")
    assert table.data["mean"].tolist() == pytest.approx([0, 0.1])
    assert {row[3] for row in table.rows} == {"Exact match"}
    with pytest.raises(UnknownName, match="unknown metric 'emm'"):
        drawn(made, "incremental", metric="emm")
    with pytest.raises(NothingFinished):
        tabled(made, "summary", metric="pearson")


# Medians


def test_medians_instead_of_means(tables: Any) -> None:
    made = tables(
        {"tasks": ["sst2"], "experiments": [{"kind": "incremental", "preserved": [12], "sizes": [500], "trials": 5}]}
    )
    set_scores(made, lambda at: [0.1, 0.5, 0.5, 0.5, 0.6][at["trial"]])
    table = tabled(made, "summary", interval="median")
    assert "Median" in table.columns
    assert table.data["mean"].tolist() == [0.5]
    assert tabled(made, "summary").data["mean"].tolist() == pytest.approx([0.44])
    assert "median of n = 5" in drawn(made, "incremental", interval="median")._supxlabel.get_text()


def test_the_schematic_of_deleted_layers_is_shorter(tables: Any) -> None:
    variants = {"intact": [], "short": [{"kind": "delete", "layers": [2, 3]}, {"kind": "reinitialize", "layers": [2]}]}
    made = tables({"tasks": ["cola"], "experiments": [{"kind": "custom", "variants": variants}]}, depth=4)
    assert layers_after(json.dumps(variants["short"]), 4) == [(1, False, []), (4, True, [])]
    assert [text.get_text() for text in drawn(made, "schematic").axes[0].texts] == ["1", "4"]


def test_the_schematic_shows_layers_that_nothing_touches(tables: Any) -> None:
    variants = {"short": [{"kind": "delete", "layers": [1]}]}
    made = tables({"tasks": ["cola"], "experiments": [{"kind": "custom", "variants": variants}]}, depth=4)
    frame = made.table
    frame.attrs["depth"] = 4
    assert [text.get_text() for text in schematic(frame).axes[0].texts] == ["2", "3", "4"]


def test_variants_stand_below_each_other_in_the_studys_order(tables: Any) -> None:
    variants = {
        "intact": [],
        "short": [{"kind": "delete", "layers": [2]}],
        "a new one": [{"kind": "reinitialize", "layers": [1]}],
    }
    experiment = {"kind": "custom", "variants": variants, "trials": 4, "sizes": [500, "all"]}
    made = tables({"tasks": ["cola", "stsb"], "experiments": [experiment]}, depth=4)
    worth = {"intact": 0.8, "short": 0.6, "a new one": 0.4}
    set_scores(made, lambda at: worth[at["variant"]] + 0.01 * at["trial"] + 0.1 * (at["size"] == "all"))
    figure = drawn(made, "variants")
    assert [ax.get_title() for ax in figure.axes] == ["CoLA", "STS-B"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(variants)
    assert figure.axes[0].yaxis_inverted()
    small, whole = line(figure, 1, 0), line(figure, 1, 1)
    np.testing.assert_allclose(small.get_xdata(), [0.815, 0.615, 0.415])
    np.testing.assert_allclose(whole.get_xdata(), [0.915, 0.715, 0.515])
    assert [round(y) for y in small.get_ydata()] == [0, 1, 2]
    assert len(figure.axes[0].collections[-1].get_offsets()) == 12  # every trial, too
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["500", "all"]


def test_sequences_do_nothing_to_layers(tables: Any) -> None:
    made = tables({"tasks": ["rte", "mrpc"], "experiments": [{"kind": "sequential", "trials": 1}]})
    with pytest.raises(PalimpsestError, match="layers"):
        drawn(made, "schematic")
