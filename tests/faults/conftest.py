"""A study of tiny trials whose files are real, and what must hold after any fault."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from palimpsest.execution.plan import Plan, make_plan
from palimpsest.execution.run import run_plan
from palimpsest.execution.worker import Event
from palimpsest.store import Store, open_store
from palimpsest.studies import load

# Read when Ray is imported. The clusters of these tests live on loopback, and no token is left in anybody's home.
os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}

STUDY = """
name: tiny
encoder: {encoder}
protocol: {{extends: paper, epochs: 2, batch_size: 8, learning_rate: 0.001}}
tasks:
  - name: colours
    train: {train}
    validation: {validation}
    text: sentence
    label: label
experiments:
  - kind: incremental
    preserved: [0, 1, 2, 3]
    sizes: [{size}]
    trials: {trials}
"""


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Path:
    """A folder with a tiny checkpoint and a task's files."""
    from families import save

    folder = tmp_path_factory.mktemp("workshop")
    save(folder / "encoder", "bert", tiny_tokenizer)
    words = ["good", "bad", "king", "queen", "river", "city", "not", "the"]
    for split, rows in (("train", 160), ("validation", 16)):
        lines = ["sentence\tlabel"]
        for i in range(rows):
            text = " ".join(words[(i * 7 + j * (1 + i % 3)) % len(words)] for j in range(3 + i % 4))
            lines.append(f"{text}\t{(i * 5) % 2}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def study(workshop: Path) -> Callable[..., Path]:
    """A study file with 4 × `trials` trials of `size` // 4 steps."""

    def write(trials: int = 5, size: int = 16) -> Path:
        path = workshop / f"study-{trials}-{size}.yaml"
        path.write_text(
            STUDY.format(
                encoder=workshop / "encoder",
                train=workshop / "train.tsv",
                validation=workshop / "validation.tsv",
                trials=trials,
                size=size,
            )
        )
        return path

    return write


Runner = Callable[..., list[Event]]


@pytest.fixture(scope="session")
def planned() -> Callable[[Path, Store | None], Plan]:
    return lambda path, store: make_plan(load(str(path)), store)


@pytest.fixture
def run_study(planned: Callable[[Path, Store | None], Plan]) -> Runner:
    """Run what is missing, in this process unless told otherwise; returns the events."""

    def run(path: Path, where: Path | str, **options: Any) -> list[Event]:
        store = open_store(where, create=True)
        events: list[Event] = []
        run_plan(planned(path, store), store, str(where), events.append, "cpu", **({"processes": 1} | options))
        return events

    return run


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Results are compared between processes with different shares of the cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
