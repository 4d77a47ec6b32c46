"""A tiny random BERT and a small task that it can learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from palimpsest.encoders.identity import anatomy_of
from palimpsest.encoders.loading import Encoder
from palimpsest.specs.expansion import EncoderIdentity
from palimpsest.tasks.base import Split, Task
from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.data import Data

VOCABULARY = 60


@pytest.fixture(scope="session")
def tiny_encoder() -> Encoder:
    """3 layers, 2 heads, hidden size 16, with a pooler; dropout as in BERT's config."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        num_hidden_layers=3, hidden_size=16, num_attention_heads=2, intermediate_size=32, vocab_size=VOCABULARY,
        max_position_embeddings=32, initializer_range=0.3,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(config).eval()
    return Encoder(EncoderIdentity("tiny", None, 3, 2), model, None, anatomy_of(config.to_dict(), "tiny"), True)


@pytest.fixture(scope="session")
def make_data() -> Callable[..., Data]:
    """Data for the tiny encoder: sentences of 3 to 14 tokens, labelled by which half of the words they favour."""
    return _make_data


@pytest.fixture(scope="session")
def tiny_data() -> Data:
    """Two classes, 60 training and 24 validation examples."""
    return _make_data()


def _make_data(train: int = 60, validation: int = 24, kind: str = "classification", seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    a, b = _encoded(rng, train, kind), _encoded(rng, validation, kind)
    labels, metrics = (("no", "yes"), ("accuracy", "mcc")) if kind == "classification" else ((), ("pearson",))
    task = Task(f"tiny-{kind}", kind, labels, metrics, lambda: (_split(a), _split(b)))  # type: ignore[arg-type]
    return Data(task, a, b, pad_id=0)


def _encoded(rng: np.random.Generator, n: int, kind: str) -> Encoded:
    lengths = rng.integers(3, 15, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    lean = rng.random(n)  # how much of a sentence comes from the upper half of the vocabulary
    upper = rng.random(offsets[-1]) < np.repeat(lean, lengths)
    ids = rng.integers(5, VOCABULARY // 2, offsets[-1]) + upper * (VOCABULARY // 2)
    ids[offsets[:-1]] = 2
    share = np.add.reduceat(upper.astype(np.float64), offsets[:-1]) / lengths
    targets = (share > 0.5).astype(np.int64) if kind == "classification" else share.astype(np.float32)
    types = np.concatenate([np.arange(k) > k // 2 for k in lengths]).astype(np.int8)
    return Encoded(ids.astype(np.int32), types, offsets, targets)


def _split(encoded: Encoded) -> Split:
    return Split([""] * len(encoded), None, encoded.targets)  # type: ignore[arg-type]
