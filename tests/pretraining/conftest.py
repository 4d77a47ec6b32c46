"""A corpus, a teacher and a shape so small that a whole pretraining run takes a second or two."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from palimpsest import streams
from palimpsest.pretraining import PretrainSettings
from palimpsest.pretraining.tokenizer import save_tokenizer, train_tokenizer

SUBJECTS = ["the miller", "a young sailor", "every teacher", "no gardener", "my neighbour", "the old captain"]
VERBS = ["painted", "forgot", "repaired", "admired", "misplaced", "described"]
OBJECTS = ["the lighthouse", "a wooden clock", "three letters", "the garden wall", "an unfinished map", "her violin"]
ENDS = ["before breakfast", "without a word", "in the rain", "twice", "last winter", "by candlelight"]


def write_corpus(path: Path, paragraphs: int = 300) -> Path:
    draws = streams.host_bits(12 * paragraphs, "toy corpus").reshape(paragraphs, 3, 4)
    tables = (SUBJECTS, VERBS, OBJECTS, ENDS)
    lines = [
        " ".join(
            " ".join(table[int(x) % len(table)] for table, x in zip(tables, sentence, strict=True)) + "."
            for sentence in paragraph
        )
        for paragraph in draws
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "toy.txt")


@pytest.fixture(scope="session")
def teacher(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights and a vocabulary of its own, deeper and wider than the student."""
    directory = tmp_path_factory.mktemp("teacher")
    tokenizer: Tokenizer = train_tokenizer(corpus.read_text().splitlines(), 60)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=60,
            hidden_size=24,
            num_hidden_layers=4,
            num_attention_heads=2,
            intermediate_size=48,
            max_position_embeddings=64,
            initializer_range=0.3,
        )
        BertModel(config, add_pooling_layer=False).save_pretrained(directory)
    save_tokenizer(tokenizer, directory, 64)
    return directory


@pytest.fixture(scope="session")
def settings() -> PretrainSettings:
    return PretrainSettings(
        layers=2,
        hidden=16,
        heads=2,
        vocabulary=180,
        max_length=32,
        batch_tokens=8 * 32,
        steps=40,
        warmup_steps=5,
        learning_rate=1e-2,
        held_out=0.1,
    )
