"""How much each layer of an encoder knows of a task before any finetuning: a quick linear probe of all layers.

    python benchmarks/pocket_probe.py DATA_DIR CHECKPOINT [CHECKPOINT …]

DATA_DIR holds SST-2 as GLUE lays it out (train.tsv, dev.tsv). The features are the hidden states of the frozen encoder,
averaged over the pieces of a sentence; logistic regression on 500 training sentences, accuracy on the validation set.
The product's own probing studies do this properly, with trials and intervals; this is the five-second version.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from transformers import AutoModel, AutoTokenizer

from palimpsest import streams


def read(path: Path) -> tuple[list[str], npt.NDArray[np.int64]]:
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return [sentence.strip() for sentence, _ in rows], np.array([int(label) for _, label in rows])


@torch.no_grad()
def features(checkpoint: str, sentences: list[str], device: str) -> npt.NDArray[np.float32]:
    """[layers + 1, sentences, hidden]"""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModel.from_pretrained(checkpoint, dtype=torch.float32).eval().to(device)
    parts = []
    for first in range(0, len(sentences), 128):
        batch = tokenizer(
            sentences[first : first + 128], padding=True, truncation=True, max_length=128, return_tensors="pt"
        ).to(device)
        states = torch.stack(model(**batch, output_hidden_states=True).hidden_states)
        mask = batch["attention_mask"][None, :, :, None]
        parts.append(((states * mask).sum(2) / mask.sum(2)).cpu().numpy())
    return np.concatenate(parts, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--trials", type=int, default=3, help="training subsets to average over")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, train_labels = read(given.data / "train.tsv")
    dev, dev_labels = read(given.data / "dev.tsv")
    subsets = [streams.permutation(len(train), "probe", trial)[: given.examples] for trial in range(given.trials)]
    for checkpoint in given.checkpoints:
        dev_features = features(checkpoint, dev, device)
        scores = []
        for subset in subsets:
            train_features = features(checkpoint, [train[i] for i in subset], device)
            scores.append(
                [
                    LogisticRegression(C=0.1, max_iter=2000)
                    .fit((scaler := StandardScaler().fit(x)).transform(x), train_labels[subset])
                    .score(scaler.transform(y), dev_labels)
                    for x, y in zip(train_features, dev_features, strict=True)
                ]
            )
        mean = np.mean(scores, axis=0)
        print(f"{checkpoint}: best {100 * mean.max():.1f} % at layer {int(mean.argmax())}")
        print("  layers 0…:", " ".join(f"{100 * s:.1f}" for s in mean), flush=True)


if __name__ == "__main__":
    main()
