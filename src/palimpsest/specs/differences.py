"""What sources did differently from Tamkin et al. 2020 as written, one choice at a time.

Each is a small named set of protocol fields, and a protocol of its own: everything as in ``paper`` but for this. The
numbers are those of :mod:`palimpsest.analysis.errata`, which says what was found and why it matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """Protocol fields that differ from ``paper``, and why somebody would set them so."""

    name: str
    summary: str
    fields: dict[str, Any]
    erratum: int | None = None
    released: bool = False  # whether all of the released scripts' runs were made with it


DIFFERENCES = (
    Difference(
        "near-zero-init",
        "Re-initialised weights within ±0.0008: the cuts were given in units of σ.",
        {"initialiser": {"std": 0.02, "cut": 0.0008}},
        erratum=1,
        released=True,
    ),
    Difference(
        "biases-kept",
        "Biases of re-initialised layers stay pretrained.",
        {"initialiser": {"biases": "keep"}},
        erratum=2,
        released=True,
    ),
    Difference(
        "pretrained-pooler",
        "The classifier sees the first token through the pretrained pooler and dropout; probes see it frozen.",
        {"pooling": "pooler", "pooler": "keep", "head_dropout": 0.1},
        erratum=3,
        released=True,
    ),
    Difference(
        "decaying-rate",
        "AdamW without weight decay, a learning rate that falls to zero, gradients clipped at norm 1.",
        {"optimizer": "adamw", "weight_decay": 0.0, "schedule": "linear", "clip": 1.0},
        erratum=4,
        released=True,
    ),
    Difference(
        "layer-norm-kept",
        "Layer norm of re-initialised layers stays pretrained (Figure 8).",
        {"initialiser": {"layer_norm": "keep"}},
        erratum=5,
    ),
    Difference(
        "released-learning-rate",
        "The learning-rate experiment as it was run: base rate 5e-5, ratio 2, and a last layer that never trains.",
        {"learning_rate": 5e-5, "reinitialized_rate": 2.0, "frozen_layers": [-1]},
        erratum=6,
    ),
    Difference(
        "padded",
        "Every input is padded to 128 tokens.",
        {"padding": "max", "max_length": 128},
        erratum=11,
        released=True,
    ),
)


def merged(*sets: dict[str, Any]) -> dict[str, Any]:
    """Several sets of fields as one; later ones win, and what they say of the initialiser is laid over."""
    result: dict[str, Any] = {}
    for fields in sets:
        law = {**result.get("initialiser", {}), **fields.get("initialiser", {})}
        result |= fields | ({"initialiser": law} if law else {})
    return result
