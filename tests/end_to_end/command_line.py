"""What the tests of the command line share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STUDY = """\
title: My reviews
encoder: {encoder}
protocol: {{extends: paper, learning_rate: 0.001, epochs: 1, max_length: 32}}
tasks:
  - name: reviews
    train: train.csv
    validation: dev.csv
    text: sentence
    label: verdict
experiments:
  - kind: incremental
    preserved: [0, 3]
    sizes: [24]
    trials: 2
figures:
  - kind: incremental
tables:
  - kind: summary
"""


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


def write_reviews(path: Path, n: int, seed: int) -> None:
    rng = random.Random(seed)
    rows = ["sentence,verdict"]
    for _ in range(n):
        good = rng.random() < 0.5
        words = [rng.choice(["the", "a", "king", "queen", "river"]) for _ in range(rng.randint(2, 8))]
        words.insert(rng.randrange(len(words)), rng.choice(["good", "film"] if good else ["bad", "not"]))
        rows.append(f'"{" ".join(words)}",{"pos" if good else "neg"}')
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def records(store: Path) -> dict[str, bytes]:
    """The files of a store's trials."""
    return {path.stem: path.read_bytes() for path in store.glob("trials/*/*.json")}


Command = Callable[..., Answer]
