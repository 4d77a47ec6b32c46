"""A run with a time limit begins what will end in time, and leaves the rest for the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palimpsest.errors import TrainingError
from palimpsest.execution import local
from palimpsest.execution.packing import Job
from palimpsest.execution.plan import Plan
from palimpsest.execution.run import run_plan
from palimpsest.execution.time_limit import TimeLimit
from palimpsest.execution.worker import Event
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Probe, Seeds, Trial
from palimpsest.store import Store, open_store

Planned = Callable[[Store | None], Plan]


def job(task: str, steps: int, batch_size: int = 8, probe: Probe | None = None) -> Job:
    protocol = Protocol(batch_size=batch_size)
    trials = (Trial(encoder="e", task=task, protocol=protocol, seeds=Seeds.of(n), probe=probe) for n in range(2))
    return Job(tuple(trials), steps)


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def test_what_is_known_of_a_job_decides() -> None:
    now = Clock()
    limit = TimeLimit(100.0, {"slow": 1.0, "fast": 0.1}, now)
    assert limit.allows(job("slow", 80))
    assert not limit.allows(job("slow", 90))  # with some caution
    assert limit.allows(job("fast", 800))
    assert limit.allows(job("other", 140))  # at the usual pace, 0.55
    assert not limit.allows(job("other", 180))
    assert limit.skipped == 4
    assert limit.begun
    assert limit.shortest == pytest.approx(90.0)
    now.time = 30.0
    assert not limit.allows(job("slow", 80))
    limit.ended(job("slow", 80), 20.0)  # it was quicker than before
    assert limit.allows(job("slow", 200))
    assert limit.allows(job("slow", 200, batch_size=16))  # of the same task, if nothing else is known
    limit.ended(job("slow", 10, batch_size=16), 10.0)
    assert not limit.allows(job("slow", 200, batch_size=16))
    assert limit.allows(job("slow", 200))


def test_the_unknown_may_try_while_there_is_time() -> None:
    now = Clock()
    limit = TimeLimit(10.0, now=now)
    assert limit.allows(job("any", 10**6))
    limit.ended(job("any", 10, probe=Probe(layer=1)), 9.0)  # a probe's steps tell nothing of other trials'
    assert limit.allows(job("any", 10**6))
    assert not limit.allows(job("any", 20, probe=Probe(layer=1)))
    now.time = 10.0
    assert not limit.allows(job("new", 1))


@pytest.mark.parametrize("processes", [1, 2])
def test_the_same_command_goes_on(planned: Planned, tmp_path: Path, monkeypatch: Any, processes: int) -> None:
    store = open_store(tmp_path / "store", create=True)
    plan, events = planned(store), list[Event]()
    monkeypatch.setattr(local, "HOST_PACK", 2)
    asked: list[int] = []

    def allows(self: TimeLimit, job: Job) -> bool:
        asked.append(len(job.trials))
        if len(asked) > 2:
            self.skipped += len(job.trials)
        return len(asked) <= 2

    monkeypatch.setattr(TimeLimit, "allows", allows)
    run_plan(plan, store, str(tmp_path / "store"), events.append, "cpu", processes=processes, seconds=60.0)
    begun = store.finished_ids()
    assert 0 < len(begun) < len(plan.trials)
    assert sum(e.kind == "trial" for e in events) == len(begun)
    monkeypatch.undo()
    again = planned(store)
    run_plan(again, store, str(tmp_path / "store"), lambda _: None, "cpu", processes=processes, seconds=600.0)
    assert store.finished_ids() == set(plan.trials)


def test_a_limit_that_nothing_fits_into_is_an_error(planned: Planned, tmp_path: Path) -> None:
    """Otherwise the same command would be given again and again."""
    where = tmp_path / "store"
    store, notes = open_store(where, create=True), list[str]()
    run_plan(planned(store), store, str(where), lambda e: notes.append(e.text), "cpu", processes=1, limit=2, seconds=60)
    assert "nothing is known yet of how long packs take: the first are begun in any case" in notes
    assert len(store.finished_ids()) == 2
    with pytest.raises(TrainingError, match=r"no pack would end in time: the shortest takes about \d+\.\d minutes"):
        run_plan(planned(store), store, str(where), lambda _: None, "cpu", processes=1, seconds=1e-4)
    assert len(store.finished_ids()) == 2
