"""SQuAD 2.0: reading its JSON files, and its two metrics.

How its answers become spans of tokens and back is in `spans`; those names can be had here too.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from palimpsest.errors import DataError
from palimpsest.tasks.base import Answers, Split
from palimpsest.tasks.spans import Decoded, Windows, decode, span_targets, windows
from palimpsest.tasks.tables import read_text

__all__ = [
    "Decoded",
    "Windows",
    "best_thresholds",
    "by_kind",
    "decode",
    "em_f1",
    "exact_match",
    "files",
    "normalize",
    "read",
    "span_targets",
    "windows",
    "word_f1",
]

_NAMES = ("train-v2.0.json", "dev-v2.0.json")
_NOT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def files(directory: Path) -> tuple[Path, Path]:
    """train-v2.0.json and dev-v2.0.json, in DIR/squad2, DIR/SQuAD or DIR itself."""
    for folder in (directory / "squad2", directory / "SQuAD", directory):
        if any((folder / name).is_file() for name in _NAMES):
            return folder / _NAMES[0], folder / _NAMES[1]
    raise DataError(
        f"{directory}: neither it nor squad2/ or SQuAD/ in it has {_NAMES[0]} and {_NAMES[1]}. "
        "Name another directory with --data, or leave it out to use the Hugging Face hub."
    )


def read(path: Path) -> Split:
    """Questions, their paragraphs, and the acceptable answers, in the order of the file."""
    content = read_text(path)
    if not content.strip():
        raise DataError(f"{path}:1: the file is empty.")
    try:
        document = json.loads(content)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not valid JSON ({error.msg}).") from None
    questions: list[str] = []
    contexts: list[str] = []
    answers: list[Answers] = []
    for a, article in enumerate(_get(document, "data", list, path, "the document")):
        place = f"data[{a}]"
        for p, paragraph in enumerate(_get(article, "paragraphs", list, path, place)):
            inner = f"{place}.paragraphs[{p}]"
            context = _get(paragraph, "context", str, path, inner)
            for q, entry in enumerate(_get(paragraph, "qas", list, path, inner)):
                questions.append(_get(entry, "question", str, path, f"{inner}.qas[{q}]"))
                contexts.append(context)
                answers.append(_answers(entry, context, path, f"{inner}.qas[{q}]"))
    if not questions:
        raise DataError(f"{path}:1: there is no question in it.")
    return Split(questions, contexts, answers)


def _answers(entry: Any, context: str, path: Path, place: str) -> Answers:
    texts, starts = [], []
    for n, answer in enumerate(_get(entry, "answers", list, path, place)):
        text = _get(answer, "text", str, path, f"{place}.answers[{n}]")
        start = _get(answer, "answer_start", int, path, f"{place}.answers[{n}]")
        if not 0 <= start <= len(context):
            raise DataError(f"{path}: {place}.answers[{n}] starts at {start}, outside its paragraph.")
        texts.append(text)
        starts.append(start)
    return Answers(tuple(texts), tuple(starts))


def _get(holder: Any, key: str, kind: type, path: Path, place: str) -> Any:
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        raise DataError(f"{path}: {place} has no {key!r} of type {kind.__name__}; is this a SQuAD 2.0 file?")
    return value


@lru_cache(maxsize=1 << 17)  # the right answers are the same for every trial and epoch
def normalize(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NOT_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    return float(normalize(prediction) == normalize(answer))


def word_f1(prediction: str, answer: str) -> float:
    """The overlap of the two bags of words. Nothing agrees with nothing only."""
    said, right = normalize(prediction).split(), normalize(answer).split()
    if not said or not right:
        return float(said == right)
    common = sum((Counter(said) & Counter(right)).values())
    return 2 * common / (len(said) + len(right))


def em_f1(predictions: Sequence[str], answers: Sequence[Answers]) -> tuple[float, float]:
    """Mean exact match and F1, each against the answer that fits best; "" is right where there is no answer."""
    em, f1 = _scores(predictions, answers).mean(0)
    return float(em), float(f1)


def by_kind(predictions: Sequence[str], answers: Sequence[Answers]) -> dict[str, float]:
    """The scores on questions that have an answer, and on those that have none, if there are such.

    The official script's HasAns_exact, HasAns_f1 and NoAns_f1 (which is NoAns_exact too).
    """
    scores = _scores(predictions, answers)
    answerable = np.array([bool(_real(acceptable)) for acceptable in answers])
    found: dict[str, float] = {}
    if answerable.any():
        found["has_answer_em"], found["has_answer_f1"] = scores[answerable].mean(0).tolist()
    if not answerable.all():
        found["no_answer_f1"] = float(scores[~answerable, 1].mean())
    return found


def best_thresholds(decoded: Decoded, answers: Sequence[Answers]) -> dict[str, float]:
    """The highest EM and F1 that any no-answer threshold gives, and the lowest threshold that gives each.

    These are the official script's best_exact and best_f1. They are chosen on the very examples that they are measured
    on, so they are what a model could reach, not an estimate of how good it is. A threshold below all doubts, at which
    nothing is answered, is the least doubt less one. Equal doubts stand on one side of every threshold.
    """
    nothing = np.array([[float(not _real(acceptable))] for acceptable in answers])
    gains = _scores(decoded.texts, answers) - nothing
    possible = np.flatnonzero(np.isfinite(decoded.doubts))
    order = possible[np.argsort(decoded.doubts[possible], kind="stable")]
    doubts = decoded.doubts[order]
    last = np.append(doubts[1:] > doubts[:-1], True)[: len(doubts)]  # of those with the same doubt
    thresholds = np.concatenate([doubts[:1] - 1, doubts[last]])
    found: dict[str, float] = {}
    for metric, gain in zip(("em", "f1"), gains.T, strict=True):
        reached = nothing.mean() + np.concatenate([[0.0], np.cumsum(gain[order])[last]]) / len(answers)
        at = int(reached.round(12).argmax())
        found[f"best_{metric}"] = float(reached[at])
        found[f"best_{metric}_threshold"] = float(thresholds[at]) if len(thresholds) else 0.0
    return found


def _scores(predictions: Sequence[str], answers: Sequence[Answers]) -> npt.NDArray[np.float64]:
    """Exact match and F1 of every question, [n, 2]."""
    scores = np.empty((len(answers), 2))
    for n, (prediction, acceptable) in enumerate(zip(predictions, answers, strict=True)):
        texts = _real(acceptable) or [""]
        scores[n] = max(exact_match(prediction, t) for t in texts), max(word_f1(prediction, t) for t in texts)
    return scores


def _real(acceptable: Answers) -> list[str]:
    """The acceptable answers, but for those of nothing but articles and punctuation."""
    return [text for text in acceptable.texts if normalize(text)]
