"""Shards of a study: disjoint, complete, and the same whatever is finished."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.errors import SpecError
from palimpsest.execution.plan import Plan, Resources, Shard
from palimpsest.specs.expansion import Cell
from palimpsest.specs.trial import Seeds, Trial


def _plan(trials: int, finished: set[int]) -> Plan:
    each = [Trial(encoder="tiny", task="sst2", size=8, seeds=Seeds.of(n)) for n in range(trials)]
    statuses = {each[n].identity: "finished" for n in finished}
    return Plan((), [Cell(t, {}) for t in each], Resources({}, {}, Path()), {}, statuses)  # type: ignore[arg-type]


@given(st.integers(0, 40), st.integers(1, 12), st.data())
def test_every_missing_trial_is_in_exactly_one_shard(trials: int, of: int, data: st.DataObject) -> None:
    finished = data.draw(st.sets(st.integers(0, max(0, trials - 1)))) if trials else set()
    plan, fresh = _plan(trials, finished), _plan(trials, set())
    parts = [plan.missing(shard=Shard(n, of)) for n in range(1, of + 1)]
    ids = [t.identity for part in parts for t in part]
    assert sorted(ids) == sorted(t.identity for t in plan.missing())
    for n, part in enumerate(parts, 1):
        whole = {t.identity for t in fresh.missing(shard=Shard(n, of))}
        assert {t.identity for t in part} <= whole  # a shard does not take over trials as others finish
        assert trials // of <= len(whole) <= -(-trials // of)


def test_the_first_trials_are_shared_out_evenly() -> None:
    each = [(point, n) for point in range(10) for n in range(2)]
    cells = [
        Cell(Trial(encoder="tiny", task="sst2", size=8 + point, seeds=Seeds.of(n)), {"size": point, "trial": n})
        for point, n in each
    ]
    plan = Plan((), cells, Resources({}, {}, Path()), {}, {})
    parts = [plan.missing(shard=Shard(n, 2), first=1) for n in (1, 2)]
    assert [len(part) for part in parts] == [5, 5]
    assert not set(parts[0]) & set(parts[1])


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "/", "a/b", "-1/4", "1/4/5", "１/4", ""])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(SpecError, match="is not of the form i/n"):
        Shard.parse(text)


def test_parse() -> None:
    assert Shard.parse("3/8") == Shard(3, 8)
