"""Heat maps of differences to a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm

Floats = npt.NDArray[np.float64]


def heat_map(
    ax: Axes,
    values: Floats,
    texts: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    below: Sequence[Sequence[str]] | None = None,
    label: str = "",
) -> None:
    """Differences as colours, blue above the baseline and red below it, white at it; a text in every cell.

    `below` are texts in smaller print under the first ones; `label` says what the colours stand for.
    """
    reach = float(np.nanmax(np.abs(values), initial=0.0))
    image = ax.imshow(
        np.ma.masked_invalid(values),
        cmap=mpl.colormaps["RdBu"],
        norm=TwoSlopeNorm(0.0, -(reach or 1.0), reach or 1.0),
        aspect="auto",
    )
    for i, line in enumerate(texts):
        for j, text in enumerate(line):
            strong = not np.isnan(values[i, j]) and abs(values[i, j]) > 0.6 * reach
            look: Any = {"ha": "center", "color": "white" if strong else "#222222"}
            if below is None or not below[i][j]:
                ax.text(j, i, text, va="center_baseline", fontsize=6.5, **look)
            else:
                ax.text(j, i - 0.02, text, va="bottom", fontsize=7, **look)
                ax.text(j, i + 0.06, below[i][j], va="top", fontsize=5, **look)
    ax.set_xticks(range(len(columns)), list(columns))
    ax.set_yticks(range(len(rows)), list(rows))
    ax.grid(visible=False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    if not reach:
        return
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    bar.ax.tick_params(labelsize=7)
    bar.set_label(label, fontsize=7)
    bar.outline.set_visible(False)
