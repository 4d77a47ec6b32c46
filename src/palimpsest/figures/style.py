"""The house style: quiet axes, colours that survive grey printing and colour blindness, everything labelled."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from palimpsest.analysis.names import printable

P = ParamSpec("P")

_SMALL_PRINT = 21  # characters of a footnote on an inch

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "text.usetex": False,
    "text.parse_math": True,
}

# Four hues of different lightness, told apart by people with any colour vision and in grey.
DARK, ORANGE, BLUE, PURPLE = "#1B2A49", "#D55E00", "#4C9ED9", "#9467A8"
HUES = (DARK, ORANGE, BLUE, PURPLE)
_BLUES = 6  # that can be told apart
MARKERS = ("o", "s", "^", "D", "v", "P")
GREY = "#777777"
EMPTY = "nothing finished yet"

PANEL = (2.9, 2.5)  # inches
_TITLE = 0.3  # inches


def house_style(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw under the house style, without touching matplotlib's global settings; panels without data say so."""

    @functools.wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            figure = draw(*args, **kwargs)
            for ax in figure.axes:
                if not _has_data(ax):
                    _say_empty(ax)
            return figure

    return styled


def _has_data(ax: Axes) -> bool:
    """Whether anything can be seen in a panel: matplotlib itself also counts lines and dots that have no points."""
    return bool(np.isfinite(ax.dataLim.get_points()).any())


def _say_empty(ax: Axes) -> None:
    """Words instead of data; ticks stay where the figure chose them or neighbours with data share them."""
    ax.text(0.5, 0.5, EMPTY, transform=ax.transAxes, ha="center", va="center", fontsize=7, color=GREY)
    ax.grid(visible=False)
    for name in ("x", "y"):
        sharing = getattr(ax, f"get_shared_{name}_axes")().get_siblings(ax)
        if getattr(ax, f"get_autoscale{name}_on")() and not any(map(_has_data, sharing)):
            ax.tick_params(axis=name, which="both", length=0, labelbottom=False, labelleft=False)


def literal(text: str) -> str:
    """A text that matplotlib shows as it is: a dollar sign would begin a formula."""
    return printable(text).replace("$", r"\$")


def legend_label(text: str) -> str:
    """Legends leave out labels that begin with an underscore."""
    return " " + literal(text) if text.startswith("_") else literal(text)


def panels(
    count: int, *, width: float = PANEL[0], height: float = PANEL[1], most: int = 4
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels side by side, at most `most` in a row, in rows of equal length if that can be."""
    rows = -(-count // most)
    columns = -(-count // rows)
    figure = Figure(
        figsize=(max(width * columns, 3.6), height * rows + 0.6), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
    )
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(count)]
    return figure, axes


def shades(count: int) -> list[tuple[float, float, float, float]]:
    """`count` blues from light to dark; the lightest is still readable on white.

    More of them than can be told apart go from a light green over blue to a dark violet.
    """
    if count > _BLUES:
        return [mpl.colormaps["viridis_r"](float(p)) for p in np.linspace(0.12, 1.0, count)]
    places = [0.95] if count == 1 else np.linspace(0.4, 0.98, count)
    return [mpl.colormaps["Blues"](float(p)) for p in places]


def aside(number: int, count: int) -> float:
    """How far from its place one of several lines is drawn: error bars at the same place would hide each other."""
    return min(0.14, 0.5 / count) * (number - (count - 1) / 2)


def bars(ax: Axes, summary: pd.DataFrame, x: str, *, aside: float = 0.0, **style: Any) -> Any:
    """A line through the means over column `x`, with the intervals as error bars; means of one trial have no bar."""
    summary = summary.sort_values(x)
    places = summary[x].to_numpy(dtype=float) + aside
    mean = summary["mean"].to_numpy(dtype=float)
    low = np.nan_to_num(mean - summary["low"].to_numpy(dtype=float))
    high = np.nan_to_num(summary["high"].to_numpy(dtype=float) - mean)
    return ax.errorbar(places, mean, yerr=np.maximum([low, high], 0), capsize=2, elinewidth=0.9, capthick=0.9, **style)


def integer_axis(ax: Axes, low: int, high: int) -> None:
    """Ticks at whole numbers; at all of them while they fit."""
    ax.set_xlim(low - 0.4, high + 0.4)
    if high - low <= 13:
        ax.set_xticks(range(low, high + 1))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], title: str = "") -> None:
    """One legend for all panels, above them: in one row if there is room, else in rows that are read like text."""
    if not handles:
        return
    order, columns = _rows_of_text([0.065 * len(label) + 0.6 for label in labels], figure.get_figwidth())
    figure.legend(
        [handles[n] for n in order], [legend_label(labels[n]) for n in order], title=title or None,
        loc="outside upper center", ncols=columns, handlelength=2.4, columnspacing=1.4,
    )  # fmt: skip


def _rows_of_text(widths: Sequence[float], room: float) -> tuple[list[int], int]:
    """In as few rows as there is room for: the entries in matplotlib's order, which fills columns, and the columns."""
    count = len(widths)
    for rows in range(1, count + 1):
        columns = -(-count // rows)
        filled = [list(range(column, count, columns)) for column in range(columns)]
        if sum(max(widths[n] for n in column) for column in filled) <= room:
            break
    return [n for column in filled for n in column], columns


def lines_by_size(
    summary: pd.DataFrame, tasks: Sequence[str], sizes: Sequence[str], x: str, **style: Any
) -> tuple[Figure, dict[str, Axes]]:
    """A panel for each task; in it, a line for each size through the means over column `x`."""
    figure, axes = panels(len(tasks))
    handles: dict[str, Any] = {}
    for ax, task in zip(axes, tasks, strict=True):
        for i, (size, color) in enumerate(zip(sizes, shades(len(sizes)), strict=True)):
            line = summary[(summary["task"] == task) & (summary["size"] == size)]
            if not line.empty:
                handles[size] = bars(
                    ax, line, x, aside=aside(i, len(sizes)), color=color, marker=MARKERS[i % len(MARKERS)], **style
                )
    shown = [size for size in sizes if size in handles]
    legend(figure, [handles[size] for size in shown], shown, title="Training examples")
    return figure, dict(zip(tasks, axes, strict=True))


def title(figure: Figure, text: str) -> None:
    """A line above everything; the figure grows by it, because legends above the panels do not make way for titles."""
    height = figure.get_figheight() + _TITLE
    figure.set_figheight(height)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0.0, 0.0, 1.0, 1.0 - _TITLE / height))
    for below in figure.legends:
        below.borderaxespad += 72 * _TITLE / below.prop.get_size_in_points()  # it is counted in letters
    above = figure.suptitle(literal(text), fontsize=11, y=1.0 - 0.4 * _TITLE / height, va="center")
    above.set_in_layout(False)


def footnote(figure: Figure, *parts: str) -> None:
    """What a reader must know about the numbers, in small print below the panels, no wider than the figure."""
    text = textwrap.fill("; ".join(part for part in parts if part), round(_SMALL_PRINT * figure.get_figwidth()))
    figure.supxlabel(text.replace("$", r"\$"), x=0.01, ha="left", fontsize=7, color="#555555")
