"""What a picture shows, in words that follow the numbers."""

from __future__ import annotations

import pandas as pd
import pytest

from palimpsest.analysis.prose import describe_incremental


def table(scores: dict[int, list[float]], status: str = "finished") -> pd.DataFrame:
    rows = [
        {"kind": "incremental", "status": status, "task": "sst2", "size": 500, "preserved": k, "metric": "accuracy",
         "score": score}
        for k, found in scores.items() for score in found
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({0: [0.60, 0.61, 0.62], 6: [0.79, 0.80, 0.81], 12: [0.75, 0.76, 0.77]}, "pretraining helps"),
        ({0: [0.60, 0.61, 0.62], 12: [0.50, 0.51, 0.52]}, "pretraining harms"),
        ({0: [0.50, 0.60, 0.70], 12: [0.55, 0.65, 0.75]}, "not decided"),
        ({0: [0.5], 12: [0.9]}, "Single trials decide nothing"),
    ],
)
def test_the_verdict_follows_from_the_intervals(scores: dict[int, list[float]], said: str) -> None:
    text = describe_incremental(table(scores))
    assert said in text
    assert "nan" not in text


def test_the_best_point_and_the_largest_gain_are_named() -> None:
    text = describe_incremental(table({0: [0.60, 0.61, 0.62], 6: [0.79, 0.80, 0.81], 12: [0.75, 0.76, 0.77]}))
    assert "with 500 examples" in text
    assert "The best point is k = 6 (0.80)" in text
    assert "+0.19, comes from preserving layers 1 to 6" in text
    assert "comes from preserving layer 5." in describe_incremental(table({4: [0.5, 0.6], 5: [0.7, 0.8]}))


def test_without_results_there_is_nothing_to_say() -> None:
    assert describe_incremental(table({0: [0.5, 0.6], 12: [0.7, 0.8]}, status="missing")) == "Nothing is finished yet."
