"""Means and their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from palimpsest.errors import UnknownName

Floats = npt.NDArray[np.float64]
IntervalKind = Literal["t", "2sigma", "bootstrap", "median"]

INTERVALS: dict[str, str] = {
    "t": "95 % t intervals",
    "2sigma": "±2σ",
    "bootstrap": "95 % bootstrap intervals",
    "median": "95 % bootstrap intervals of the median",
}
"""How figures and tables call the kinds of intervals."""


@dataclass(frozen=True)
class Interval:
    """A centre and its bounds. From a single value there are no bounds: `low`, `high` and `std` are NaN."""

    mean: float
    low: float
    high: float
    n: int
    std: float


def mean_interval(values: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """The mean with a confidence interval by Student's t distribution, from the n - 1 standard deviation."""
    n, mean, std = _moments(values)
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * std / math.sqrt(n) if n > 1 else math.nan
    return Interval(mean, mean - half, mean + half, n, std)


def two_sigma(values: npt.ArrayLike) -> Interval:
    """The mean ± two standard deviations: the spread of the trials, not the uncertainty of their mean."""
    n, mean, std = _moments(values)
    return Interval(mean, mean - 2 * std, mean + 2 * std, n, std)


def bootstrap_interval(
    values: npt.ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    seed: int = 0,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Interval:
    """Any statistic (called with ``axis=1``) with its percentile bootstrap interval; it depends on the seed only."""
    sample = _clean(values)
    n, _, std = _moments(sample)
    centre = float(statistic(sample[None, :], axis=1)[0]) if n else math.nan
    if n < 2:
        return Interval(centre, math.nan, math.nan, n, std)
    drawn = sample[np.random.default_rng(seed).integers(0, n, size=(resamples, n))]
    low, high = np.quantile(statistic(drawn, axis=1), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(centre, float(low), float(high), n, std)


def median(values: npt.ArrayLike) -> float:
    """The median of the values that are numbers; NaN when there are none."""
    sample = _clean(values)
    return float(np.median(sample)) if sample.size else math.nan


def interval_of(values: npt.ArrayLike, kind: str = "t") -> Interval:
    """The mean, or with ``median`` the median, with an interval of the kind of this name."""
    kinds: dict[str, Callable[[npt.ArrayLike], Interval]] = {
        "t": mean_interval,
        "2sigma": two_sigma,
        "bootstrap": bootstrap_interval,
        "median": lambda sample: bootstrap_interval(sample, np.median),
    }
    if kind not in kinds:
        raise UnknownName("interval", kind, kinds)
    return kinds[kind](values)


def summarise(table: pd.DataFrame, by: Sequence[str], interval: str = "t", value: str = "score") -> pd.DataFrame:
    """Per group of finished trials: mean, low, high, n, std, median. Groups keep the order in which they first appear.

    With the interval ``median``, what is called the mean is the median too: the middle of its interval.

    A trial that stands in several cells of a group counts once; values that are not numbers do not count.
    """
    by = list(by)
    columns = [*by, "mean", "low", "high", "n", "std", "median"]
    done = table[finished(table) & table[value].notna()].drop_duplicates([*by, "id"])
    rows = []
    for key, group in done.groupby(by, sort=False, dropna=False):
        values = group[value].to_numpy(dtype=np.float64)
        found = interval_of(values, interval)
        rows.append([*key, found.mean, found.low, found.high, found.n, found.std, median(values)])
    summary = pd.DataFrame(rows, columns=columns)
    return summary.astype({name: done[name].dtype for name in by})


def finished(table: pd.DataFrame) -> pd.Series[bool]:
    """Which rows are of finished trials. Rows of a table without a status come from records, and all count."""
    if "status" not in table:
        return pd.Series(True, index=table.index)
    return table["status"].eq("finished").fillna(False).astype(bool)


def _clean(values: npt.ArrayLike) -> Floats:
    sample = np.asarray(values, dtype=np.float64).ravel()
    return sample[~np.isnan(sample)]


def _moments(values: npt.ArrayLike) -> tuple[int, float, float]:
    sample = _clean(values)
    if not sample.size:
        return 0, math.nan, math.nan
    return sample.size, float(sample.mean()), float(sample.std(ddof=1)) if sample.size > 1 else math.nan
