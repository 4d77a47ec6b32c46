"""Subsamples: distinct rows, the same every time, smaller ones at the beginning of larger ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.errors import DataError
from palimpsest.tasks.sampling import count, subsample

SEEDS = st.integers(0, 2**31)


@given(st.integers(1, 500), st.data(), SEEDS)
def test_rows_are_distinct_and_in_range(n: int, data: st.DataObject, seed: int) -> None:
    k = data.draw(st.integers(1, n))
    rows = subsample(n, k, seed, "t")
    assert rows.dtype == np.int64
    assert len(rows) == len(set(rows.tolist())) == k
    assert 0 <= rows.min() <= rows.max() < n


@given(st.integers(1, 500), st.data(), SEEDS)
def test_a_smaller_sample_is_the_beginning_of_a_larger_one(n: int, data: st.DataObject, seed: int) -> None:
    large = data.draw(st.integers(1, n))
    small = data.draw(st.integers(1, large))
    np.testing.assert_array_equal(subsample(n, small, seed, "t"), subsample(n, large, seed, "t")[:small])
    np.testing.assert_array_equal(subsample(n, large, seed, "t"), subsample(n, None, seed, "t")[:large])


def test_the_rows_drawn_do_not_change_between_versions() -> None:
    assert subsample(10, 4, 3, "t").tolist() == [5, 4, 7, 0]


def test_seeds_differ() -> None:
    drawn = {tuple(subsample(1000, 5, seed, "t").tolist()) for seed in range(50)}
    assert len(drawn) == 50


@pytest.mark.parametrize(
    ("n", "fraction", "expected"),
    [(67349, 0.01, 673), (67349, 0.1, 6735), (104743, 0.006, 628), (50, 0.29, 15), (50, 0.25, 13), (10, 0.001, 1)],
)
def test_fractions_round_half_up_and_never_to_nothing(n: int, fraction: float, expected: int) -> None:
    assert count(n, fraction, "t") == expected == len(subsample(n, fraction, 0, "t"))


def test_more_than_there_is() -> None:
    with pytest.raises(DataError, match="cola: 50000 training examples are asked for, but there are only 8551"):
        subsample(8551, 50_000, 0, "cola")


@pytest.mark.parametrize("size", [0, -1, 0.0, 1.5])
def test_sizes_that_make_no_sense(size: int | float) -> None:
    with pytest.raises(DataError, match="cola"):
        subsample(100, size, 0, "cola")
