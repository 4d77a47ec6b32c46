"""Heads, other metrics, medians, and deleted layers: what else the CS224N report draws, on made-up results."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from study_drawings import drawn, line, set_scores, tabled

from palimpsest.errors import NothingFinished, PalimpsestError, UnknownName
from palimpsest.figures.schematic import layers_after, schematic
from palimpsest.store import Record


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


def test_heads_are_paired_under_their_own_protocol(tables: Any) -> None:
    other = {"kind": "incremental", "preserved": ["L"], "sizes": ["all"], "trials": 3}
    slow = {**other, "label": "slow", "protocol": {"learning_rate": 1.0e-6}}
    parts = [slow, {"kind": "heads", "layers": [1], "sizes": ["all"], "trials": 3}, {**other, "label": "intact"}]
    made = tables({"tasks": ["cola"], "experiments": parts}, depth=2)
    set_scores(made, lambda at: 0.1 if at["experiment"] == "slow" else 0.5 + 0.01 * at["trial"])
    np.testing.assert_allclose(tabled(made, "heads-tests").data["difference"], 0, atol=1e-9)
    with pytest.raises(PalimpsestError, match="under the same protocol"):
        tabled(tables({"tasks": ["cola"], "experiments": parts[:2]}, depth=2), "heads-tests")
    longer = {**other, "label": "longer", "epochs": 9}
    with pytest.raises(PalimpsestError, match="2 different trials of the same index"):
        tabled(tables({"tasks": ["cola"], "experiments": [*parts[1:], longer]}, depth=2), "heads-tests")
