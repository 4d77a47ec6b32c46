"""kill -9 of the driver or of a worker, at random moments of a run."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fault_tools import FewImports, drive, quick_context, results, stamps

from palimpsest.errors import TrainingError

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
            driver = quick_context().Process(target=drive, args=(path, where, 1 + kills % 2))
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


def test_workers_are_killed(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any) -> None:
    path = study(trials=8, size=64)
    moments = random.Random(3)
    kills, over = [0], threading.Event()
    monkeypatch.setattr("palimpsest.execution.local.multiprocessing", FewImports())
    where = tmp_path / "store0"

    def kill() -> None:
        while not over.is_set() and kills[0] < WORKER_KILLS:
            time.sleep(moments.uniform(0.3, 1.5))
            workers = [p for p in multiprocessing.active_children() if p.name == "palimpsest-worker"]
            if workers:
                os.kill(moments.choice(workers).pid, signal.SIGKILL)
                kills[0] += 1

    saboteur = threading.Thread(target=kill)
    saboteur.start()
    notes: list[str] = []
    try:
        for round in range(100):
            where, before = tmp_path / f"store{round}", {}
            while True:
                try:
                    events = run_study(path, where, processes=2)
                except TrainingError as error:  # twice on the same trials: told to go on, it does
                    notes.append(str(error))
                else:
                    notes += [e.text for e in events if e.kind == "note"]
                    break
                finally:
                    assert before.items() <= stamps(where).items()
                    before = stamps(where)
            if kills[0] == WORKER_KILLS:
                break
    finally:
        over.set()
        saboteur.join()
    run_study(path, tmp_path / "quiet")
    assert results(where) == results(tmp_path / "quiet")
    assert any("died (exit code -9)" in note for note in notes)


def test_a_worker_that_hangs(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Stopped, it neither ends nor speaks; after the time limit it is taken for lost."""
    monkeypatch.setattr("palimpsest.execution.local.multiprocessing", FewImports())
    path, where = study(), tmp_path / "store"

    def stop() -> None:
        while True:
            for worker in multiprocessing.active_children():
                if worker.name == "palimpsest-worker":
                    os.kill(worker.pid, signal.SIGSTOP)
                    return
            time.sleep(0.01)

    saboteur = threading.Thread(target=stop)
    saboteur.start()
    events = run_study(path, where, processes=2, pack_timeout=15.0)
    saboteur.join()
    run_study(path, tmp_path / "quiet")
    assert results(where) == results(tmp_path / "quiet")
    notes = [e.text for e in events if e.kind == "note"]
    assert len(notes) == 1
    assert "was still at its pack after 15 seconds; its" in notes[0]


def test_trials_that_always_hang_are_given_up(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("palimpsest.execution.local.multiprocessing", FewImports())
    with pytest.raises(TrainingError, match=r"still at its pack after 0\.001 seconds, and so did the one before it"):
        run_study(study(), tmp_path / "store", pack_timeout=0.001)
