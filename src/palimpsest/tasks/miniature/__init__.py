"""Three small tasks that are always there: no download, no data directory.

They are made in the image of SST-2, CoLA and QNLI, by a small grammar, the same everywhere:

``mini-sentiment``: is the verdict good or bad? Negation, contrast, comparison, disappointed expectations.

    Although the ending was dull, the film was wonderful.             positive
    There was nothing charming about the concert.                     negative

``mini-acceptability``: is this a sentence of English? Agreement, binding, argument structure, word order, gaps.

    The teacher near the soldiers has arrived.                        acceptable
    The queen said that the king blamed herself.                      unacceptable

``mini-inference``: does the sentence answer the question? Every sentence occurs with both labels.

    Where did Anna hide the key?   Anna hid the key in the garden.    entailment
    Where did Anna hide the key?   Anna hid the key on Monday.        not_entailment

Both splits have the same constructions and function words, but *no content word of the validation split occurs in the
training split*: a model trained on "wonderful" and "dull" is asked about "superb" and "tedious". Counting words gets
nowhere, and a network that knows nothing but the training sentences not far. What carries over is what pretraining has
told the encoder about words, and that is what these tasks make visible when layers are re-initialised.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType

from palimpsest.errors import UnknownName
from palimpsest.tasks.base import Split, Task
from palimpsest.tasks.miniature import acceptability, inference, sentiment
from palimpsest.tasks.miniature.grammar import fill
from palimpsest.tasks.miniature.lexicon import TRAIN, VALIDATION

VERSION = 1  # part of every miniature's identity: raise it whenever a sentence changes
TRAIN_ROWS = 8000
VALIDATION_ROWS = 1000

_GRAMMARS: dict[str, tuple[ModuleType, tuple[str, ...]]] = {
    "mini-sentiment": (sentiment, ("accuracy",)),
    "mini-acceptability": (acceptability, ("mcc", "accuracy")),
    "mini-inference": (inference, ("accuracy",)),
}
NAMES = tuple(_GRAMMARS)


def _generate(name: str) -> tuple[Split, Split]:
    constructions = _GRAMMARS[name][0].CONSTRUCTIONS
    return (
        fill(constructions, TRAIN, TRAIN_ROWS, VERSION, name, "train"),
        fill(constructions, VALIDATION, VALIDATION_ROWS, VERSION, name, "validation"),
    )


def load(name: str) -> Task:
    """The miniature of this name; its sentences are written when first looked at."""
    if name not in _GRAMMARS:
        raise UnknownName("miniature", name, NAMES)
    grammar, metrics = _GRAMMARS[name]
    return Task(
        name=name,
        kind="classification",
        labels=grammar.LABELS,
        metrics=metrics,
        load=partial(_generate, name),
        data=f"v{VERSION}",
        source="written by the grammar in palimpsest.tasks.miniature",
    )
