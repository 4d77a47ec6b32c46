"""What a person sees of a run, in a terminal and in a log file."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

import pytest
from rich.console import Console

from palimpsest.execution.plan import Plan
from palimpsest.execution.progress import Display
from palimpsest.execution.worker import Event
from palimpsest.specs.trial import Probe, Seeds, Trial
from palimpsest.training.outcome import Outcome

PlanOf = Callable[[Sequence[Trial]], Plan]
TRIALS = [Trial(encoder="a", task="x", size=8, seeds=Seeds.of(i)) for i in range(2)]


def watch(plan: Plan, terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80, color_system=None)
    with Display(console, TRIALS, plan) as display:
        display.show(Event("note", text="a worker [process] died"))
        for n in range(3):
            display.show(Event("steps", steps=n))
        display.show(Event("trial", trial=TRIALS[0], outcome=Outcome("finished", "", "f1", {"f1": 0.5}, steps=3)))
        display.show(Event("trial", trial=TRIALS[1], outcome=Outcome("failed", "the loss became nan", "f1")))
    assert (display.finished, display.failed) == (1, 1)
    return file.getvalue()


def test_plain_lines_where_there_is_no_terminal(plan_of: PlanOf) -> None:
    said = watch(plan_of(TRIALS), terminal=False).splitlines()
    assert said[:-1] == [
        "2 trials to run",
        "note: a worker [process] died",
        "1/2 x f1 0.500",
        "2/2 x failed: the loss became nan",
    ]
    assert said[-1].startswith("1 trial finished in ")


def test_a_log_file_is_not_silent_for_long(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    now, file = [0.0], io.StringIO()
    monkeypatch.setattr("palimpsest.execution.progress.time.monotonic", lambda: now[0])
    with Display(Console(file=file, force_terminal=False, width=80), TRIALS, plan_of(TRIALS)) as display:
        for seconds in (30, 59, 61, 90, 119, 125):
            now[0] = seconds
            display.show(Event("steps", steps=0 if seconds == 30 else 1))
        display.show(Event("trial", trial=TRIALS[0], outcome=Outcome("finished", "", "f1", {"f1": 0.5}, steps=3)))
        now[0] = 180
        display.show(Event("steps", steps=1))
    said = file.getvalue().splitlines()[1:-1]
    assert [line.split(" ")[0] for line in said] == ["0/2", "0/2", "1/2"]
    assert re.fullmatch(r"0/2 0\.1 steps/s about \d:\d\d:\d\d left", said[0])
    assert said[-1] == "1/2 x f1 0.500"


def test_the_pace_of_probes_is_not_that_of_finetuning(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Trial(encoder="a", task="x", size=1000, probe=Probe(layer=1, epochs=40))
    now, file = [0.0], io.StringIO()
    monkeypatch.setattr("palimpsest.execution.progress.time.monotonic", lambda: now[0])
    trials = [probe, *TRIALS]
    steps = plan_of(trials).steps([probe])
    with Display(Console(file=file, force_terminal=False, width=80), trials, plan_of(trials)) as display:
        for trial, each in ((probe, steps), (TRIALS[0], 1)):
            display.show(Event("begin", trials=(trial,)))
            for _ in range(3):
                now[0] += 61
                display.show(Event("steps", steps=each // 3 or 1))
    said = re.findall(r"([\d.,]+) steps/s", file.getvalue())
    assert float(said[0].replace(",", "")) > 10
    assert said[-1] == "0.0"


def test_a_bar_in_a_terminal(plan_of: PlanOf) -> None:
    said = watch(plan_of(TRIALS), terminal=True)
    shown = [line.strip() for line in re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]|\r", "\n", said).splitlines() if line.strip()]
    bar, scores, summary = shown[-3:]
    assert bar.startswith("trials 2/2 ")
    assert "steps/s" in bar
    assert bar.endswith("left")
    assert scores == "last: x f1 0.500"
    assert summary.startswith("1 trial finished")
    assert "note: a worker [process] died" in said


@pytest.mark.parametrize("terminal", [True, False])
def test_an_error_is_not_followed_by_a_summary(plan_of: PlanOf, terminal: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=110)
    with pytest.raises(KeyboardInterrupt), Display(console, TRIALS, plan_of(TRIALS)):
        raise KeyboardInterrupt
    assert "finished in" not in file.getvalue()
