"""Replicates of scores: against scipy, scikit-learn and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import matthews_corrcoef

from palimpsest.analysis.resampling import Evidence, percentile, resample, simultaneous, widening

RIGHT = (np.random.default_rng(1).random(500) < 0.6).astype(np.int64)


def rows(scores: list[float], *, point: int = 0, metric: str = "accuracy", prefix: str = "t") -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"task": "x", "k": point, "id": f"{prefix}{i}", "trial": i, "score": s, "metric": metric}
            for i, s in enumerate(scores)
        ]
    )


def guesses(accuracy: float, seed: int) -> Any:
    wrong = np.random.default_rng(seed).permutation(len(RIGHT))[: round((1 - accuracy) * len(RIGHT))]
    found = RIGHT.copy()
    found[wrong] = 1 - found[wrong]
    return found.astype(np.uint8)


@pytest.mark.parametrize("n", [2, 3, 10, 50])
def test_trials_drawn_again_are_as_uncertain_as_students_t(n: int) -> None:
    scores = list(np.random.default_rng(n).normal(0.8, 0.05, n))
    mean, draws = resample(rows(scores), ["k"], Evidence(), resamples=20_000).at("x", 0)
    half = float(stats.t.ppf(0.975, n - 1)) * stats.sem(scores)
    assert mean == pytest.approx(np.mean(scores))
    assert 1.96 * draws.std() == pytest.approx(half, rel=0.03)
    assert widening(1000) == pytest.approx(1, abs=0.01)


def test_examples_drawn_again_vary_as_a_proportion_does() -> None:
    known = Evidence({"t0": guesses(0.8, 0)}, {"x": RIGHT})
    _, draws = resample(rows([0.8]), ["k"], known, resamples=4000).at("x", 0)
    assert draws.mean() == pytest.approx(0.8, abs=0.002)
    assert draws.std() == pytest.approx(np.sqrt(0.8 * 0.2 / len(RIGHT)), rel=0.06)


def test_mcc_is_scikit_learns() -> None:
    guessed = guesses(0.75, 3)
    score = float(matthews_corrcoef(RIGHT, guessed))
    known = Evidence({"t0": guessed}, {"x": RIGHT})
    _, draws = resample(rows([score], metric="mcc"), ["k"], known, resamples=3000).at("x", 0)
    stream = np.random.default_rng(0)
    picks = (stream.integers(len(RIGHT), size=len(RIGHT)) for _ in range(400))
    theirs = [matthews_corrcoef(RIGHT[p], guessed[p]) for p in picks]
    assert draws.mean() == pytest.approx(score, abs=0.005)
    assert draws.std() == pytest.approx(np.std(theirs), rel=0.12)


def test_points_are_paired_by_examples_and_by_trials() -> None:
    predictions = {f"a{i}": guesses(0.8, i) for i in range(3)}
    predictions |= {f"b{i}": predictions[f"a{i}"] for i in range(3)}
    table = pd.concat([rows([0.8] * 3, point=0, prefix="a"), rows([0.8] * 3, point=1, prefix="b")])
    points = resample(table, ["k"], Evidence(predictions, {"x": RIGHT}), resamples=200)
    assert np.array_equal(points.at("x", 0)[1], points.at("x", 1)[1])
    assert points.fewest() == 3


def test_predictions_that_do_not_fit_count_for_nothing() -> None:
    for known in (
        Evidence({"t0": guesses(0.8, 0)[:-1]}, {"x": RIGHT}),  # another validation set
        Evidence({"t0": guesses(0.8, 0)}),  # no answers
        Evidence({}, {"x": RIGHT}),
    ):
        assert resample(rows([0.8]), ["k"], known, resamples=50).at("x", 0)[1].std() < 1e-12
    three_classes = Evidence({"t0": np.full(len(RIGHT), 2, np.uint8)}, {"x": RIGHT})
    assert resample(rows([0.3], metric="mcc"), ["k"], three_classes, resamples=50).at("x", 0)[1].std() < 1e-12


def test_it_is_the_same_every_time() -> None:
    known = Evidence({f"t{i}": guesses(0.7, i) for i in range(3)}, {"x": RIGHT})
    first, second = (resample(rows([0.7] * 3), ["k"], known, resamples=100).draws for _ in range(2))
    assert np.array_equal(first, second)


def test_simultaneous_bands_hold_for_all_at_once() -> None:
    stream = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        truth = np.zeros(8)
        means = stream.normal(0, 1, 8)
        low, high = simultaneous(means, means + stream.normal(0, 1, (400, 8)))
        covered += bool(((low <= truth) & (truth <= high)).all())
    assert 0.9 < covered / 300 <= 0.99
    one_low, _ = simultaneous(np.zeros(1), stream.normal(0, 1, (20_000, 1)))
    assert one_low[0] == pytest.approx(-1.96, abs=0.05)
    assert percentile(stream.normal(0, 1, 20_000))[1] == pytest.approx(1.96, abs=0.06)


def test_bands_of_many_differences_hold_at_once_with_few_trials() -> None:
    """Twelve differences of nothing, known from three trials each: seldom is one of them away from zero."""
    ks, away = range(12), 0
    for n in range(60):
        stream = np.random.default_rng([5, n])
        table = pd.concat([rows(list(stream.normal(0.7, 0.02, 3)), point=k, prefix=f"{k}-") for k in ks])
        found = resample(table, ["k"], Evidence(), resamples=300, seed=n, at_once=len(ks) - 1)
        parts = [(found.at("x", k), found.at("x", 0)) for k in ks if k]
        means = np.array([a[0] - b[0] for a, b in parts])
        low, high = simultaneous(means, np.stack([a[1] - b[1] for a, b in parts], axis=1))
        away += bool(((low > 0) | (high < 0)).any())
    assert away <= 9  # 5 % of them would be 3; a third of them with the width of a single interval


def test_trials_of_one_permutation_are_one_draw() -> None:
    """Ten trainings of each of five permutations tell no more of permutations than one of each does."""
    scores = [0.5, 0.6, 0.7, 0.8, 0.9]
    once = rows(scores).assign(permutation=range(5))
    often = pd.concat([once.assign(id=[f"{i}-{n}" for i in range(5)], trial=n) for n in range(10)])
    a, b = (resample(t, ["k"], Evidence(), unit="permutation") for t in (once, often))
    np.testing.assert_allclose(a.draws, b.draws)
    assert (a.fewest(), b.fewest()) == (5, 5)
