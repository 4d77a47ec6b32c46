"""The papers' different ways of counting along the x axis."""

from __future__ import annotations

from typing import Literal

import pandas as pd

Axis = Literal["preserved", "reinitialized", "from"]

AXES: dict[str, str] = {
    "preserved": "Layers preserved (k)",
    "reinitialized": "Layers re-initialised",
    "from": "Re-initialised from layer k on",
}


def place(preserved: pd.Series[int], axis: Axis, depth: int) -> pd.Series[int]:
    """Where a number of preserved layers stands: as it is, as those that are not, or as the first that is not."""
    if axis == "reinitialized":
        return depth - preserved
    return preserved + 1 if axis == "from" else preserved


def ends(axis: Axis, depth: int) -> tuple[int, int]:
    return (1, depth + 1) if axis == "from" else (0, depth)
