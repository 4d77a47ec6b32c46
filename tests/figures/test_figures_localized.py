"""Figures 3, 4 and 6: what is drawn, and against which baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from figure_artists import bar_ends, footnote, legend, lines

from palimpsest.analysis.statistics import mean_interval, two_sigma
from palimpsest.errors import PalimpsestError, StoreError
from palimpsest.figures.localized import localized, single
from palimpsest.figures.permutation import permutation, side_by_side

ENDS: dict[str, Any] = {"kind": "incremental", "preserved": [0, "L"], "sizes": ["5k"], "trials": 3}
BLOCKS: dict[str, Any] = {"kind": "localized", "sizes": ["5k"], "trials": 4, "block_size": 3}
ONES: dict[str, Any] = BLOCKS | {"block_size": 1, "mode": "reinitialized", "label": "single"}
SHUFFLED: dict[str, Any] = {"kind": "permutation", "sizes": ["5k"]}
TASKS = ["sst2", "cola"]


def horizontals(ax: Any) -> list[float]:
    """Heights of the dashed lines across the panel."""
    return [float(line.get_ydata()[0]) for line in ax.lines if list(line.get_xdata()) == [0, 1]]


def scores(table: Any, **at: Any) -> Any:
    for name, value in at.items():
        table = table[table[name].eq(value).fillna(False).astype(bool)]
    return table["score"]


def test_localized_draws_two_curves_between_two_baselines(tables: Any) -> None:
    made = tables({"tasks": TASKS, "experiments": [ENDS, BLOCKS]}, depth=6)
    figure: Any = localized(made.table)
    assert [ax.get_title() for ax in figure.axes] == ["SST-2", "CoLA"]
    assert legend(figure) == ["block re-initialised", "full model", "block preserved", "embeddings only"]  # by columns
    assert footnote(figure) == "5k examples; mean of n = 4 trials; bars: 95 % t intervals"
    ax = figure.axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1–3", "2–4", "3–5", "4–6"]
    assert len(lines(ax)) == 2
    expected = mean_interval(scores(made.table, task="sst2", mode="preserved", first=2))
    assert lines(ax)[1].get_ydata()[1] == pytest.approx(expected.mean)
    assert bar_ends(ax, 1)[1].tolist() == pytest.approx([expected.low, expected.high])
    ends = [scores(made.table, task="sst2", preserved=k).mean() for k in (6, 0)]
    assert horizontals(ax) == pytest.approx(ends)


def test_localized_without_baselines_or_with_some_missing(tables: Any) -> None:
    figure: Any = localized(tables({"tasks": TASKS, "experiments": [BLOCKS]}, depth=6).table)
    assert legend(figure) == ["block re-initialised", "block preserved"]
    assert horizontals(figure.axes[0]) == []
    partial = tables(
        {"tasks": TASKS, "experiments": [ENDS, BLOCKS]}, depth=6, keep=lambda c: c.at.get("preserved") != 0
    )
    figure = localized(partial.table)
    assert legend(figure) == ["block re-initialised", "block preserved", "full model"]
    assert footnote(figure).endswith("missing: 6 of 60 trials"), "re-initialising 1–3 and preserving 4–6 are one trial"


def test_localized_chooses_baselines_by_label_and_blocks_by_size(tables: Any) -> None:
    other = ENDS | {"label": "long", "epochs": 9}
    made = tables({"tasks": ["sst2"], "experiments": [ENDS, other, BLOCKS, BLOCKS | {"block_size": 2}]}, depth=6)
    figure: Any = localized(made.table, baseline="long", block_size=2)
    assert horizontals(figure.axes[0])[0] == pytest.approx(scores(made.table, experiment="long", preserved=6).mean())
    assert figure.axes[0].get_xticklabels()[0].get_text() == "1–2"
    assert localized(made.table).axes[0].get_xticklabels()[0].get_text() == "1–3"
    with pytest.raises(PalimpsestError, match=r"no blocks of 4 layers in this experiment, but of: \[2, 3\]"):
        localized(made.table, block_size=4)


def test_localized_at_one_size(tables: Any) -> None:
    made = tables({"tasks": ["sst2"], "experiments": [BLOCKS | {"sizes": [500, "5k"]}]}, depth=6)
    assert footnote(localized(made.table)).startswith("5k examples")
    assert footnote(localized(made.table, size="500")).startswith("500 examples")
    with pytest.raises(StoreError, match="nothing finished yet"):
        localized(tables({"tasks": ["sst2"], "experiments": [BLOCKS]}, depth=6, keep=lambda _: False).table)


def test_single_draws_each_layer_with_two_sigma(tables: Any) -> None:
    made = tables({"tasks": TASKS, "experiments": [ENDS, BLOCKS, ONES]}, depth=6)
    figure: Any = single(made.table)
    ax = figure.axes[0]
    assert ax.get_xlabel() == "Layer re-initialised"
    assert legend(figure) == ["layer re-initialised", "full model"]
    assert lines(ax)[0].get_xdata().tolist() == [1, 2, 3, 4, 5, 6]
    expected = two_sigma(scores(made.table, task="sst2", experiment="single", first=3))
    assert bar_ends(ax, 0)[2].tolist() == pytest.approx([expected.low, expected.high])
    assert "bars: ±2σ" in footnote(figure)
    with pytest.raises(PalimpsestError, match="block_size: 1"):
        single(tables({"tasks": TASKS, "experiments": [ENDS, BLOCKS]}, depth=6).table)


def test_permutation_draws_circles_density_mean_and_bands(tables: Any) -> None:
    made = tables({"tasks": TASKS, "experiments": [ENDS, SHUFFLED]}, depth=6)
    figure: Any = permutation(made.table)
    assert set(legend(figure)) == {
        "one permutation", "density", "mean, 95 % CI", "original order", "all layers re-initialised",
    }  # fmt: skip
    assert footnote(figure) == "5k examples; 10 permutations; bands: ±2σ"
    for ax, task in zip(figure.axes, TASKS, strict=True):
        expected = scores(made.table, task=task, kind="permutation")
        (circles,) = [line for line in ax.lines if line.get_marker() == "o"]
        assert sorted(circles.get_ydata()) == pytest.approx(sorted(expected))
        (mean,) = [line for line in ax.lines if line.get_label() == "mean"]
        assert mean.get_ydata()[0] == pytest.approx(expected.mean())
        found = mean_interval(expected)
        assert bar_ends(ax, 0)[0].tolist() == pytest.approx([found.low, found.high])
        bands = sorted(patch.get_extents().height > 0 for patch in ax.patches)
        assert bands == [True, True]
        assert len(ax.collections) == 2, "the density and the error bar"


def test_permutation_of_few_or_equal_scores_has_no_density(tables: Any) -> None:
    few = tables({"tasks": ["sst2"], "experiments": [SHUFFLED | {"permutations": 2}]}, depth=6)
    assert len(permutation(few.table).axes[0].collections) == 1
    one = tables({"tasks": ["sst2"], "experiments": [SHUFFLED | {"permutations": 1}]}, depth=6)
    figure: Any = permutation(one.table)
    assert len(figure.axes[0].collections) == 0
    assert "1 permutation;" in footnote(figure)
    equal = tables({"tasks": ["sst2"], "experiments": [SHUFFLED]}, depth=6).table
    equal["score"] = 0.5
    assert len(permutation(equal).axes[0].collections) == 1


def test_no_density_where_no_score_can_lie(tables: Any) -> None:
    table = tables({"tasks": ["sst2"], "experiments": [SHUFFLED]}, depth=6).table
    table["score"] = np.linspace(0.9, 1.0, len(table))
    density = permutation(table).axes[0].collections[0].get_paths()[0].get_extents()
    assert density.y1 == 1.0
    assert density.y0 < 0.9
    table["score"] *= 50  # a metric of one's own, in percent
    assert permutation(table).axes[0].collections[0].get_paths()[0].get_extents().y1 > 50


def test_no_circle_hides_another() -> None:
    """Seven of ten permutations score the same: seven circles are seen, in the same places each time."""
    scores = np.array([0.0] * 7 + [0.05, 0.049, -0.01])
    places = side_by_side(scores, 0.009)
    assert len({(round(x, 3), y) for x, y in zip(places, scores, strict=True)}) == 10
    assert -0.5 < places.min() < places.max() < 0.1
    assert places[9] == -0.2  # alone in its height
    assert places[7] != places[8]
    assert len(set(side_by_side(np.full(100, 0.5), 0.0))) == 100


def test_permutation_with_several_trials_each_is_one_circle(tables: Any) -> None:
    made = tables({"tasks": ["sst2"], "experiments": [SHUFFLED | {"trials": 3, "permutations": 4}]}, depth=6)
    figure: Any = permutation(made.table)
    (circles,) = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    means = made.table.groupby("permutation")["score"].mean()
    assert np.sort(circles.get_ydata()).tolist() == pytest.approx(sorted(means))
