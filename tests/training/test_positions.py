"""Encoders whose number of positions is no multiple of the lengths that batches are padded to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from families import DEPTH, HEADS, model_of

from palimpsest.encoders.identity import anatomy_of
from palimpsest.encoders.loading import Encoder
from palimpsest.errors import EncoderError
from palimpsest.specs.expansion import EncoderIdentity
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Trial
from palimpsest.tasks.base import Split, Task
from palimpsest.training import reference, stacked
from palimpsest.training.data import prepare_data
from palimpsest.training.preparation import Prepared


def encoder_with(family: str, tokenizer: Any, **config: Any) -> Encoder:
    model = model_of(family, **({"vocabulary": len(tokenizer)} | config))
    anatomy = anatomy_of(model.config.to_dict(), family)
    return Encoder(EncoderIdentity(family, None, DEPTH, HEADS), model, tokenizer, anatomy, False)


@pytest.fixture
def long_sentences() -> Task:
    texts = ["the king was born in the city of the river " * 4, "a good film"] * 4
    split = Split(texts, None, np.array([0, 1] * 4))
    return Task("long", "classification", ("no", "yes"), ("accuracy",), lambda: (split, split))


@pytest.mark.parametrize(("family", "longest"), [("bert", 30), ("roberta", 28)])
@pytest.mark.parametrize("padding", ["dynamic", "max"])
def test_inputs_fill_the_positions_and_no_more(
    tiny_tokenizer: Any, long_sentences: Task, family: str, longest: int, padding: str
) -> None:
    encoder = encoder_with(family, tiny_tokenizer, max_position_embeddings=30)
    protocol = Protocol(epochs=1, batch_size=4, padding=padding)  # type: ignore[arg-type]
    data = prepare_data(long_sentences, encoder, protocol)
    assert data.train.lengths.max() == longest
    assert data.on("cpu")[0].ids.shape[1] == longest
    prepared = Prepared(Trial(encoder=family, task="long", protocol=protocol), long_sentences, encoder)
    one = reference.train(prepared, data, "cpu")
    (other,) = stacked.train([prepared], data, "cpu")
    assert math.isfinite(one.epochs[0].train_loss)
    assert other.epochs[0].train_loss == pytest.approx(one.epochs[0].train_loss, rel=1e-4)


def test_tokens_without_an_embedding_are_refused(tiny_tokenizer: Any, long_sentences: Task) -> None:
    encoder = encoder_with("bert", tiny_tokenizer, vocabulary=50)
    with pytest.raises(EncoderError, match="does not belong to its weights: in long it gives the token 1"):
        prepare_data(long_sentences, encoder, Protocol())
