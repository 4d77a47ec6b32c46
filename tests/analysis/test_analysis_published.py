"""The discrepancies and the published numbers, as data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from palimpsest.analysis.errata import ERRATA
from palimpsest.analysis.published import names, published
from palimpsest.errors import UnknownName
from palimpsest.specs.differences import DIFFERENCES
from palimpsest.specs.protocol import PROTOCOLS


def test_every_discrepancy_that_can_be_run_names_its_protocol() -> None:
    assert [e.number for e in ERRATA] == list(range(1, len(ERRATA) + 1))
    assert all(e.protocol in PROTOCOLS for e in ERRATA if e.protocol)
    by_number = {e.number: e.protocol for e in ERRATA}
    assert {d.erratum: d.name for d in DIFFERENCES}.items() <= by_number.items()


def test_the_factors_of_intervals_are_students() -> None:
    [erratum] = [e for e in ERRATA if e.choice == "95 % intervals"]
    for n in (3, 10, 50):
        assert f"{stats.t.ppf(0.975, n - 1):.3f} (n = {n})" in erratum.released


def test_every_published_table_says_where_it_is_from() -> None:
    assert {"correlations", "datasets", "runtime", "sequential", "heads", "scores"} <= set(names())
    for name in names():
        table = published(name)
        assert table.source
        assert table.what
        assert table.rows
        assert len({frozenset(row) for row in table.rows}) == 1  # all rows have the same keys
    with pytest.raises(UnknownName, match="Did you mean 'runtime'"):
        published("runtimes")


def test_the_papers_account_of_its_runtime_adds_up() -> None:
    printed = {"45 GPU-hours": 45, "16 GPU-hours": 16, "7 GPU-days": 7 * 24, "14 GPU-hours": 14, "22 GPU-days": 22 * 24}
    for row in published("runtime").rows:
        product = row["epochs"] * row["trials"] * row["points"] * row["tasks"] * row["minutes_per_epoch"] / 60
        assert product == pytest.approx(printed[row["printed"]], rel=0.05)


def test_the_summaries_of_heads_are_those_of_the_heads() -> None:
    """The report rounds single differences, so its summaries of them are a little off; a slip in typing is not."""
    heads = {(row["task"], row["layer"]): row["difference"] for row in published("heads").rows}
    for row in published("heads-by-layer").rows:
        values = heads[row["task"], row["layer"]]
        assert len(values) == row["count"]
        assert np.mean(values) == pytest.approx(row["mean"], abs=0.0011)
        assert np.std(values, ddof=1) == pytest.approx(row["std"], abs=0.0011)
        assert (min(values), max(values)) == pytest.approx((row["min"], row["max"]), abs=0.0011)
    for row in published("heads-by-head").rows:
        values = [heads[row["task"], layer][row["head"] - 1] for layer in (1, 2, 11, 12)]
        assert np.mean(values) == pytest.approx(row["mean"], abs=0.0011)
        assert (min(values), max(values)) == pytest.approx((row["min"], row["max"]), abs=0.0011)


def test_the_diagonal_of_the_sequential_matrix_is_the_direct_score() -> None:
    for row in published("sequential").rows:
        direct = published("scores-cased").find(task=row["task"], metric=row["metric"])
        assert direct
        assert direct["score"] == row[row["task"]]
    assert published("sequential").find(task="sst2") is None
