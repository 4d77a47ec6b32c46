"""Which rows of the word embeddings a pack trains.

The table is the largest matrix, and most of its rows get no gradient: Adam without weight decay leaves them where they
are. So only the rows that the pack's training data use are stacked; those that its validation data need besides are
looked up as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.batches import Rows


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The rows of the word embeddings that a pack trains, and those that its validation data need besides."""

    trained: torch.Tensor  # token ids of the trained rows
    frozen: torch.Tensor  # token ids that only occur in the validation data
    number: torch.Tensor  # int32 [V]: token id → row in [trained, frozen]


def whole_vocabulary(size: int, device: torch.device | str) -> Vocabulary:
    """All rows are trained (weight decay moves even those without a gradient)."""
    everything = torch.arange(size, device=device)
    return Vocabulary(everything, everything[:0], everything.to(torch.int32))


def vocabulary(
    train: Encoded, rows: Sequence[Rows], validation: Encoded, size: int, pad_id: int, device: torch.device | str
) -> Vocabulary:
    """The rows that these training examples use. The padding token keeps its number, which networks look for."""
    used = np.zeros(size, dtype=bool)
    used[: pad_id + 1] = True
    for row in np.unique(np.concatenate(rows)):
        used[train.ids[train.offsets[row] : train.offsets[row + 1]]] = True
    trained = np.flatnonzero(used)
    room = min(_roomy(len(trained)), size)
    trained = np.append(trained, np.full(room - len(trained), pad_id))
    seen = np.zeros(size, dtype=bool)
    seen[validation.ids] = True
    frozen = np.flatnonzero(seen & ~used)
    number = np.full(size, pad_id, dtype=np.int32)
    number[frozen] = room + np.arange(len(frozen))
    number[trained[::-1]] = np.arange(room - 1, -1, -1)  # reversed: the first of several places wins
    return Vocabulary(
        torch.as_tensor(trained, device=device),
        torch.as_tensor(frozen, device=device),
        torch.as_tensor(number, device=device),
    )


def _roomy(rows: int) -> int:
    """A little more than needed, from few possible sizes: packs with different words then run the same program."""
    step = 256 if rows <= 2048 else 2048
    return -(-rows // step) * step
