"""Looking at what a figure drew."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def error_bars(ax: Axes) -> list[Any]:
    return list(ax.containers)


def lines(ax: Axes) -> list[Any]:
    """The lines through means, without the caps of their error bars."""
    return [container.lines[0] for container in error_bars(ax)]


def places(line: Any) -> list[int]:
    """The layers that a line's points stand at, or a little aside of."""
    return [round(x) for x in line.get_xdata()]


def bar_ends(ax: Axes, number: int) -> list[Any]:
    """Low and high of each error bar of the line of this number."""
    return [segment[:, 1] for segment in error_bars(ax)[number].lines[2][0].get_segments()]


def footnote(figure: Figure) -> str:
    return str(figure.get_supxlabel())


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for found in figure.legends for text in found.get_texts()]
