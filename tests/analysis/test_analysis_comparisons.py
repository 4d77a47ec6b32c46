"""Paired tests and corrections for many of them, against laws and hand-worked cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from palimpsest.analysis.comparisons import corrected, paired

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def test_hand_worked_corrections() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    np.testing.assert_allclose(corrected(p, "holm"), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(corrected(p, "bh"), [0.02, 0.04, 0.04, 0.02])
    np.testing.assert_allclose(corrected(p, "none"), p)


@settings(deadline=None)
@given(P_VALUES, st.sampled_from(["holm", "bh"]))
def test_corrections_never_help_and_keep_the_order(p: list[float], how: str) -> None:
    found = corrected(p, how)
    assert (found >= np.array(p) - 1e-12).all()
    assert (found <= 1).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(found[order]) >= -1e-12).all()


@settings(deadline=None)
@given(P_VALUES)
def test_holm_is_the_stricter_one_and_milder_than_bonferroni(p: list[float]) -> None:
    holm = corrected(p, "holm")
    assert (holm >= corrected(p, "bh") - 1e-12).all()
    assert (holm <= np.minimum(np.array(p) * len(p), 1) + 1e-12).all()


@settings(deadline=None)
@given(P_VALUES)
def test_bh_agrees_with_scipy(p: list[float]) -> None:
    np.testing.assert_allclose(corrected(p, "bh"), stats.false_discovery_control(p), atol=1e-12)


def test_p_values_that_are_missing_do_not_count() -> None:
    found = corrected([np.nan, 0.02, 0.5], "holm")
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], [0.04, 0.5])


def test_paired_t_is_scipys() -> None:
    a, b = np.array([0.5, 0.6, 0.55, 0.7]), np.array([0.45, 0.58, 0.5, 0.61])
    found = paired(a - b)
    assert found.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert found.interval.mean == pytest.approx((a - b).mean())


def test_sign_flips_are_counted_exactly() -> None:
    assert paired([1.0, 2.0, 3.0], "bootstrap").p == pytest.approx(2 / 8)
    assert paired([1.0, -1.0], "median").p == 1.0


def test_one_pair_says_nothing_and_pairs_without_spread_little() -> None:
    assert np.isnan(paired([0.1]).p)
    assert paired([0.0, 0.0, 0.0]).p == 1.0
    assert paired([-0.001, -0.001]).p == 0.5
    assert paired([0.3 - 0.2, 0.1, 0.1]).p == 0.25  # but for rounding


def test_no_interval_where_nothing_varies() -> None:
    found = paired([0.01, 0.01, 0.01])
    assert found.interval.mean == pytest.approx(0.01)
    assert np.isnan([found.interval.low, found.interval.high]).all()
    assert found.p == 0.25


def test_no_p_is_zero_and_medians_go_by_signs() -> None:
    many = 0.1 + np.random.default_rng(0).normal(0, 0.001, 40)
    assert paired(many, "bootstrap").p == pytest.approx(1 / 10_001)
    apart = [0.011, 0.012, 0.013, 0.014, 0.012, 0.013, 0.011, 0.012, 0.014, -0.5]
    assert paired(apart, "median").p == pytest.approx(2 * 11 / 2**10)  # one of ten, or none, has the other sign
    assert paired(apart, "bootstrap").p > 0.9
    assert paired([0.0, 0.0, 0.1], "median").p == 1.0
