"""`palimpsest demo` from the first line to the last, on an encoder and a study small enough for a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Answer

from palimpsest import studies
from palimpsest.specs.experiment import Incremental, Permutation, Probing


@pytest.fixture
def small(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's own study, with a tiny encoder, two points and a few sentences."""
    settings = {"encoder": str(tiny_checkpoint), "preserved": [0, 3], "sizes": [8], "trials": 2}
    load = studies.load
    monkeypatch.setattr(studies, "load", lambda name, _: load(name, settings))


@pytest.mark.usefixtures("small")
def test_it_says_and_draws_what_it_found(palimpsest: Callable[..., Answer], folder: Path) -> None:
    answer = palimpsest("demo", "--device", "cpu", "--out", "seen")
    assert answer.code == 0, answer.err
    assert "4 trials finished" in answer.out
    assert "with all 3 pretrained layers the accuracy is" in answer.out.replace("\n", " ")
    for kind in ("figure:", "table:"):
        named = next(line for line in answer.out.splitlines() if line.startswith(kind)).split(maxsplit=1)[1]
        assert (folder / named).stat().st_size > 0
    assert "Nothing to run" in palimpsest("demo", "--device", "cpu", "--out", "seen").out


def test_the_shipped_demo_is_what_was_promised() -> None:
    (study,) = studies.load("demo")
    (experiment,) = study.experiments
    assert study.encoder == "pocket"
    assert isinstance(experiment, Incremental)
    assert experiment.preserved == (0, 3, 6, 9, 12)
    assert min(experiment.trials.values()) >= 3


def test_the_full_demo_is_what_was_promised() -> None:
    (study,) = studies.load("demo-full")
    kinds = {type(e): e for e in study.experiments}
    assert set(kinds) == {Incremental, Probing, Permutation}
    assert len(study.tasks) == 3
    assert len(kinds[Incremental].sizes) == 2
    assert kinds[Incremental].preserved == "all"
    assert {drawing.kind for drawing in study.figures} >= {"incremental", "permutation"}
