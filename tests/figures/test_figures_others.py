"""Scatter, comparison, epochs, schematic, and the tables of correlations and data sets."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from figure_artists import bar_ends, footnote, legend, lines
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from scipy import stats

from palimpsest.analysis.statistics import two_sigma
from palimpsest.errors import PalimpsestError
from palimpsest.figures.comparison import comparison
from palimpsest.figures.correlations import correlations
from palimpsest.figures.epochs import epochs
from palimpsest.figures.scatter import scatter
from palimpsest.figures.schematic import PRETRAINED, REINITIALIZED, layers_after, schematic
from palimpsest.figures.tables import datasets

INCREMENTAL: dict[str, Any] = {"kind": "incremental", "sizes": [500, "5k"], "trials": {"500": 5, "default": 2}}
FAST: dict[str, Any] = INCREMENTAL | {"label": "5 × rate", "protocol": {"reinitialized_rate": 5, "name": "fast"}}
LOOKING: dict[str, Any] = {"protocol": {"evaluate": "epoch"}}


def test_scatter_draws_every_trial_and_a_dotted_mean(tables: Any) -> None:
    made = tables({"tasks": ["sst2", "cola"], "experiments": [INCREMENTAL]}, depth=3)
    figure: Any = scatter(made.table)
    assert footnote(figure) == "500 examples; n = 5 trials per k"
    table = made.table[(made.table["size"] == "500") & (made.table["task"] == "cola")]
    ax = figure.axes[1]
    (dots,) = ax.collections
    offsets = dots.get_offsets()
    assert sorted(offsets[:, 1]) == pytest.approx(sorted(table["score"]))
    assert [round(x) for x in offsets[:, 0]] == table["preserved"].tolist()
    (mean,) = ax.lines
    assert mean.get_linestyle() == ":"
    assert mean.get_ydata().tolist() == pytest.approx(table.groupby("preserved")["score"].mean().tolist())
    assert footnote(scatter(made.table, size="5k")) == "5k examples; n = 2 trials per k"


def test_comparison_draws_a_line_per_label(tables: Any) -> None:
    made = tables({"tasks": ["sst2"], "experiments": [INCREMENTAL, FAST]}, depth=3)
    figure: Any = comparison(made.table)
    assert legend(figure) == ["incremental", "5 × rate"]
    assert footnote(figure) == "5k examples; mean of n = 2 trials; bars: ±2σ"
    ax = figure.axes[0]
    table = made.table[(made.table["experiment"] == "5 × rate") & (made.table["size"] == "5k")]
    expected = two_sigma(table[table["preserved"] == 2]["score"])
    assert lines(ax)[1].get_ydata()[2] == pytest.approx(expected.mean)
    assert bar_ends(ax, 1)[2].tolist() == pytest.approx([expected.low, expected.high])
    assert [round(x) for x in lines(ax)[1].get_xdata()] == [0, 1, 2, 3]
    assert footnote(comparison(made.table, size=500)).startswith("500 examples; mean of n = 5")


def test_comparison_needs_two_labels_and_a_common_size(tables: Any) -> None:
    with pytest.raises(PalimpsestError, match="needs two incremental experiments"):
        comparison(tables({"tasks": ["sst2"], "experiments": [INCREMENTAL]}, depth=2).table)
    apart = tables(
        {"tasks": ["sst2"], "experiments": [INCREMENTAL | {"sizes": [500]}, FAST | {"sizes": ["5k"]}]}, depth=2
    )
    with pytest.raises(PalimpsestError, match="no size in common"):
        comparison(apart.table)


def test_epochs_draws_loss_above_score_per_task_and_size(tables: Any) -> None:
    experiment = INCREMENTAL | LOOKING | {"preserved": [0, "L/2", "L"], "epochs": 4, "label": "long"}
    made = tables({"tasks": ["sst2", "cola"], "experiments": [INCREMENTAL, experiment]}, depth=4)
    figure: Any = epochs(made.table, made.epochs, experiment="long")
    above, below = figure.axes[::2], figure.axes[1::2]
    assert [ax.get_title() for ax in above] == ["SST-2, 500", "SST-2, 5k", "CoLA, 500", "CoLA, 5k"]
    assert {ax.get_ylabel() for ax in above} == {"Validation loss"}
    assert [ax.get_ylabel() for ax in below] == ["Accuracy"] * 2 + ["MCC"] * 2
    assert legend(figure) == ["0", "2", "4"]
    table = made.epochs[(made.epochs["experiment"] == "long") & (made.epochs["task"] == "cola")]
    table = table[(table["size"] == "500") & (table["preserved"] == 2)]
    thick = [line for line in below[2].lines if line.get_linewidth() == 2]
    thin = [line for line in below[2].lines if line.get_linewidth() < 1]
    assert thick[1].get_xdata().tolist() == [1, 2, 3, 4]
    assert thick[1].get_ydata().tolist() == pytest.approx(table.groupby("epoch")["score"].mean().tolist())
    assert len(thin) == 3 * 5
    assert "n = 2 to 5" in footnote(figure)


def test_many_tasks_and_sizes_over_the_epochs_still_fit_a_page(tables: Any) -> None:
    experiment = INCREMENTAL | LOOKING | {"preserved": [0], "epochs": 2, "trials": 1}
    made = tables({"tasks": ["sst2", "qnli", "cola"], "experiments": [experiment]}, depth=2)
    figure: Any = epochs(made.table, made.epochs)
    rows = [["SST-2, 500", "QNLI, 500", "CoLA, 500"], ["SST-2, 5k", "QNLI, 5k", "CoLA, 5k"]]
    assert [ax.get_title() for ax in figure.axes[::2]] == rows[0] + rows[1]
    figure.canvas.draw()
    places = [ax.get_position() for ax in figure.axes]
    assert len({round(place.x0, 3) for place in places}) == 3
    assert len({round(place.y0, 3) for place in places}) == 4
    assert figure.get_figwidth() < 8
    one = tables({"tasks": ["sst2"], "experiments": [experiment | {"sizes": [10, 20, 30, 40, 50]}]}, depth=2)
    assert epochs(one.table, one.epochs).axes[0].get_gridspec().get_geometry() == (4, 3)


def test_epochs_needs_trials_that_looked_at_every_one(tables: Any) -> None:
    made = tables({"tasks": ["sst2"], "experiments": [INCREMENTAL, INCREMENTAL | LOOKING | {"label": "seen"}]}, depth=2)
    with pytest.raises(PalimpsestError, match=r"only after the last epoch.*protocol: \{evaluate: epoch\}"):
        epochs(made.table, made.epochs)
    assert len(epochs(made.table, made.epochs, experiment="seen").axes) == 4
    once = tables({"tasks": ["sst2"], "experiments": [INCREMENTAL | {"epochs": 1}]}, depth=2)
    assert len(epochs(once.table, once.epochs).axes) == 4


def test_schematic_needs_no_results_and_shows_every_condition(tables: Any) -> None:
    experiments = [
        INCREMENTAL,
        FAST,  # the same conditions: not drawn again
        {"kind": "localized", "block_size": 2},
        {"kind": "permutation", "permutations": 3},
        {"kind": "heads", "layers": [2], "heads": [3]},
        {"kind": "probing"},  # does nothing to the layers
    ]
    made = tables({"tasks": ["sst2"], "experiments": experiments}, depth=4, keep=lambda _: False)
    figure: Any = schematic(made.table)
    titles = ["incremental", "localized: block re-initialised", "localized: block preserved", "permutation", "heads"]
    assert [ax.get_title() for ax in figure.axes] == titles
    incremental, _, preserved, shuffled, heads = figure.axes
    assert [t.get_text() for t in incremental.get_yticklabels()] == [f"k = {k}" for k in range(5)]
    assert [t.get_text() for t in preserved.get_yticklabels()] == ["layers 1–2", "layers 2–3", "layers 3–4"]

    def row(ax: Any, number: int) -> str:
        shades = {PRETRAINED.lower(): "#", REINITIALIZED.lower(): "."}
        boxes = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_height() == 0.8]
        return "".join(shades[to_hex(p.get_facecolor())] for p in boxes[4 * number : 4 * number + 4])

    assert [row(incremental, k) for k in range(5)] == ["....", "#...", "##..", "###.", "####"]
    assert [row(preserved, n) for n in range(3)] == ["##..", ".##.", "..##"]
    order = next(c for c in made.cells if c.at["kind"] == "permutation").trial.interventions[0].order
    assert [t.get_text() for t in shuffled.texts[:4]] == [str(n) for n in order]
    assert [t.get_text() for t in heads.texts] == ["3"]


@pytest.mark.parametrize(("depth", "columns"), [(3, 4), (12, 2), (24, 2)])
def test_the_schematic_is_no_wider_than_it_must_be(tables: Any, depth: int, columns: int) -> None:
    experiments = [INCREMENTAL, {"kind": "localized", "block_size": 2}, {"kind": "permutation", "permutations": 3}]
    figure: Any = schematic(tables({"tasks": ["sst2"], "experiments": experiments}, depth=depth).table)
    assert figure.axes[0].get_gridspec().ncols == columns


def test_schematic_of_many_conditions_shows_some(tables: Any) -> None:
    made = tables({"tasks": ["sst2"], "experiments": [{"kind": "permutation", "permutations": 40}]}, depth=4)
    figure: Any = schematic(made.table, most=5)
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()][::4] == ["permutation 1", "permutation 40"]
    assert footnote(figure) == "permutation: 5 of 40 conditions"
    with pytest.raises(PalimpsestError, match="does anything to the layers"):
        schematic(tables({"tasks": ["sst2"], "experiments": [{"kind": "probing"}]}, depth=4).table)


@given(st.permutations([1, 2, 3, 4]), st.sets(st.integers(1, 4), min_size=1))
def test_interventions_apply_in_their_order(order: list[int], layers: set[int]) -> None:
    permute = f'{{"kind": "permute", "order": {order}}}'
    reinitialize = f'{{"kind": "reinitialize", "layers": {sorted(layers)}}}'
    after = layers_after(f"[{permute}, {reinitialize}]", 4)
    assert [source for source, _, _ in after] == order
    assert {place for place, (_, gone, _) in enumerate(after, start=1) if gone} == layers
    after = layers_after(f"[{reinitialize}, {permute}]", 4)
    assert {source for source, gone, _ in after if gone} == layers


def test_correlations_are_scipys_over_the_same_permutations(tables: Any) -> None:
    tasks = ["sst2", "qnli", "cola"]
    made = tables({"tasks": tasks, "experiments": [{"kind": "permutation", "sizes": ["5k"]}]}, depth=6)
    found = correlations(made.table)
    assert [row[0] for row in found.rows] == ["SST-2, QNLI", "SST-2, CoLA", "QNLI, CoLA"]
    assert [row[3] for row in found.rows] == ["10", "10", "10"]
    scores = {t: made.table[made.table["task"] == t].sort_values("permutation")["score"] for t in tasks}
    for (a, b), (_, row) in zip(itertools.combinations(tasks, 2), found.data.iterrows(), strict=True):
        spearman = stats.spearmanr(scores[a].to_numpy(), scores[b].to_numpy())
        pearson = stats.pearsonr(scores[a].to_numpy(), scores[b].to_numpy())
        assert (row["spearman"], row["spearman_p"]) == pytest.approx((spearman.statistic, spearman.pvalue))
        assert (row["pearson"], row["pearson_p"]) == pytest.approx((pearson.statistic, pearson.pvalue))
    assert found.rows[0][1] == f"{found.data['spearman'][0]:.2f} ({found.data['spearman_p'][0]:.2f})"


def test_correlations_pair_only_what_both_tasks_have(tables: Any) -> None:
    data = {"tasks": ["sst2", "cola"], "experiments": [{"kind": "permutation", "permutations": 6}]}
    made = tables(data, depth=6, keep=lambda c: (c.at["task"], c.at["permutation"]) != ("cola", 3))
    found = correlations(made.table)
    assert found.rows[0][3] == "5"
    assert "missing: 1 of 12 trials" in found.note
    few = tables(data, depth=6, keep=lambda c: c.at["permutation"] < 3)
    assert correlations(few.table).rows[0][1:] == ["–", "–", "2"]
    constant = made.table
    constant["score"] = 0.5
    assert correlations(constant).rows[0][1] == "–"
    with pytest.raises(PalimpsestError, match="at least two tasks"):
        correlations(made.table, tasks=["sst2"])


def test_datasets_lists_what_it_is_given() -> None:
    found = datasets([("sst2", 67349, 872, "sentence", "negative, positive", "accuracy")])
    assert found.rows == [["SST-2", "67,349", "872", "sentence", "negative, positive", "Accuracy"]]
    assert found.csv().splitlines()[1] == 'sst2,67349,872,sentence,"negative, positive",accuracy'


@pytest.mark.parametrize(("count", "exact"), [(3, 1 / 3), (4, 1 / 12), (5, 1 / 60)])
def test_few_permutations_in_one_order_prove_little(tables: Any, count: int, exact: float) -> None:
    study = {"tasks": ["sst2", "cola"], "experiments": [
        {"kind": "permutation", "permutations": count, "sizes": ["5k"]}]}  # fmt: skip
    made = tables(study, depth=4).table
    made["score"] = 0.5 + 0.01 * made["permutation"].astype(float)
    assert correlations(made).data["spearman_p"].tolist() == pytest.approx([exact])
