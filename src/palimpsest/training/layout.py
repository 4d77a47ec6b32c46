"""How the weights of T stacked trials lie in memory: one flat row per trial, in which every weight is a view.

One flat buffer makes the optimiser one pass over memory. Weights are ordered by layer, so that a layer is one stretch
(per-layer learning rates). Of the word embeddings only the rows that the pack's training data use are trained:
the others get no gradient, and Adam without weight decay leaves them where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from palimpsest.encoders.anatomy import Anatomy
from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.batches import Rows

_ALIGN = 64  # elements: keeps every view aligned for vector loads


@dataclass(frozen=True)
class Slot:
    offset: int
    shape: tuple[int, ...]
    layer: int  # 0 for what belongs to no layer

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class Layout:
    """Where each weight lies in a trial's row."""

    slots: dict[str, Slot]
    width: int

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """The weights as views of a flat buffer [T, width]: each [T, *shape]."""
        return {
            name: flat[:, s.offset : s.offset + s.size].view(flat.shape[0], *s.shape) for name, s in self.slots.items()
        }

    def stretches(self) -> list[tuple[int, int, int]]:
        """(layer, begin, end) for every run of weights of one layer, in order, without gaps."""
        runs: list[list[int]] = []
        for slot in self.slots.values():
            if not runs or runs[-1][0] != slot.layer:
                if runs:
                    runs[-1][2] = slot.offset
                runs.append([slot.layer, slot.offset, 0])
        runs[-1][2] = self.width
        return [(a, b, c) for a, b, c in runs]


def lay_out(shapes: Mapping[str, tuple[int, ...]], anatomy: Anatomy) -> Layout:
    """Give every weight its place."""
    layers = {name: anatomy.layer_of(name.removeprefix("encoder.")) or 0 for name in shapes}
    slots: dict[str, Slot] = {}
    offset = 0
    for name in sorted(shapes, key=lambda n: layers[n]):
        slots[name] = Slot(offset, tuple(shapes[name]), layers[name])
        offset += -(-slots[name].size // _ALIGN) * _ALIGN
    return Layout(slots, offset)


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
    step = 256 if rows <= 2048 else 1024
    return -(-rows // step) * step
