"""Encoders and data of a given shape, with random contents: enough to measure speed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from palimpsest.encoders.identity import anatomy_of
from palimpsest.encoders.loading import Encoder
from palimpsest.specs.expansion import EncoderIdentity
from palimpsest.tasks.base import Split, Task
from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.data import Data

SHAPES: dict[str, dict[str, int]] = {
    "bert-base": {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522},
    "gte-small": {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536, "vocab_size": 30522},
    "pocket": {"hidden_size": 160, "num_attention_heads": 4, "intermediate_size": 640, "vocab_size": 12000},
}


def encoder(shape: str) -> Encoder:
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=12, **SHAPES[shape])
    torch.manual_seed(0)
    model = BertModel(config).eval()
    anatomy = anatomy_of(config.to_dict(), shape)
    return Encoder(EncoderIdentity(shape, None, 12, anatomy.heads), model, None, anatomy, has_pooler=True)


def data(shape: str, length: int, train: int, validation: int = 64) -> Data:
    """Two-class examples that all have this many tokens."""
    rng = np.random.default_rng(0)

    def encoded(n: int) -> Encoded:
        # Zipf-like: real text uses few of the words often, and that is what the embedding rows are trained for.
        ids = np.minimum(rng.zipf(1.2, n * length) + 999, SHAPES[shape]["vocab_size"] - 1).astype(np.int32)
        offsets = np.arange(n + 1, dtype=np.int64) * length
        return Encoded(ids, np.zeros(n * length, np.int8), offsets, rng.integers(0, 2, n))

    def split(e: Encoded) -> Any:
        return Split([""] * len(e), None, e.targets)

    a, b = encoded(train), encoded(validation)
    task = Task("synthetic", "classification", ("0", "1"), ("accuracy",), lambda: (split(a), split(b)))
    return Data(task, a, b, 0)
