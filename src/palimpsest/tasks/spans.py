"""Answers as spans of tokens: windows over long paragraphs, the positions to learn, and back to answer texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from palimpsest.errors import EncoderError
from palimpsest.tasks.base import Answers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]

_LONGEST_QUESTION = 64  # tokens; longer questions are cut, as in BERT's own SQuAD code
_CHUNK = 1000  # examples tokenised at a time: offsets come as tuples, which are forty times the size of their numbers


@dataclass(frozen=True)
class Windows:
    """Question and a stretch of its paragraph, for all examples, tokens end to end: window i is offsets[i:i+2].

    `starts` and `ends` are the characters of the paragraph that a token stands for, -1 where it is not of it.
    """

    ids: npt.NDArray[np.int32]
    types: npt.NDArray[np.int8]
    offsets: Ints
    examples: Ints  # the example that each window belongs to, ascending
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.examples)


def windows(
    questions: Sequence[str],
    contexts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    doc_stride: int,
) -> Windows:
    """Windows of at most `max_length` tokens, each repeating the last `doc_stride` of the one before.

    Questions take up at most 64 tokens and a third of the window; the overlap at most half of what a window then has
    left for the paragraph, so that windows always move on.
    """
    if not tokenizer.is_fast:
        raise EncoderError("questions with spans need a fast tokenizer: only those say where in the text a token is.")
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    longest = min(_LONGEST_QUESTION, room // 3)
    if longest < 1:
        raise EncoderError(f"max_length={max_length} leaves no room for a question and a paragraph.")
    overlap = min(doc_stride, (room - longest) // 2)
    ids, types, starts, ends, lengths, examples = [], [], [], [], [], []
    for begin in range(0, len(questions), _CHUNK):
        batch = tokenizer(
            _shortened(questions[begin : begin + _CHUNK], tokenizer, longest),
            list(contexts[begin : begin + _CHUNK]),
            truncation="only_second",
            max_length=max_length,
            stride=overlap,
            padding=False,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_attention_mask=False,
        )
        sizes = np.array([len(window) for window in batch["input_ids"]], dtype=np.int64)
        total = int(sizes.sum())
        sequence = np.fromiter(
            (part == 1 for n in range(len(sizes)) for part in batch.sequence_ids(n)), dtype=bool, count=total
        )
        characters = np.fromiter(
            (position for window in batch["offset_mapping"] for pair in window for position in pair),
            dtype=np.int32,
            count=2 * total,
        ).reshape(total, 2)
        ids.append(flat(batch["input_ids"], total, np.int32))
        types.append(
            flat(batch["token_type_ids"], total, np.int8) if "token_type_ids" in batch else np.zeros(total, np.int8)
        )
        starts.append(np.where(sequence, characters[:, 0], -1).astype(np.int32))
        ends.append(np.where(sequence, characters[:, 1], -1).astype(np.int32))
        lengths.append(sizes)
        examples.append(np.array(batch["overflow_to_sample_mapping"], dtype=np.int64) + begin)
    return Windows(
        ids=np.concatenate(ids),
        types=np.concatenate(types),
        offsets=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        examples=np.concatenate(examples),
        starts=np.concatenate(starts),
        ends=np.concatenate(ends),
    )


def flat(rows: Sequence[Sequence[int]], total: int, dtype: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """Ragged rows of integers end to end."""
    return np.fromiter(chain.from_iterable(rows), dtype=dtype, count=total)


def _shortened(questions: Sequence[str], tokenizer: PreTrainedTokenizerBase, longest: int) -> list[str]:
    batch = tokenizer(
        list(questions),
        add_special_tokens=False,
        truncation=True,
        max_length=longest,
        return_offsets_mapping=True,
        return_attention_mask=False,
    )
    return [
        question[: places[-1][1]] if len(places) == longest else question
        for question, places in zip(questions, batch["offset_mapping"], strict=True)
    ]


def span_targets(found: Windows, answers: Sequence[Answers]) -> Ints:
    """The first and last token of each window's answer, [n, 2]; (0, 0), the first token, where it holds none whole.

    Of several acceptable answers the first is learnt.
    """
    targets = np.zeros((len(found), 2), dtype=np.int64)
    for n, example in enumerate(found.examples):
        answer = answers[example]
        if not answer.texts:
            continue
        begin, end = answer.starts[0], answer.starts[0] + len(answer.texts[0])
        span = slice(found.offsets[n], found.offsets[n + 1])
        inside = np.flatnonzero(found.starts[span] >= 0)
        starts, ends = found.starts[span][inside], found.ends[span][inside]
        if len(inside) and starts[0] <= begin and end <= ends[-1]:
            first = max(int(np.searchsorted(starts, begin, side="right")) - 1, 0)
            last = min(int(np.searchsorted(ends, end, side="left")), len(inside) - 1)
            targets[n] = inside[first], inside[max(first, last)]
    return targets


@dataclass(frozen=True)
class Decoded:
    """The best span for every question as a text, and how much the score of having no answer exceeds the span's.

    `doubts` is infinite where no span was possible at all; the text is then empty.
    """

    texts: list[str]
    doubts: npt.NDArray[np.float64]

    def answers(self, threshold: float = 0.0) -> list[str]:
        """The texts, but "" where the doubt exceeds the threshold: the higher it is, the more is answered."""
        return [text if doubt <= threshold else "" for text, doubt in zip(self.texts, self.doubts, strict=True)]


def decode(
    start_logits: Floats,
    end_logits: Floats,
    found: Windows,
    contexts: Sequence[str],
    max_answer_length: int = 30,
    n_best: int = 20,
) -> Decoded:
    """The answer to each question from logits [n windows, length], whose columns past a window's end do not count.

    The best span over all windows of an example, its ends among the window's `n_best` tokens. The score of having no
    answer is the first token's, in the window where it is least.
    """
    best = np.full(len(contexts), -np.inf)
    null = np.full(len(contexts), np.inf)
    places = np.zeros((len(contexts), 2), dtype=np.int64)
    null_scores = start_logits[:, 0].astype(np.float64) + end_logits[:, 0].astype(np.float64)
    np.minimum.at(null, found.examples, null_scores)
    for begin in range(0, len(found), _CHUNK):
        rows = slice(begin, min(begin + _CHUNK, len(found)))
        scores, chars = _best_spans(start_logits[rows], end_logits[rows], found, rows, max_answer_length, n_best)
        for n, example in enumerate(found.examples[rows]):
            if scores[n] > best[example]:
                best[example], places[example] = scores[n], chars[n]
    texts = [context[first:last] for context, (first, last) in zip(contexts, places.tolist(), strict=True)]
    return Decoded(texts, null - best)


def _best_spans(
    start_logits: Floats, end_logits: Floats, found: Windows, rows: slice, max_answer_length: int, n_best: int
) -> tuple[npt.NDArray[np.float64], Ints]:
    """Per window the highest score of a span, and its characters."""
    bounds = found.offsets[rows.start : rows.stop + 1]
    lengths, width = np.diff(bounds), start_logits.shape[1]
    real = np.arange(width) < lengths[:, None]
    chars = np.full((2, len(lengths), width), -1, dtype=np.int64)
    chars[0][real] = found.starts[bounds[0] : bounds[-1]]
    chars[1][real] = found.ends[bounds[0] : bounds[-1]]
    start = _candidates(start_logits, real, chars[0] >= 0, n_best)
    end = _candidates(end_logits, real, chars[0] >= 0, n_best)
    row = np.arange(len(lengths))
    best = np.full(len(lengths), -np.inf)
    where = np.zeros((len(lengths), 2), dtype=np.int64)
    for extra in range(min(max_answer_length, width)):
        total = start[:, : width - extra] + end[:, extra:]
        at = total.argmax(axis=1)
        better = total[row, at] > best
        best[better] = total[row, at][better]
        where[better] = np.stack([at, at + extra], axis=1)[better]
    return best, np.stack([chars[0][row, where[:, 0]], chars[1][row, where[:, 1]]], axis=1)


def _candidates(logits: Floats, real: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_], n_best: int) -> Floats:
    """The logits of a window's n_best tokens that are of the paragraph; minus infinity elsewhere."""
    values = np.where(real, logits.astype(np.float64), -np.inf)
    if n_best < values.shape[1]:
        least = np.partition(values, -n_best, axis=1)[:, -n_best, None]
        values = np.where(values >= least, values, -np.inf)
    return np.where(inside, values, -np.inf)
