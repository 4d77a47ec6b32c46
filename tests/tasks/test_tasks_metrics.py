"""Metrics, against scipy and hand-worked cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from palimpsest.tasks import metrics
from palimpsest.tasks.base import Answers, Split, Task
from palimpsest.tasks.known import KNOWN, METRICS

NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


def task(kind: str, targets: list[int] | list[float], names: tuple[str, ...], labels: tuple[str, ...] = ()) -> Task:
    split = Split(["x"] * len(targets), None, np.array(targets))
    return Task("t", kind, labels, names, lambda: (split, split))  # type: ignore[arg-type]


def test_binary_by_hand() -> None:
    # right: 2 of class 1, 1 of class 0; one 0 taken for 1, one 1 taken for 0
    made = task("classification", [1, 1, 1, 0, 0], ("accuracy", "f1", "mcc"), ("no", "yes"))
    found = metrics.score(made, np.array([1, 1, 0, 0, 1]))
    assert list(found) == ["accuracy", "f1", "mcc"]
    assert found == pytest.approx({"accuracy": 3 / 5, "f1": 2 / 3, "mcc": (2 * 1 - 1 * 1) / (3 * 3 * 2 * 2) ** 0.5})


def test_f1_is_macro_for_more_classes_even_those_never_seen() -> None:
    made = task("classification", [0, 0, 1], ("f1",), ("a", "b", "c"))
    assert metrics.score(made, np.array([0, 1, 1]))["f1"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


@pytest.mark.parametrize("name", ["mcc", "pearson", "spearman"])
def test_constant_predictions_do_not_correlate(name: str) -> None:
    measure = getattr(metrics, name)
    targets = np.array([0, 1, 1])
    assert measure(targets, np.array([1, 1, 1])) == 0.0
    assert measure(targets, np.full(3, 0.1, dtype=np.float32)) == 0.0
    assert measure(np.zeros(3, dtype=np.int64), np.array([0, 1, 1])) == 0.0


def test_one_class_everywhere() -> None:
    made = task("classification", [0, 0], ("accuracy", "f1", "mcc"), ("no", "yes"))
    assert metrics.score(made, np.array([0, 0])) == {"accuracy": 1.0, "f1": 0.0, "mcc": 0.0}


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=30))
def test_correlations_are_scipys(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    assume(np.ptp(a) > 1e-3 * np.abs(a).max() and np.ptp(b) > 1e-3 * np.abs(b).max())
    assert metrics.pearson(a, b) == pytest.approx(scipy.stats.pearsonr(a, b).statistic, abs=1e-6)
    assert metrics.spearman(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-9)


def test_tiny_and_huge_predictions_correlate_all_the_same() -> None:
    targets = np.array([1.0, 2.0, 3.0])
    for scale in (1e-200, 1e200):
        assert metrics.pearson(targets, targets * scale) == pytest.approx(1.0)


def test_a_prediction_that_is_no_number_shows() -> None:
    made = task("regression", [0.0, 1.0, 2.0], ("pearson", "spearman"))
    assert all(np.isnan(v) for v in metrics.score(made, np.array([0.0, np.nan, 1.0])).values())


def test_spans_are_scored_as_texts() -> None:
    split = Split(["q", "q"], ["c", "c"], [Answers(("the river",), (0,)), Answers((), ())])
    made = Task("squad2", "spans", (), ("f1", "em"), lambda: (split, split))
    assert list(metrics.score(made, ["river bank", ""]).items()) == [("f1", pytest.approx(5 / 6)), ("em", 0.5)]


def test_as_many_predictions_as_examples() -> None:
    with pytest.raises(ValueError, match="1 predictions for 2"):
        metrics.score(task("classification", [0, 1], ("accuracy",), ("a", "b")), np.array([1]))


def test_every_known_task_is_measured_by_metrics_of_its_kind() -> None:
    for known in KNOWN.values():
        assert set(known.metrics) <= set(METRICS[known.kind]), known.name
