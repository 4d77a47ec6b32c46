"""What is done to the layers: the study's own conditions as rows of little boxes (Figure 1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch, Rectangle
from pydantic import Field

from palimpsest.analysis import selection
from palimpsest.analysis.names import mode_name, short
from palimpsest.errors import PalimpsestError
from palimpsest.figures import style
from palimpsest.figures.tables import point_name

_PAGE = 8.0  # inches: labels of what is much wider cannot be read on paper

PRETRAINED, REINITIALIZED = "#2B4C7E", "#D5DFEC"


@style.house_style
def schematic(
    table: pd.DataFrame,
    *,
    experiments: Sequence[str] | None = None,
    most: Annotated[int, Field(ge=2)] = 14,
) -> Figure:
    """A panel per experiment, a row per condition, a box per layer: dark is pretrained, light is re-initialised.

    Boxes of shuffled or shortened models carry the number of the pretrained layer that they hold; a light corner with
    a number is a re-initialised attention head. Needs no results.

    Options: `experiments`, some of the labels; `most`, how many conditions to show of each, evenly chosen.
    """
    nothing_to_layers = ["probing", "sequential", "interleaved"]
    rows = table[~table["kind"].isin(nothing_to_layers)]
    if experiments is not None:
        rows = rows[selection.among("experiment", experiments, rows["experiment"])]
    if rows.empty:
        raise PalimpsestError("no experiment of this study does anything to the layers that could be drawn")
    depth = selection.depth(table)
    conditions = _panels(rows)
    figure, axes = _grid([min(len(c), most) for c in conditions], depth)
    left_out = []
    for ax, found in zip(axes, conditions, strict=True):
        chosen = [found[i] for i in _evenly(len(found), most)]
        if len(chosen) < len(found):
            left_out.append(f"{_title(found[0])}: {len(chosen)} of {len(found)} conditions")
        _panel(ax, chosen, depth)
        ax.set_title(style.literal(_title(found[0])))
    handles = [Patch(facecolor=PRETRAINED), Patch(facecolor=REINITIALIZED, edgecolor="#8FA3BF")]
    style.legend(figure, handles, ["pretrained", "re-initialised"])
    style.footnote(figure, *left_out)
    return figure


def _panels(rows: pd.DataFrame) -> list[list[dict[Any, Any]]]:
    """The conditions of each experiment; one that does only what an earlier one of its kind does is left out."""
    panels = []
    seen: dict[str, set[str]] = {}
    for _, group in rows.groupby(["experiment", "mode", "block_size"], sort=False, dropna=False):
        conditions = group.drop_duplicates(list(selection.POINT)).to_dict("records")
        done = {c["interventions"] for c in conditions}
        before = seen.setdefault(conditions[0]["kind"], set())
        if not done <= before:
            panels.append(conditions)
        before |= done
    return panels


def _grid(counts: Sequence[int], depth: int) -> tuple[Figure, list[Axes]]:
    """A figure with panels for these numbers of conditions: each row as high as it must be, as wide as a page at best.

    Two stand side by side however deep the encoder is, and never more than four.
    """
    width = 1.0 + 0.2 * depth
    columns = min(len(counts), 4, max(2, int(_PAGE / width)))
    heights = [max(counts[i : i + columns]) for i in range(0, len(counts), columns)]
    figure = Figure(
        figsize=(max(width * columns, 3.6), 0.22 * sum(heights) + 0.75 * len(heights) + 0.5),
        layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06),
    )
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    axes = [figure.add_subplot(grid[i // columns, i % columns]) for i in range(len(counts))]
    for i, ax in enumerate(axes):
        ax.set_ylim(heights[i // columns] - 0.4, -0.6)
    return figure, axes


def layers_after(interventions: str, depth: int) -> list[tuple[int, bool, list[int]]]:
    """Per position: the pretrained layer it holds, whether it was re-initialised, and which of its heads were."""
    state: list[tuple[int, bool, list[int]]] = [(n, False, []) for n in range(1, depth + 1)]
    for intervention in json.loads(interventions):
        match intervention["kind"]:
            case "reinitialize":
                for n in intervention["layers"]:
                    state[n - 1] = (state[n - 1][0], True, [])
            case "permute":
                state = [state[n - 1] for n in intervention["order"]] + state[len(intervention["order"]) :]
            case "reinitialize-heads":
                for n, head in intervention["heads"]:
                    source, gone, heads = state[n - 1]
                    state[n - 1] = (source, gone, heads if gone else [*heads, head])
            case "delete":
                state = [layer for n, layer in enumerate(state, start=1) if n not in intervention["layers"]]
            case other:
                raise PalimpsestError(f"the intervention {other!r} cannot be drawn")
    return state


def _panel(ax: Axes, conditions: Sequence[dict[Any, Any]], depth: int) -> None:
    for row, condition in enumerate(conditions):
        state = layers_after(condition["interventions"], depth)
        moved = any(source != place for place, (source, _, _) in enumerate(state, start=1))
        for place, (source, reinitialized, heads) in enumerate(state, start=1):
            color = REINITIALIZED if reinitialized else PRETRAINED
            ax.add_patch(
                Rectangle((place - 0.44, row - 0.4), 0.88, 0.8, facecolor=color, edgecolor="#8FA3BF", linewidth=0.4)
            )
            if heads:
                ax.add_patch(Rectangle((place - 0.44, row - 0.4), 0.88, 0.5, facecolor=REINITIALIZED, linewidth=0))
            text = ",".join(map(str, heads)) or (str(source) if moved else "")
            if text:
                ink = "#222222" if heads or reinitialized else "white"
                ax.text(place, row, text, ha="center", va="center", fontsize=5.5, color=ink)
    ax.set(xlim=(0.4, depth + 0.6), xlabel="Layer")
    ax.xaxis.tick_top()  # panels with fewer rows end higher than their neighbours
    ax.xaxis.set_label_position("top")
    ax.xaxis.label.set_fontsize(7)
    ax.set_xticks(range(1, depth + 1) if depth <= 14 else range(1, depth + 1, 1 + depth // 12))
    ax.set_yticks(range(len(conditions)), [style.literal(_row_name(c)) for c in conditions])
    ax.tick_params(length=0, labelsize=7)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _title(condition: dict[Any, Any]) -> str:
    label = short(condition["experiment"])
    if condition["kind"] != "localized":
        return label
    return f"{label}: {'layer' if condition['block_size'] == 1 else 'block'} {mode_name(condition['mode'])}"


def _row_name(condition: dict[Any, Any]) -> str:
    return point_name(condition).removesuffix(" re-initialised").removesuffix(" preserved")


def _evenly(count: int, most: int) -> list[int]:
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most))})
