"""kill -9 of the driver or of a worker, at random moments of a run."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fault_tools import FewImports, drive, quick_context, results, stamps

from palimpsest.errors import TrainingError
from palimpsest.execution import local

DRIVER_KILLS, WORKER_KILLS = 12, 8


def test_drivers_are_killed(run_study: Any, study: Any, tmp_path: Path) -> None:
    """The next run goes on: no record is damaged, none is written again, and the end is that of a quiet run."""
    path = study(trials=8, size=64)
    moments = random.Random(20200429)
    kills = round = 0
    run_study(path, tmp_path / "quiet")
    expected = results(tmp_path / "quiet")
    while kills < DRIVER_KILLS:
        where, before = tmp_path / f"store{round}", {}
        round += 1
        while True:
            driver = quick_context().Process(target=drive, args=(path, where, 2 if kills % 4 == 3 else 1))
            driver.start()
            driver.join(timeout=moments.uniform(0.1, 2.0) if kills < DRIVER_KILLS else None)
            if driver.exitcode is not None:
                break
            os.kill(driver.pid, signal.SIGKILL)
            driver.join()
            kills += 1
            after = stamps(where)
            assert before.items() <= after.items()
            before = after
        assert driver.exitcode == 0
        assert results(where) == expected
        assert before.items() <= stamps(where).items()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process numbers of the workers that were given a job, the last one at the end."""
    given: list[int] = []
    give = local._Worker.give

    def noted(self: Any, *job: Any) -> None:
        give(self, *job)
        given.append(self.process.pid)

    monkeypatch.setattr(local._Worker, "give", noted)
    monkeypatch.setattr(local, "multiprocessing", FewImports())
    return given


def test_workers_are_killed(run_study: Any, study: Any, tmp_path: Path, workers: list[int]) -> None:
    path, moments = study(trials=8, size=64), random.Random(3)
    kills, over = [0], threading.Event()

    def kill() -> None:
        while not over.wait(moments.uniform(0.2, 1.5)) and kills[0] < WORKER_KILLS:
            with suppress(ProcessLookupError, IndexError):
                os.kill(moments.choice(workers[-2:]), signal.SIGKILL)
                kills[0] += 1

    saboteur = threading.Thread(target=kill)
    saboteur.start()
    notes: list[str] = []
    where, before, round = tmp_path / "store0", {}, 0
    try:
        while True:
            try:
                events = run_study(path, where, processes=2)
            except TrainingError as error:  # twice on the same trials: told to go on, it does
                notes.append(str(error))
            else:
                notes += [e.text for e in events if e.kind == "note"]
                if kills[0] == WORKER_KILLS:
                    break
                round += 1
                where, before = tmp_path / f"store{round}", {}
            assert before.items() <= stamps(where).items() if where.exists() else True
            before = stamps(where)
    finally:
        over.set()
        saboteur.join()
    run_study(path, tmp_path / "quiet")
    assert results(where) == results(tmp_path / "quiet")
    assert any("died (exit code -9)" in note for note in notes)


def test_a_worker_that_hangs(run_study: Any, study: Any, tmp_path: Path, workers: list[int]) -> None:
    """Stopped, it neither ends nor speaks; after the time limit it is taken for lost."""
    path, where = study(), tmp_path / "store"

    def stop() -> None:
        while not workers:
            time.sleep(0.01)
        os.kill(workers[0], signal.SIGSTOP)

    saboteur = threading.Thread(target=stop, daemon=True)
    saboteur.start()
    events = run_study(path, where, processes=2, pack_timeout=45.0)
    run_study(path, tmp_path / "quiet")
    assert results(where) == results(tmp_path / "quiet")
    notes = [e.text for e in events if e.kind == "note"]
    assert len(notes) == 1
    assert "was still at its pack after 45 seconds; its" in notes[0]


def test_trials_that_always_hang_are_given_up(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("palimpsest.execution.local.multiprocessing", FewImports())
    with pytest.raises(TrainingError, match=r"still at its pack after 0\.001 seconds, and so did the one before it"):
        run_study(study(), tmp_path / "store", pack_timeout=0.001)
