"""Is a difference a signal or noise: paired tests, and what to do when many are made at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from palimpsest.analysis.statistics import Interval, finished, interval_of

Floats = npt.NDArray[np.float64]
Correction = Literal["holm", "bh", "none"]

CORRECTIONS = {
    "holm": "Holm's correction (family-wise error)",
    "bh": "Benjamini and Hochberg's correction (false discovery rate)",
    "none": "no correction for multiple comparisons",
}
"""How tables call the corrections."""

SHORT_CORRECTIONS = {"holm": "Holm", "bh": "Benjamini–Hochberg", "none": "uncorrected"}
"""How figures call them, where there is little room."""


@dataclass(frozen=True)
class Difference:
    """The mean (or median) of paired differences with its interval, and the p value of there being none."""

    interval: Interval
    p: float


def paired(differences: npt.ArrayLike, interval: str = "t") -> Difference:
    """Judge paired differences: by Student's t test or, with an interval by the bootstrap, by a sign-flip test.

    One pair says nothing: p is NaN. Where all differences are the same, which a t test takes for certainty, signs are
    flipped in any case: two pairs have p = 0.5.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[~np.isnan(values)]
    return Difference(
        interval_of(values, interval), _flip_p(values) if interval in ("bootstrap", "median") else _t_p(values)
    )


def _t_p(values: Floats) -> float:
    if values.size < 2:
        return math.nan
    if np.ptp(values) <= 1e-12:  # no spread: t would be 0/0 or infinite
        return _flip_p(values)
    return float(stats.ttest_1samp(values, 0.0).pvalue)


def _flip_p(values: Floats, draws: int = 10_000) -> float:
    """The part of sign flips that give a mean as far from zero; all of them while they are few."""
    if values.size < 2:
        return math.nan
    if values.size <= 13:
        signs = 1 - 2 * ((np.arange(2**values.size)[:, None] >> np.arange(values.size)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], size=(draws, values.size))
    means = np.abs((signs * values).mean(axis=1))
    return float(np.mean(means >= abs(values.mean()) - 1e-12))


def corrected(p_values: npt.ArrayLike, how: str = "holm") -> Floats:
    """p values adjusted for there being many of them; NaN ones are not counted and stay NaN."""
    p = np.asarray(p_values, dtype=np.float64)
    found = p.copy()
    known = np.flatnonzero(~np.isnan(p))
    if how == "none" or not known.size:
        return found
    order = known[np.argsort(p[known], kind="stable")]
    m = len(order)
    if how == "holm":
        steps = np.maximum.accumulate(p[order] * (m - np.arange(m)))
    else:
        steps = np.minimum.accumulate((p[order] * m / np.arange(1, m + 1))[::-1])[::-1]
    found[order] = np.minimum(steps, 1.0)
    return found


def pair_with(rows: pd.DataFrame, baseline: pd.DataFrame, *also: str) -> pd.DataFrame:
    """The finished rows with ``baseline`` and ``difference``: to the trial of the same task, size and index.

    The coordinates in `also` must be the same too.
    """
    keys = ["task", "size", "trial", *also]
    rows, baseline = (t[finished(t) & t["score"].notna()] for t in (rows, baseline))
    known = baseline.drop_duplicates(keys).set_index(keys)["score"].rename("baseline")
    joined = rows.join(known, on=keys)
    joined["difference"] = joined["score"] - joined["baseline"]
    return joined[joined["difference"].notna()]
