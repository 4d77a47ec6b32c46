"""Is a difference a signal or noise: paired tests, and what to do when many are made at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from palimpsest.analysis.statistics import Interval, finished, interval_of
from palimpsest.errors import PalimpsestError

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
    """Judge paired differences: by Student's t test; with the bootstrap by flipping signs, and medians by a sign test.

    One pair says nothing: p is NaN. Where all differences are the same, which a t test takes for certainty, signs are
    flipped in any case, two pairs have p = 0.5, and there is no interval.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[~np.isnan(values)]
    found = interval_of(values, interval)
    if values.size < 2:
        return Difference(found, math.nan)
    if np.ptp(values) <= 1e-12:  # no spread: t would be 0/0 or infinite
        return Difference(replace(found, low=math.nan, high=math.nan), _flip_p(values))
    tests = {"bootstrap": _flip_p, "median": _sign_p}
    test = tests.get(interval, lambda sample: float(stats.ttest_1samp(sample, 0.0).pvalue))
    return Difference(found, test(values))


def _sign_p(values: Floats) -> float:
    """How likely so many of the differences, or more, would have the same sign; those that are zero do not count."""
    above, below = int((values > 0).sum()), int((values < 0).sum())
    return float(stats.binomtest(above, above + below).pvalue) if above + below else 1.0


def _flip_p(values: Floats, draws: int = 10_000) -> float:
    """The part of sign flips that give a mean as far from zero: of all of them while they are few.

    Of a sample of them, to which the observed signs belong too: p is never zero.
    """
    every = values.size <= 13
    if every:
        signs = 1 - 2 * ((np.arange(2**values.size)[:, None] >> np.arange(values.size)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], size=(draws, values.size))
    far = np.abs((signs * values).mean(axis=1)) >= abs(values.mean()) - 1e-12
    return float(np.mean(far)) if every else (int(far.sum()) + 1) / (draws + 1)


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

    The coordinates in `also` must be the same too. Two baselines for one trial are an error.
    """
    keys = ["task", "size", "trial", *also]
    rows, baseline = (t[finished(t) & t["score"].notna()] for t in (rows, baseline))
    several = baseline.groupby(keys, sort=False)["id"].nunique()
    if (several > 1).any():
        raise PalimpsestError(
            f"there are {int(several.max())} different trials of the same index that differences could be taken "
            "to (they may differ in their epochs); leave one of the experiments out, or give it a study of its own"
        )
    known = baseline.drop_duplicates(keys).set_index(keys)["score"].rename("baseline")
    joined = rows.join(known, on=keys)
    joined["difference"] = joined["score"] - joined["baseline"]
    return joined[joined["difference"].notna()]
