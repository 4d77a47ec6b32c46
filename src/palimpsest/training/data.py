"""A task's examples as one encoder reads them, tokenised once and kept for all trials that use them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.encoders.loading import Encoder
from palimpsest.errors import EncoderError
from palimpsest.specs.protocol import Protocol
from palimpsest.tasks.base import Task
from palimpsest.tasks.tokenize import Encoded, encode
from palimpsest.training.batches import Padded, pad


@dataclass(frozen=True, eq=False)
class Data:
    """Both splits of a task, tokenised."""

    task: Task
    train: Encoded
    validation: Encoded
    pad_id: int
    positions: int | None = None  # how long an input the encoder can take; None for no limit
    beside: tuple[Data, ...] = ()  # tasks whose batches are interleaved with this one's

    @property
    def window_owners(self) -> npt.NDArray[np.int64] | None:
        """For spans: the training example that each row is a window of."""
        return None if self.train.windows is None else self.train.windows.examples.astype(np.int64)

    def on(self, device: torch.device | str) -> tuple[Padded, Padded]:
        return _padded(self, str(device))


@lru_cache(maxsize=8)
def _padded(data: Data, device: str) -> tuple[Padded, Padded]:
    splits = (data.train, data.validation)
    train, validation = (pad(split, data.pad_id, device, data.positions) for split in splits)
    return train, validation


def prepare_data(task: Task, encoder: Encoder, protocol: Protocol) -> Data:
    """Tokenise a task for an encoder; the same object when asked for again."""
    return _prepare(task, encoder, protocol.max_length, protocol.doc_stride)


@lru_cache(maxsize=16)
def _prepare(task: Task, encoder: Encoder, max_length: int, doc_stride: int) -> Data:
    longest = getattr(encoder.model.config, "max_position_embeddings", max_length)
    # RoBERTa and its kin count positions from the padding index on, so their table is that much longer than inputs.
    longest -= encoder.position_offset
    limit = min(max_length, longest)
    train = encode(task.train, encoder.tokenizer, limit, doc_stride, task.kind)
    validation = encode(task.validation, encoder.tokenizer, limit, doc_stride, task.kind)
    _check_vocabulary(encoder, task, train, validation)
    return Data(task, train, validation, encoder.pad_id, longest)


def _check_vocabulary(encoder: Encoder, task: Task, *splits: Encoded) -> None:
    words: int = encoder.model.get_input_embeddings().num_embeddings
    highest = max((int(split.ids.max()) for split in splits if len(split.ids)), default=0)
    if highest >= words:
        raise EncoderError(
            f"the tokenizer of {encoder.identity.name} does not belong to its weights: in {task.name} it gives the "
            f"token {highest}, but there are embeddings for {words:,} tokens only"
        )
