"""The public data sets that Palimpsest knows by name: how GLUE and SQuAD lay them out, and their official sizes.

Plain data, free of heavy imports, so that specs can look names up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["classification", "regression", "spans"]

METRICS: dict[Kind, tuple[str, ...]] = {
    "classification": ("accuracy", "f1", "mcc"),
    "regression": ("pearson", "spearman"),
    "spans": ("f1", "em"),
}  # what can be measured; in this order where a task does not say otherwise

BUILT_IN_PREFIX = "mini-"  # names of the built-in miniatures begin with it


@dataclass(frozen=True)
class Known:
    """One public data set.

    `labels` are in the hub's class order. A TSV file writes a class as its name, or, where `written` is "number", as
    its number.
    """

    name: str
    kind: Kind
    metrics: tuple[str, ...]
    train_rows: int
    validation_rows: int
    summary: str
    folder: str = ""  # in GLUE's own layout
    text: tuple[str, ...] = ()  # columns of the TSV files
    target: str = ""
    labels: tuple[str, ...] = ()
    written: Literal["name", "number"] = "number"
    header: tuple[str, ...] | None = None  # for files that have none of their own
    validation_file: str = "dev.tsv"
    skips_ragged: bool = False
    hub_repo: str = "nyu-mll/glue"
    hub_text: tuple[str, ...] = ()
    hub_validation: str = "validation"

    @property
    def official(self) -> tuple[int, int]:
        return self.train_rows, self.validation_rows


_PAIR = ("sentence1", "sentence2")

KNOWN: dict[str, Known] = {
    known.name: known
    for known in [
        Known(
            "cola",
            "classification",
            ("mcc", "accuracy"),
            8551,
            1043,
            "Is the sentence acceptable English?",
            folder="CoLA",
            text=("sentence",),
            target="label",
            header=("source", "label", "mark", "sentence"),
            labels=("unacceptable", "acceptable"),
            hub_text=("sentence",),
        ),
        Known(
            "sst2",
            "classification",
            ("accuracy",),
            67349,
            872,
            "Is the phrase from a film review positive?",
            folder="SST-2",
            text=("sentence",),
            target="label",
            labels=("negative", "positive"),
            hub_text=("sentence",),
        ),
        Known(
            "qnli",
            "classification",
            ("accuracy",),
            104743,
            5463,
            "Does the sentence answer the question?",
            folder="QNLI",
            text=("question", "sentence"),
            target="label",
            labels=("entailment", "not_entailment"),
            written="name",
            hub_text=("question", "sentence"),
        ),
        Known(
            "mrpc",
            "classification",
            ("accuracy", "f1"),
            3668,
            408,
            "Do two sentences from the news say the same?",
            folder="MRPC",
            text=("#1 String", "#2 String"),
            target="Quality",
            labels=("not_equivalent", "equivalent"),
            hub_text=_PAIR,
        ),
        Known(
            "rte",
            "classification",
            ("accuracy",),
            2490,
            277,
            "Does the first text entail the second?",
            folder="RTE",
            text=_PAIR,
            target="label",
            labels=("entailment", "not_entailment"),
            written="name",
            hub_text=_PAIR,
        ),
        Known(
            "wnli",
            "classification",
            ("accuracy",),
            635,
            71,
            "Is the pronoun resolved rightly? (Winograd schemas)",
            folder="WNLI",
            text=_PAIR,
            target="label",
            labels=("not_entailment", "entailment"),
            hub_text=_PAIR,
        ),
        Known(
            "stsb",
            "regression",
            ("pearson", "spearman"),
            5749,
            1500,
            "How similar are two sentences, from 0 to 5?",
            folder="STS-B",
            text=_PAIR,
            target="score",
            hub_text=_PAIR,
        ),
        # QQP as distributed has a few rows with columns missing; every loader in use, the hub's included, skips them,
        # and the official counts are without them.
        Known(
            "qqp",
            "classification",
            ("accuracy", "f1"),
            363846,
            40430,
            "Do two questions ask the same?",
            folder="QQP",
            text=("question1", "question2"),
            target="is_duplicate",
            skips_ragged=True,
            labels=("not_duplicate", "duplicate"),
            hub_text=("question1", "question2"),
        ),
        Known(
            "mnli",
            "classification",
            ("accuracy",),
            392702,
            9815,
            "Does the premise entail, contradict or leave open the hypothesis? (validation: matched)",
            folder="MNLI",
            text=_PAIR,
            target="gold_label",
            validation_file="dev_matched.tsv",
            labels=("entailment", "neutral", "contradiction"),
            written="name",
            hub_text=("premise", "hypothesis"),
            hub_validation="validation_matched",
        ),
        Known(
            "squad2",
            "spans",
            ("f1", "em"),
            130319,
            11873,
            "Where in the paragraph is the answer, if anywhere?",
            hub_repo="rajpurkar/squad_v2",
            hub_text=("question", "context"),
        ),
    ]
}


def canonical(name: str) -> str:
    """The spelling under which a known task is listed: lower case, no punctuation ("SST-2" is "sst2")."""
    return "".join(c for c in name.lower() if c.isalnum())


def find(name: str) -> Known | None:
    """The known task of that name, in whatever spelling."""
    return KNOWN.get(canonical(name))


def is_known(name: str) -> bool:
    """Whether this is the name of a task that needs no file of one's own."""
    return find(name) is not None or name.lower().startswith(BUILT_IN_PREFIX)
