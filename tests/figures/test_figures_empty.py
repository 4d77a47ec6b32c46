"""Panels in which nothing can be drawn yet."""

from __future__ import annotations

from typing import Any

import pytest
from study_drawings import set_scores

from palimpsest.analysis.table import curves_table
from palimpsest.figures.registry import figure_of
from palimpsest.figures.style import EMPTY
from palimpsest.specs.study import Drawing

GRID: dict[str, Any] = {"kind": "incremental", "sizes": [500], "trials": 2, "preserved": [0, 2, 4]}
EXPERIMENTS: list[dict[str, Any]] = [
    GRID | {"protocol": {"evaluate": "epoch"}, "epochs": 3},
    GRID | {"label": "other", "protocol": {"learning_rate": 1e-4, "name": "other"}},
    {"kind": "localized", "sizes": [500], "trials": 2, "block_size": 2},
    {"kind": "localized", "sizes": [500], "trials": 2, "block_size": 1, "mode": "reinitialized", "label": "ones"},
    {"kind": "permutation", "sizes": [500], "permutations": 4},
    {"kind": "probing", "sizes": [500], "trials": 2},
    {"kind": "custom", "sizes": [500], "trials": 2, "variants": {
        "intact": [], "shorter": [{"kind": "delete", "layers": [4]}],
    }},
]  # fmt: skip
STUDY: dict[str, Any] = {"tasks": ["sst2", "cola"], "experiments": EXPERIMENTS}


def drawn(made: Any, figure_kind: str, **options: Any) -> Any:
    figure = figure_of(
        made.table, Drawing(kind=figure_kind, options=options), epochs=made.epochs,
        curves=lambda: curves_table(made.cells, made.store),
    )  # fmt: skip
    figure.canvas.draw()
    return figure


def says(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text() == EMPTY]


def shown(labels: Any) -> list[str]:
    return [label.get_text() for label in labels if label.get_visible() and label.get_text()]


@pytest.fixture
def half(tables: Any) -> Any:
    """A study of which the second task has not begun."""
    return tables(STUDY, depth=4, keep=lambda cell: cell.at["task"] == "sst2")


@pytest.mark.parametrize(
    "kind",
    ["incremental", "scatter", "localized", "single", "permutation", "comparison", "probing", "epochs", "variants"],
)
def test_a_panel_without_data_says_so(half: Any, kind: str) -> None:
    axes = drawn(half, kind).axes
    begun, empty = axes[: len(axes) // 2], axes[len(axes) // 2 :]
    assert [says(ax) for ax in begun] == [[]] * len(begun)
    assert [says(ax) for ax in empty] == [[EMPTY]] * len(empty)
    for ax in empty:
        scores, along = (ax.get_xticklabels(), []) if kind == "variants" else (ax.get_yticklabels(), ax.get_xticks())
        assert shown(scores) == []
        assert len(along) > 0 or kind in ("permutation", "variants"), "which layers there are is known"


def test_loss_curves_of_a_task_that_has_not_begun(tables: Any) -> None:
    made = tables({"tasks": ["sst2", "cola"], "experiments": [GRID]}, depth=4)
    set_scores(made, lambda _: 0.5)
    for cell in made.cells:
        if cell.at["task"] == "cola":
            del made.store.held[cell.trial.identity]
    begun, empty = drawn(made, "curves").axes
    assert (says(begun), says(empty)) == ([], [EMPTY])
    assert shown(begun.get_xticklabels())
    assert shown([*empty.get_xticklabels(), *empty.get_yticklabels()]) == []


def test_ticks_that_neighbours_need_stay(tables: Any) -> None:
    made = tables(STUDY, depth=4, keep=lambda cell: cell.at["task"] == "cola")
    first = drawn(made, "variants").axes[0]
    assert says(first)
    assert shown(first.get_yticklabels()) == ["intact", "shorter"]
    made = tables(STUDY, depth=4, keep=lambda cell: cell.at["experiment"] == "other" and cell.at["preserved"] != 4)
    first, second = drawn(made, "side-by-side", experiments=["incremental", "other"], tasks=["sst2"]).axes
    assert (says(first), says(second)) == ([EMPTY], [])
    assert shown(first.get_yticklabels()), "the axis of the whole row"


def test_a_finished_study_and_what_needs_no_results_say_nothing_of_this(tables: Any) -> None:
    whole = [{"kind": "heads", "sizes": [500], "trials": 2, "layers": [1, 2]}, GRID, *EXPERIMENTS[2:]]
    made = tables({"tasks": ["sst2"], "experiments": whole}, depth=4)
    for kind in ("incremental", "scatter", "localized", "permutation", "probing", "variants", "heads", "schematic"):
        assert not any(says(ax) for ax in drawn(made, kind).axes), kind
    begun = tables({"tasks": ["sst2"], "experiments": whole}, depth=4, keep=lambda _: False)
    assert not any(says(ax) for ax in drawn(begun, "schematic").axes)
