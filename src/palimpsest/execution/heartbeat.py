"""A sign of life: what a driver is at, in a small note in the store, for pages and terminals that watch.

An observer of the events that a run emits anyway. A thread of its own writes the note, so that the run never waits for
a slow disk, and so that a run which compiles for a minute is not taken for dead.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from palimpsest.execution.plan import Plan, steps_of
from palimpsest.specs.trial import Trial
from palimpsest.store import Store
from palimpsest.store.running import drivers, drop_note, remember, write_note

if TYPE_CHECKING:
    from palimpsest.execution.worker import Event

_WINDOW = 300.0  # seconds that the pace is taken from
_SAMPLE = 32  # trials in the note: enough to see that another driver has the same ones
_PATIENCE = 10.0  # seconds that the end of a run waits for a store which does not answer


class Heartbeat:
    """Wraps what a run reports to: ``with Heartbeat(...) as beat: run(..., emit=beat.watch(emit))``."""

    def __init__(self, store: Store, plan: Plan, trials: Sequence[Trial]) -> None:
        self._plan, self._store = plan, store
        self._name = f"{os.getpid()}-{secrets.token_hex(3)}"
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._total, self._left = len(trials), plan.steps(trials)
        self._ids = {trial.identity for trial in trials}
        self._running: dict[str, Trial] = {}
        self._curves: dict[str, list[tuple[int, float | None]]] = {}
        self._finished = self._failed = self._steps = 0
        self._pace: deque[tuple[float, int, int]] = deque([(time.monotonic(), 0, 0)])
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name="palimpsest-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        remember(self._store, self._plan.studies, self._plan.resources.data)
        self._write()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(_PATIENCE)

    def crowded(self) -> bool:
        """Whether another driver is at the same trials.

        Its own note is there by now: of drivers that start at the same moment, all but one see another.
        """
        others = (note for note in drivers(self._store) if note.get("name") != self._name)
        return any(self._ids.intersection(note.get("sample") or ()) for note in others)

    def watch(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        """The same observer, with the heartbeat listening."""

        def both(event: Event) -> None:
            self._note(event)
            emit(event)

        return both

    def _note(self, event: Event) -> None:
        with self._lock:
            if event.kind == "begin":
                self._running |= {trial.identity: trial for trial in event.trials}
            elif event.kind == "losses":
                self._curves |= {id: curve for id, curve in event.curves.items() if id in self._running}
            elif event.kind == "steps":
                self._steps += event.steps
                self._left -= event.steps
            elif event.kind == "trial" and event.trial is not None and event.outcome is not None:
                id = event.trial.identity
                self._running.pop(id, None)
                self._curves.pop(id, None)
                failed = event.outcome.status == "failed"
                self._failed, self._finished = self._failed + failed, self._finished + (not failed)
                # Trials that stop early leave steps undone that were counted.
                rows = self._plan.rows[event.trial.task, event.trial.data]
                self._left -= max(0, steps_of(event.trial, rows) - event.outcome.steps)

    def _beat(self) -> None:
        while not self._over.wait(self._store.notes_every):
            self._write()
        drop_note(self._store, "running", self._name)

    def _write(self) -> None:
        write_note(self._store, "running", self._name, self._content())

    def _content(self) -> dict[str, Any]:
        with self._lock:
            now, ended = time.monotonic(), self._finished + self._failed
            self._pace.append((now, self._steps, ended))
            while len(self._pace) > 2 and now - self._pace[1][0] > _WINDOW:
                self._pace.popleft()
            then, steps, before = self._pace[0]
            seconds = max(now - then, 1e-9)
            speed = (self._steps - steps) / seconds
            return {
                "name": self._name,
                "started": self._started,
                "sample": sorted(self._ids)[:_SAMPLE],
                "studies": [study.name for study in self._plan.studies],
                "total": self._total,
                "finished": self._finished,
                "failed": self._failed,
                "steps_per_second": round(speed, 2),
                "trials_per_minute": round((ended - before) / seconds * 60, 2),
                "seconds_left": round(max(0, self._left) / speed) if speed else None,
                "running": [
                    {"id": id, "task": trial.task, "curve": self._curves.get(id, [])}
                    for id, trial in self._running.items()
                ],
            }
