"""Legends: one row if there is room, else rows that are read like text."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from palimpsest.figures.style import legend


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (9, [["short", "a longer label", "third", "4th", "fifth"]]),
        (4.2, [["short", "a longer label", "third"], ["4th", "fifth"]]),
        (0.5, [["short"], ["a longer label"], ["third"], ["4th"], ["fifth"]]),
    ],
)
def test_read_like_text(width: float, rows: list[list[str]]) -> None:
    figure: Any = Figure(figsize=(width, 2), layout="constrained")
    labels = ["short", "a longer label", "third", "4th", "fifth"]
    legend(figure, [Line2D([], []) for _ in labels], labels)
    figure.draw_without_rendering()
    places: dict[int, list[tuple[float, str]]] = {}
    for text in figure.legends[0].get_texts():
        box = text.get_window_extent()
        places.setdefault(-round(box.y0 / 5), []).append((box.x0, text.get_text()))
    assert [[text for _, text in sorted(row)] for _, row in sorted(places.items())] == rows


def test_nothing_to_tell() -> None:
    figure = Figure()
    legend(figure, [], [])
    assert not figure.legends
