"""Which examples a trial sees at which step, and how examples become padded tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from palimpsest import streams
from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.network import Batch

Rows = npt.NDArray[np.int64]
_BUCKET = {"cpu": 1, "cuda": 8}  # padded lengths are multiples of this, which a GPU's kernels like better


def steps_per_epoch(examples: int, batch_size: int) -> int:
    return -(-examples // batch_size)


def batch_rows(examples: Rows, epochs: int, batch_size: int, seed: int) -> Rows:
    """Row numbers [steps, batch_size]: every epoch is a new order of the trial's examples; -1 fills the last batch."""
    return np.concatenate([epoch_rows(examples, epoch, batch_size, seed) for epoch in range(epochs)])


def epoch_rows(examples: Rows, epoch: int, batch_size: int, seed: int) -> Rows:
    """One epoch (counted from 0) of :func:`batch_rows`."""
    rows = np.full(steps_per_epoch(len(examples), batch_size) * batch_size, -1, dtype=np.int64)
    rows[: len(examples)] = examples[streams.permutation(len(examples), "order", seed, epoch)]
    return rows.reshape(-1, batch_size)


@dataclass(frozen=True, eq=False)
class Padded:
    """Examples as rectangular tensors on a device, from which batches are gathered and cut to length."""

    ids: torch.Tensor  # int32 [N + 1, longest]; the last row is empty: it stands for row number -1
    types: torch.Tensor
    lengths: torch.Tensor  # int32 [N + 1]
    targets: torch.Tensor
    host_lengths: Rows

    def take(self, rows: torch.Tensor, length: int) -> Batch:
        """The examples with these row numbers ([…, B]), padded to this length.

        No longer than the longest of all examples, where more padding would change nothing.
        """
        length = min(length, self.ids.shape[1])
        ids = self.ids[rows, :length].long()
        lengths = self.lengths[rows]
        mask = torch.arange(length, device=ids.device) < lengths[..., None]
        return Batch(ids, self.types[rows, :length].long(), mask, self.targets[rows], (rows >= 0).float())

    def length(self, rows: Rows, limit: int, padding: str = "dynamic") -> int:
        """The length that a batch of these examples is padded to."""
        if padding == "max":
            return limit
        bucket = _BUCKET[self.ids.device.type]
        return -(-min(int(self.host_lengths[rows].max()), limit) // bucket) * bucket


def pad(encoded: Encoded, pad_id: int, device: torch.device | str, limit: int | None = None) -> Padded:
    """Lay ragged examples out as rectangles, no wider than the encoder has positions (`limit`)."""
    lengths = np.append(np.diff(encoded.offsets), 0).astype(np.int64)
    bucket = _BUCKET[torch.device(device).type]
    width = -(-int(lengths.max()) // bucket) * bucket
    if limit is not None:
        width = min(width, limit)
    inside = np.arange(width) < lengths[:, None]
    ids = np.full(inside.shape, pad_id, dtype=np.int32)
    types = np.zeros(inside.shape, dtype=np.int32)
    ids[inside] = encoded.ids
    types[inside] = encoded.types
    # An absent row still needs one token to attend to, or its softmax is over nothing; its loss counts for nothing.
    masked = np.maximum(lengths, 1)
    targets: Any = np.concatenate([encoded.targets, np.zeros_like(encoded.targets[:1])])
    return Padded(
        torch.as_tensor(ids).to(device),
        torch.as_tensor(types).to(device),
        torch.as_tensor(masked.astype(np.int32)).to(device),
        torch.as_tensor(targets).to(device),
        lengths,
    )
