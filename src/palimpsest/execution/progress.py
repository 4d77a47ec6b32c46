"""What a person sees while a study runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from palimpsest.execution.plan import Plan, steps_of
from palimpsest.specs.trial import Trial

if TYPE_CHECKING:
    from palimpsest.execution.worker import Event


_QUIET = 60.0  # seconds after which a line says that work goes on, where there is no bar to see it


def counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


class _Bar(Progress):
    """The bar, and under it the last scores: beside it, they would leave no room in a narrow terminal."""

    scores = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.scores:
            yield Text(f"last: {self.scores}", no_wrap=True, overflow="ellipsis")


class Display:
    """A bar with trials done, steps per second, time left and the last scores; plain lines outside a terminal."""

    def __init__(self, console: Console, trials: Sequence[Trial], plan: Plan) -> None:
        self._console, self._plan = console, plan
        self._total = max(1, plan.steps(trials))
        self._steps, self._trials = 0, len(trials)
        self._begin = self._said = time.monotonic()
        self._pace: deque[tuple[float, int]] = deque(maxlen=40)
        self._probing = False
        self._scores: deque[str] = deque(maxlen=3)
        self.finished = self.failed = 0
        self._bar = _Bar(
            TextColumn("trials"), MofNCompleteColumn(), BarColumn(bar_width=None), TextColumn("{task.fields[pace]}"),
            TimeElapsedColumn(), TextColumn("{task.fields[left]}"), console=console, refresh_per_second=4,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=len(trials), pace="starting", left="")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        else:
            self._console.print(f"{counted(self._trials, 'trial')} to run")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None:
            seconds = time.monotonic() - self._begin
            self._console.print(f"{counted(self.finished, 'trial')} finished in {seconds:,.0f} s")

    def stop(self) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def show(self, event: Event) -> None:
        """Take in what a worker reports."""
        if event.kind == "note":
            self._console.print(f"note: {event.text}", markup=False)
            return
        if event.kind == "begin":
            probing = event.trials[0].probe is not None
            if probing != self._probing:  # their steps are another matter: a pace of both would say nothing
                self._pace.clear()
            self._probing = probing
        elif event.kind == "steps":
            self._steps += event.steps
            self._pace.append((time.monotonic(), self._steps))
            if not self._console.is_terminal and time.monotonic() - self._said > _QUIET:
                self._say(f"{self._pace_text()} {self._left_text()}")
        elif event.trial is not None and event.outcome is not None:
            self._ended(event)
        self._bar.scores = "  ".join(reversed(self._scores))
        self._bar.update(
            self._task, completed=self.finished + self.failed, pace=self._pace_text(), left=self._left_text()
        )

    def _ended(self, event: Event) -> None:
        trial, outcome = event.trial, event.outcome
        assert trial is not None
        assert outcome is not None
        if outcome.status == "failed":
            self.failed += 1
            line = f"{trial.task} failed: {outcome.reason}"
        else:
            self.finished += 1
            line = f"{trial.task} {outcome.metric} {outcome.metrics[outcome.metric]:.3f}"
            self._scores.append(line)
        # A probe that stops early leaves steps undone that were counted in the total.
        self._total -= max(0, steps_of(trial, self._plan.rows[trial.task, trial.data]) - outcome.steps)
        if not self._console.is_terminal:
            self._say(line)

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self._console.print(f"{self.finished + self.failed}/{self._trials} {line}", markup=False, highlight=False)

    def _per_second(self) -> float:
        if len(self._pace) < 2 or self._pace[-1][0] == self._pace[0][0]:
            return 0.0
        (t0, s0), (t1, s1) = self._pace[0], self._pace[-1]
        return (s1 - s0) / (t1 - t0)

    def _pace_text(self) -> str:
        pace = self._per_second()
        return f"{pace:,.1f} steps/s" if pace else "starting"

    def _left_text(self) -> str:
        pace = self._per_second()
        if not pace:
            return ""
        seconds = int(max(0, self._total - self._steps) / pace)
        return f"about {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"
