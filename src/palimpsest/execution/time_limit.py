"""A run that has to end in time begins no job that would not: what is cut off in the middle of a pack is lost."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from palimpsest.execution.packing import Job, pack_key

_CAUTION = 1.15  # jobs of one kind differ by so much


class TimeLimit:
    """Knows what is left of the time, and from the jobs that have ended what others will take."""

    def __init__(
        self, seconds: float, paces: Mapping[str, float] | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`paces` are seconds for each step of a trial, by task, that earlier runs took."""
        self._now, self._end = now, now() + seconds
        self._tasks = dict(paces or {})
        self._kinds: dict[tuple[Any, ...], float] = {}
        self.begun = False
        self.skipped = 0  # trials that were not begun
        self.shortest: float | None = None  # seconds that the shortest job would take that was not begun, if known

    def allows(self, job: Job) -> bool:
        """Whether a job is likely to end in time; one that nothing is known of may try."""
        left = self._end - self._now()
        expected = self._expected(job)
        fits = left > 0 and (expected is None or expected * _CAUTION <= left)
        if not fits:
            self.skipped += len(job.trials)
            if expected is not None:
                self.shortest = min(expected, self.shortest or expected)
        self.begun |= fits
        return fits

    def ended(self, job: Job, seconds: float) -> None:
        """A job took so long."""
        pace = seconds / max(1, job.steps)
        self._kinds[pack_key(job.trials[0])] = pace
        if not job.probing:  # their steps are another matter
            self._tasks[job.trials[0].task] = pace

    def _expected(self, job: Job) -> float | None:
        kind = pack_key(job.trials[0])
        if kind in self._kinds:
            return self._kinds[kind] * job.steps
        if job.probing or not self._tasks:
            return None
        usual = statistics.median(self._tasks.values())
        return self._tasks.get(job.trials[0].task, usual) * job.steps
