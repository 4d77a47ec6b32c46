"""What the pocket BERT knows carries over to words that training did not have; counting words does not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from palimpsest.encoders.loading import load
from palimpsest.tasks import miniature

TRAIN, VALIDATION, LAYER = 1000, 500, 10


def features(sentences: list[str]) -> npt.NDArray[np.float32]:
    """Mean-pooled hidden states of one layer, in the order of the sentences."""
    encoder = load("pocket")
    found = np.zeros((len(sentences), 160), dtype=np.float32)
    order = np.argsort([len(s) for s in sentences])
    with torch.no_grad():
        for part in np.array_split(order, len(order) // 50):
            batch = encoder.tokenizer([sentences[i] for i in part], padding=True, return_tensors="pt")
            states = encoder.model(**batch, output_hidden_states=True).hidden_states[LAYER]
            mask = batch["attention_mask"][..., None]
            found[part] = ((states * mask).sum(1) / mask.sum(1)).numpy()
    return found


def test_a_bag_of_words_stays_clearly_under_the_pocket_bert() -> None:
    task = miniature.load("mini-sentiment")
    rows = np.random.default_rng(0).permutation(len(task.train))[:TRAIN]
    train, labels = [task.train.first[i] for i in rows], np.asarray(task.train.targets)[rows]
    validation, truth = list(task.validation.first[:VALIDATION]), np.asarray(task.validation.targets)[:VALIDATION]

    words = make_pipeline(CountVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=300))
    everything = words.fit(list(task.train.first), task.train.targets)  # six times as much, and still
    counted = everything.score(validation, truth)

    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    known = probe.fit(features(train), labels).score(features(validation), truth)
    assert known > 0.7
    assert counted < known - 0.1
