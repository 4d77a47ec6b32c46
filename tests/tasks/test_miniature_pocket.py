"""What the pocket BERT knows carries over to words that training did not have; counting words does not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from palimpsest.encoders.loading import load
from palimpsest.tasks import miniature
from palimpsest.tasks.base import Split

TRAIN, VALIDATION = 1500, 600


def texts(split: Split, rows: npt.NDArray[np.int64]) -> list[tuple[str, ...]]:
    return [(split.first[i],) if split.second is None else (split.first[i], split.second[i]) for i in rows]


def features(examples: list[tuple[str, ...]]) -> npt.NDArray[np.float32]:
    """The mean, maximum and minimum over the tokens of all layers' hidden states, in the order of the examples."""
    encoder = load("pocket")
    found = np.zeros((len(examples), 13 * 3 * 160), dtype=np.float32)
    order = np.argsort([sum(map(len, e)) for e in examples])
    with torch.no_grad():
        for part in np.array_split(order, len(order) // 50):
            columns = [list(column) for column in zip(*(examples[i] for i in part), strict=True)]
            batch = encoder.tokenizer(*columns, padding=True, return_tensors="pt")
            real = batch["attention_mask"].bool()[..., None]
            pooled = []
            for states in encoder.model(**batch, output_hidden_states=True).hidden_states:
                pooled += [
                    (states * real).sum(1) / real.sum(1),
                    states.masked_fill(~real, -1e4).amax(1),
                    states.masked_fill(~real, 1e4).amin(1),
                ]
            found[part] = torch.cat(pooled, 1).numpy()
    return found


@pytest.mark.parametrize(
    ("name", "clearly"), [("mini-sentiment", 0.2), ("mini-inference", 0.12), ("mini-acceptability", 0.05)]
)
def test_a_bag_of_words_stays_clearly_under_the_pocket_bert(name: str, clearly: float) -> None:
    """Finetuned, it reaches much more (the tables in its model card); but that takes minutes."""
    task = miniature.load(name)
    rows = np.random.default_rng(0).permutation(len(task.train))[:TRAIN]
    labels, truth = np.asarray(task.train.targets)[rows], np.asarray(task.validation.targets)[:VALIDATION]
    validation = texts(task.validation, np.arange(VALIDATION))

    words = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=300))
    everything = texts(task.train, np.arange(len(task.train)))  # four times as much, and still
    words.fit([" ".join(e) for e in everything], task.train.targets)
    counted = words.score([" ".join(e) for e in validation], truth)

    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.001, max_iter=200))
    known = probe.fit(features(texts(task.train, rows)), labels).score(features(validation), truth)
    assert counted < known - clearly
