"""SQuAD 2.0: reading its JSON files, and its two metrics.

How its answers become spans of tokens and back is in `spans`; those names can be had here too.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palimpsest.errors import DataError
from palimpsest.tasks.base import Answers, Split
from palimpsest.tasks.spans import Windows, decode, span_targets, windows
from palimpsest.tasks.tables import read_text

__all__ = [
    "Windows",
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
    em = f1 = 0.0
    for prediction, acceptable in zip(predictions, answers, strict=True):
        # An answer of nothing but articles and punctuation does not count as one.
        texts = [text for text in acceptable.texts if normalize(text)] or [""]
        em += max(exact_match(prediction, text) for text in texts)
        f1 += max(word_f1(prediction, text) for text in texts)
    return em / len(answers), f1 / len(answers)
