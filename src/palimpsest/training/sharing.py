"""Short examples share the lines of a batch, so that little of it is padding.

A batch is as long as the longest example of all trials of a pack, and most examples are much shorter: of the tokens
that are computed, two in three would be padding. So examples are laid end to end in fewer lines. Each keeps its own
positions and dropout, and attends to itself alone: a trial computes what it would compute with a line for each.
"""

from __future__ import annotations

import numpy as np
import torch

from palimpsest.training.batches import Rows
from palimpsest.training.network import Batch, Shared

_DRAWN = 8192  # batches that are looked at to find out how many lines are nearly always enough
_EIGHTHS = (2, 3, 4, 5, 6, 8)  # of as many lines as there are examples


def arrange(lengths: Rows, line: int | Rows) -> tuple[Rows, Rows]:
    """Lay examples of these lengths […, B] into lines of this length, the longest first, each into the first with room.

    Returns the slot of each example's first token, counting through the lines (0 for those without tokens), and how
    many lines […] are used. There is always room in B lines, as no example is longer than one.
    """
    *lead, batch = lengths.shape
    flat = lengths.reshape(-1, batch)
    limit = np.broadcast_to(line, lead).reshape(-1, 1)
    order = np.argsort(-flat, axis=1, kind="stable")
    each = np.arange(len(flat))
    used = np.zeros_like(flat)  # tokens in each line
    starts = np.zeros_like(flat)
    for n in range(batch):
        example = order[:, n]
        length = flat[each, example]
        chosen = (used + length[:, None] <= limit).argmax(axis=1)
        starts[each, example] = np.where(length > 0, chosen * limit[:, 0] + used[each, chosen], 0)
        used[each, chosen] += length
    return starts.reshape(lengths.shape), (used > 0).sum(axis=1).reshape(lead)


def lines_for(lengths: Rows, batch: int, line: int) -> int:
    """How many lines of this length are nearly always enough for a batch drawn from examples of these lengths.

    One of a few numbers, and the same for all packs with these data, because each is a program of its own.
    """
    fitting = lengths[lengths <= line]
    if not len(fitting):
        return batch
    drawn = np.random.default_rng(0).choice(fitting, (_DRAWN, batch))
    enough = int(arrange(drawn, line)[1].max())
    return min(n for n in (-(-batch * eighths // 8) for eighths in _EIGHTHS) if n >= enough)


def share(batch: Batch, starts: torch.Tensor, lines: int, length: int) -> Batch:
    """Lay the examples of padded batches [T, B, …] end to end, each from its slot on: [T, lines, length]."""
    trials, examples, longest = batch.ids.shape
    device = batch.ids.device
    real = batch.mask & (batch.present > 0)[..., None]
    slots = starts[..., None] + torch.arange(longest, device=device)
    slots = torch.where(real, slots, lines * length).flatten(1)  # what is padding goes to a slot of no line

    def laid(values: torch.Tensor, empty: int) -> torch.Tensor:
        out = torch.full((trials, lines * length + 1), empty, dtype=values.dtype, device=device)
        return out.scatter_(1, slots, values.expand(trials, examples, longest).flatten(1))[:, :-1].view(
            trials, lines, length
        )

    number = torch.arange(examples, dtype=torch.int32, device=device)[:, None]
    position = torch.arange(longest, dtype=torch.int32, device=device)
    owner = laid(number, -1)
    shared = Shared(owner, laid(position, 0), starts)
    return batch._replace(ids=laid(batch.ids, 0), types=laid(batch.types, 0), mask=owner >= 0, shared=shared)
