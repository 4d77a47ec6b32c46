"""A short name for what a task's examples say, wherever they were read from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from palimpsest.tasks.base import Split


def fingerprint(splits: Iterable[Split], *meaning: str) -> str:
    """16 hexadecimal digits of the texts and targets, in order, and of whatever else gives them their meaning.

    Every piece is hashed with its length before it, so that no two different contents look alike.
    """
    digest = hashlib.blake2b(digest_size=8)

    def add(text: str) -> None:
        raw = text.encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)

    def count(n: int) -> None:
        digest.update(n.to_bytes(8, "little"))

    count(len(meaning))
    for word in meaning:
        add(word)
    for split in splits:
        count(len(split))
        count(1 if split.second is None else 2)
        for column in (split.first, split.second or ()):
            for text in column:
                add(text)
        if isinstance(split.targets, np.ndarray):
            add(split.targets.dtype.kind)
            digest.update(split.targets.astype("<f8" if split.targets.dtype.kind == "f" else "<i8").tobytes())
        else:
            for answers in split.targets:
                count(len(answers.texts))
                for text, start in zip(answers.texts, answers.starts, strict=True):
                    add(text)
                    count(start)
    return digest.hexdigest()
