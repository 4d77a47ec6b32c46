"""Intervals against scipy's and against their own algebra."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from palimpsest.analysis.statistics import (
    bootstrap_interval,
    interval_of,
    mean_interval,
    median,
    summarise,
    two_sigma,
)
from palimpsest.errors import UnknownName

samples = st.lists(st.floats(-1, 1), min_size=2, max_size=30)


@pytest.mark.parametrize(("n", "t"), [(3, 4.303), (10, 2.262), (50, 2.010)])
def test_t_intervals_have_the_right_width(n: int, t: float) -> None:
    values = np.random.default_rng(n).normal(size=n)
    found = mean_interval(values)
    half = t * values.std(ddof=1) / math.sqrt(n)
    assert found.n == n
    assert found.mean == pytest.approx(values.mean())
    assert found.high - found.mean == pytest.approx(half, rel=1e-3)
    assert found.mean - found.low == pytest.approx(half, rel=1e-3)


@given(samples, st.floats(0.5, 0.999))
def test_t_intervals_are_scipys(values: list[float], confidence: float) -> None:
    assume(np.std(values) > 1e-6)
    low, high = stats.t.interval(confidence, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    found = mean_interval(values, confidence)
    assert (found.low, found.high) == pytest.approx((low, high))


@given(samples, st.floats(-10, 10), st.floats(0.1, 10), st.sampled_from(["t", "2sigma", "bootstrap"]))
def test_intervals_move_and_stretch_with_the_values(values: list[float], shift: float, scale: float, kind: str) -> None:
    before = interval_of(values, kind)
    after = interval_of([scale * v + shift for v in values], kind)
    for name in ("mean", "low", "high"):
        assert getattr(after, name) == pytest.approx(scale * getattr(before, name) + shift, abs=1e-8)
    assert after.std == pytest.approx(scale * before.std, abs=1e-8)


@given(samples, st.randoms(use_true_random=False))
def test_order_and_missing_values_do_not_matter(values: list[float], random: Random) -> None:
    shuffled = [*values, math.nan]
    random.shuffle(shuffled)
    for interval in (mean_interval, two_sigma):
        a, b = interval(values), interval(shuffled)
        assert (a.mean, a.low, a.high, a.std) == pytest.approx((b.mean, b.low, b.high, b.std), abs=1e-12)
        assert a.n == b.n == len(values)


@given(samples)
def test_bounds_hold_the_centre_and_more_confidence_is_wider(values: list[float]) -> None:
    for found in (mean_interval(values), two_sigma(values), bootstrap_interval(values)):
        assert found.low <= found.mean + 1e-12
        assert found.mean <= found.high + 1e-12
    narrow, wide = mean_interval(values, 0.5), mean_interval(values, 0.99)
    assert wide.high - wide.low >= narrow.high - narrow.low
    assert min(values) <= bootstrap_interval(values).low + 1e-12
    assert bootstrap_interval(values).high <= max(values) + 1e-12


@pytest.mark.parametrize("kind", ["t", "2sigma", "bootstrap"])
def test_a_single_value_has_no_interval(kind: str) -> None:
    found = interval_of([0.5], kind)
    assert (found.mean, found.n) == (0.5, 1)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert math.isnan(found.std)


@pytest.mark.parametrize("kind", ["t", "2sigma", "bootstrap"])
def test_no_values_have_no_mean(kind: str) -> None:
    found = interval_of([math.nan], kind)
    assert found.n == 0
    assert math.isnan(found.mean)


def test_two_sigma_is_the_spread_not_the_error_of_the_mean() -> None:
    found = two_sigma([1.0, 2.0, 3.0])
    assert (found.low, found.mean, found.high) == (0.0, 2.0, 4.0)


def test_bootstrap_of_the_median_is_repeatable_and_depends_on_the_seed() -> None:
    values = np.random.default_rng(0).normal(size=25)
    a = bootstrap_interval(values, np.median, seed=3)
    assert a == bootstrap_interval(values, np.median, seed=3)
    assert a.mean == median(values) == np.median(values)
    assert (a.low, a.high) != tuple(getattr(bootstrap_interval(values, np.median, seed=4), x) for x in ("low", "high"))


def test_bootstrap_covers_about_as_often_as_it_says() -> None:
    noise = np.random.default_rng(1)
    found = [bootstrap_interval(noise.normal(size=40), resamples=400) for _ in range(200)]
    assert 0.88 <= np.mean([i.low <= 0 <= i.high for i in found]) <= 0.99


def test_unknown_intervals_are_named() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'bootstrap'"):
        interval_of([1.0, 2.0], "bootstap")


def test_summarise_counts_each_finished_trial_once_per_group() -> None:
    table = pd.DataFrame(
        {
            "task": pd.array(["b", "b", "b", "a", "a", "a"], dtype="string"),
            "preserved": pd.array([0, 0, 0, 0, 0, None], dtype="Int64"),
            "id": ["1", "1", "2", "3", "4", "5"],
            "status": ["finished", "finished", "finished", "finished", "failed", "finished"],
            "score": [0.2, 0.2, 0.4, 0.5, 0.9, math.nan],
        }
    )
    summary = summarise(table, by=["task", "preserved"])
    assert list(summary["task"]) == ["b", "a"]
    assert list(summary["n"]) == [2, 1]
    assert list(summary["mean"]) == pytest.approx([0.3, 0.5])
    assert summary["low"].isna().tolist() == [False, True]
    assert list(summary["median"]) == pytest.approx([0.3, 0.5])
    assert str(summary["preserved"].dtype) == "Int64"
    assert summarise(table.iloc[:0], by=["task"]).empty
