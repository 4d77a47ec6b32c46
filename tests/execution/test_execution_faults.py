"""When memory runs out, when a worker dies, when a worker meets the unexpected."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from palimpsest import errors
from palimpsest.execution import local, worker
from palimpsest.execution.plan import Plan
from palimpsest.execution.run import run_plan
from palimpsest.execution.worker import Event
from palimpsest.store import Store, open_store
from palimpsest.training import stacked

Planned = Callable[[Store | None], Plan]


def ended(events: list[Event]) -> Counter[str]:
    return Counter(e.trial.identity for e in events if e.kind == "trial" and e.trial is not None)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("[enforce fail] not enough memory: you tried")]
)
def test_a_pack_that_does_not_fit_is_halved(
    planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    train, sizes = stacked.train, []

    def cramped(part: list[Any], *args: Any) -> Any:
        sizes.append(len(part))
        if len(part) > 2:
            raise error
        return train(part, *args)

    monkeypatch.setattr(stacked, "train", cramped)
    store, events = open_store(tmp_path / "store", create=True), list[Event]()
    plan = planned(store)
    run_plan(plan, store, str(tmp_path / "store"), events.append, "cpu", processes=1)
    assert sizes == [6, 3, 1, 2, 3, 1, 2]
    assert ended(events) == Counter(plan.trials.keys())
    assert store.finished_ids() == set(plan.trials)
    assert next(e.text for e in events if e.kind == "note") == "out of memory with 6 trials at once: going on with half"


def test_other_errors_are_not_taken_for_a_lack_of_memory(
    planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(stacked, "train", broken)
    store = open_store(tmp_path / "store", create=True)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        run_plan(planned(store), store, str(tmp_path / "store"), lambda _: None, "cpu", processes=1)


def test_a_worker_that_is_killed_costs_only_what_it_was_at(planned: Planned, tmp_path: Path) -> None:
    store, events = open_store(tmp_path / "store", create=True), list[Event]()
    plan = planned(store)

    def watch(event: Event) -> None:
        if event.kind == "begin" and not any(e.kind == "begin" for e in events):
            victim = next(c for c in multiprocessing.active_children() if c.name == "palimpsest-worker")
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
        events.append(event)

    run_plan(plan, store, str(tmp_path / "store"), watch, "cpu", processes=2)
    assert ended(events) == Counter(plan.trials.keys())
    assert store.finished_ids() == set(plan.trials)
    notes = [e.text for e in events if e.kind == "note"]
    assert notes == ["a worker process died (exit code -9); its 3 unfinished trials are run again"]
    assert not [c for c in multiprocessing.active_children() if c.name == "palimpsest-worker"]


class Wire:
    """The worker's end of a pipe, with one job in it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def recv(self) -> object:
        return object()

    def send(self, message: Any) -> None:
        self.sent.append(pickle.loads(pickle.dumps(message)))


def test_the_unexpected_in_a_worker_is_one_message_with_its_traceback_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("division by zero")

    open_store(tmp_path / "store", create=True)
    monkeypatch.setattr(local, "gather", broken)
    wire, before, threads = Wire(), signal.getsignal(signal.SIGINT), torch.get_num_threads()
    try:
        local._serve(wire, None, str(tmp_path / "store"), "cpu", "stacked", threads, 1)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, before)
    (error,) = wire.sent
    assert isinstance(error, errors.TrainingError)
    assert "ZeroDivisionError: division by zero" in str(error)
    assert "Traceback" not in str(error)
    assert "in broken" in error.__notes__[0]


@pytest.mark.parametrize(
    "error",
    [errors.UnknownName("task", "colla", ["cola"]), errors.DataError("train.csv:3: no"), errors.MissingStore("none")],
    ids=lambda e: type(e).__name__,
)
def test_errors_travel_between_processes(error: errors.PalimpsestError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


def test_what_trials_took_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 6.0, 6.0, 10.0])
    monkeypatch.setattr("palimpsest.execution.worker.time.monotonic", lambda: next(now))
    clock = worker.Clock()
    assert [clock.shared(3), clock.shared(2), clock.shared(1)] == [2.0, 2.0, 6.0]  # two end together, the third later
    now = iter([0.0, 2.0, 5.0])
    clock = worker.Clock()
    assert [clock.alone(), clock.alone()] == [2.0, 3.0]


def test_a_record_says_what_its_packs_time_went_into(planned: Planned, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    plan = planned(store)
    run_plan(plan, store, str(tmp_path / "store"), lambda _: None, "cpu", processes=1)
    for record in store.records(plan.trials):
        parts, pack = record.provenance["pack_seconds"], record.provenance["pack"]
        assert set(parts) <= {"setting up", "stepping", "evaluating"}
        assert min(parts.values()) >= 0
        assert 0 < parts["stepping"] <= record.provenance["seconds"] * pack + 0.1
