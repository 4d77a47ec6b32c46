"""Studies of tiny trials, and plans of trials that are never run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from palimpsest.execution.plan import Plan, Resources, make_plan
from palimpsest.specs.expansion import Cell
from palimpsest.specs.trial import Trial
from palimpsest.store import Store
from palimpsest.studies import load

STUDY = """\
encoder: {encoder}
protocol: {{extends: paper, learning_rate: 0.001, epochs: 2}}
tasks:
  - {{name: verdicts, train: train.tsv, validation: validation.tsv, text: sentence, label: verdict}}
experiments:
  - {{kind: incremental, preserved: [0, 2], sizes: [16], trials: 3}}
"""


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """Six trials of four steps."""
    folder = tmp_path_factory.mktemp("study")
    rng = random.Random(0)
    for split, n in (("train", 40), ("validation", 12)):
        words = (" ".join(rng.choices(["good", "bad", "king", "river", "the"], k=rng.randint(2, 9))) for _ in range(n))
        lines = [f"{text}\t{('no', 'yes')['good' in text]}" for text in words]
        (folder / f"{split}.tsv").write_text("\n".join(["sentence\tverdict", *lines]) + "\n", encoding="utf-8")
    (folder / "study.yaml").write_text(STUDY.format(encoder=tiny_checkpoint), encoding="utf-8")
    return folder / "study.yaml"


@pytest.fixture
def planned(study: Path) -> Callable[[Store | None], Plan]:
    return lambda store: make_plan(load(str(study)), store)


@pytest.fixture(scope="session")
def plan_of() -> Callable[[Sequence[Trial]], Plan]:
    """A plan of trials of tasks with 1,000 training examples each."""

    def make(trials: Sequence[Trial]) -> Plan:
        rows = {(t.task, t.data): 1000 for t in trials}
        return Plan((), [Cell(t, {}) for t in trials], Resources({}, {}), rows, {})

    return make
