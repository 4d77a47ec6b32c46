"""Examples as tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from palimpsest.tasks.base import Split
from palimpsest.tasks.known import Kind
from palimpsest.tasks.spans import Windows, flat, span_targets, windows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CHUNK = 10_000  # examples tokenised at a time: bounds the memory that Python lists of integers take


@dataclass(frozen=True)
class Encoded:
    """Token sequences end to end, unpadded: sequence i is ids[offsets[i]:offsets[i + 1]].

    For spans a sequence is a window, and one example may have several: `windows` says which are whose.
    """

    ids: npt.NDArray[np.int32]
    types: npt.NDArray[np.int8]  # 1 for the second of a pair, where the tokenizer tells them apart
    offsets: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64] | npt.NDArray[np.float32]  # [n], or [n, 2] first and last token of the answer
    windows: Windows | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)


def encode(split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int, kind: Kind) -> Encoded:
    """A split as the encoder reads it, special tokens included; the longer of a pair is cut first."""
    if kind == "spans":
        return _encode_spans(split, tokenizer, max_length, doc_stride)
    ids, types, lengths = [], [], []
    for begin in range(0, len(split), _CHUNK):
        stretch = slice(begin, begin + _CHUNK)
        batch = tokenizer(
            list(split.first[stretch]),
            None if split.second is None else list(split.second[stretch]),
            truncation="longest_first",
            max_length=max_length,
            padding=False,
            return_attention_mask=False,
        )
        lengths.append(np.array([len(row) for row in batch["input_ids"]], dtype=np.int64))
        total = int(lengths[-1].sum())
        ids.append(flat(batch["input_ids"], total, np.int32))
        types.append(
            flat(batch["token_type_ids"], total, np.int8) if "token_type_ids" in batch else np.zeros(total, np.int8)
        )
    targets = np.asarray(split.targets)
    return Encoded(
        ids=np.concatenate(ids),
        types=np.concatenate(types),
        offsets=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        targets=targets.astype(np.float32) if kind == "regression" else targets.astype(np.int64),
    )


def _encode_spans(split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int) -> Encoded:
    if split.second is None or isinstance(split.targets, np.ndarray):
        raise TypeError("spans are learnt from questions, paragraphs and Answers")
    found = windows(split.first, split.second, tokenizer, max_length, doc_stride)
    return Encoded(found.ids, found.types, found.offsets, span_targets(found, split.targets), found)
