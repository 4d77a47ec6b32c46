"""Examples as tokens: sentences, pairs, and windows over paragraphs, there and back."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.errors import EncoderError
from palimpsest.tasks import squad
from palimpsest.tasks.base import Answers, Split
from palimpsest.tasks.spans import Windows, decode, span_targets, windows
from palimpsest.tasks.tokenize import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SEP = "[SEP]"


def row(encoded: Any, n: int) -> slice:
    return slice(encoded.offsets[n], encoded.offsets[n + 1])


def test_sentences_end_to_end(tiny_tokenizer: PreTrainedTokenizerBase) -> None:
    split = Split(["the film", "", "good"], None, np.array([1, 0, 1]))
    encoded = encode(split, tiny_tokenizer, 16, 4, "classification")
    assert encoded.lengths.tolist() == [4, 2, 3]
    assert tiny_tokenizer.convert_ids_to_tokens(encoded.ids[row(encoded, 0)].tolist()) == ["[CLS]", "the", "film", SEP]
    assert (encoded.ids.dtype, encoded.types.dtype, encoded.offsets.dtype) == (np.int32, np.int8, np.int64)
    assert (encoded.targets.dtype, encoded.targets.tolist(), encoded.windows) == (np.int64, [1, 0, 1], None)
    assert not encoded.types.any()
    assert len(encoded) == 3


def test_pairs_have_types_and_the_longer_is_cut_first(tiny_tokenizer: PreTrainedTokenizerBase) -> None:
    split = Split(["the king"], ["the river " * 20], np.array([2.5]))
    encoded = encode(split, tiny_tokenizer, 12, 4, "regression")
    assert encoded.lengths.tolist() == [12]
    tokens = tiny_tokenizer.convert_ids_to_tokens(encoded.ids.tolist())
    assert tokens[:4] == ["[CLS]", "the", "king", SEP]
    assert tokens[-1] == SEP
    assert encoded.types.tolist() == [0] * 4 + [1] * 8
    assert (encoded.targets.dtype, encoded.targets.tolist()) == (np.float32, [2.5])


def test_tokenizers_without_types_give_zeros(tiny_tokenizer: PreTrainedTokenizerBase) -> None:
    from transformers import PreTrainedTokenizerFast

    plain = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer.backend_tokenizer, model_input_names=["input_ids", "attention_mask"]
    )
    pair = Split(["the king"], ["the river"], np.array([1]))
    assert not encode(pair, plain, 16, 4, "classification").types.any()
    spans = Split(["the king"], ["the river"], [Answers((), ())])
    assert not encode(spans, plain, 16, 4, "spans").types.any()


def test_long_texts_cause_no_warning(
    tiny_tokenizer: PreTrainedTokenizerBase,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tiny_tokenizer, "model_max_length", 16)
    long = "the river " * 100
    with caplog.at_level(logging.DEBUG):
        encode(Split([long], None, np.array([1])), tiny_tokenizer, 16, 4, "classification")
        encode(Split([long], [long], np.array([1])), tiny_tokenizer, 16, 4, "classification")
        encode(Split([long], [long], [Answers((), ())]), tiny_tokenizer, 16, 4, "spans")
    assert [r.getMessage() for r in caplog.records] == []
    assert capfd.readouterr().err == ""


def covered(found: Windows, n: int) -> set[int]:
    """The characters of the paragraph that some window of example n has a token for."""
    inside = np.zeros(len(found.ids), dtype=bool)
    for w in np.flatnonzero(found.examples == n):
        inside[row(found, w)] = True
    inside &= found.starts >= 0
    return {c for a, b in zip(found.starts[inside], found.ends[inside], strict=True) for c in range(a, b)}


@pytest.mark.parametrize(("max_length", "stride"), [(384, 128), (128, 128), (24, 8), (12, 100), (8, 1)])
def test_windows_cover_everything_whatever_the_lengths(
    tiny_tokenizer: PreTrainedTokenizerBase, max_length: int, stride: int
) -> None:
    questions = ["who was the queen", "what " * 90]
    contexts = ["the river and the city " * 30, "born in the year 1066"]
    found = windows(questions, contexts, tiny_tokenizer, max_length, stride)
    assert np.diff(found.offsets).max() <= max_length
    assert sorted(set(found.examples.tolist())) == [0, 1]
    for n, context in enumerate(contexts):
        assert covered(found, n) == {i for i, c in enumerate(context) if c != " "}
    for w in range(len(found)):
        tokens = tiny_tokenizer.convert_ids_to_tokens(found.ids[row(found, w)].tolist())
        assert tokens[0] == "[CLS]"
        assert tokens[-1] == SEP
        assert (found.starts[row(found, w)] >= 0).tolist() == [
            kind == 1 and t != SEP for kind, t in zip(found.types[row(found, w)], tokens, strict=True)
        ]


def test_windows_overlap_by_the_stride(tiny_tokenizer: PreTrainedTokenizerBase) -> None:
    context = " ".join("abcdefghij" * 5)
    found = windows(["who"], [context], tiny_tokenizer, 25, 5)
    inner = [found.starts[row(found, w)][found.starts[row(found, w)] >= 0].tolist() for w in range(len(found))]
    assert len(inner) > 2
    assert all(left[-5:] == right[:5] for left, right in pairwise(inner))


def test_no_room_and_slow_tokenizers(tiny_tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EncoderError, match="max_length=5"):
        windows(["who"], ["the king"], tiny_tokenizer, 5, 1)
    monkeypatch.setattr(type(tiny_tokenizer), "is_fast", False)
    with pytest.raises(EncoderError, match="fast tokenizer"):
        windows(["who"], ["the king"], tiny_tokenizer, 16, 1)


def test_targets_point_at_the_answer_or_at_the_first_token(tiny_tokenizer: PreTrainedTokenizerBase) -> None:
    context = "the city was born in the year 1066"
    answers = [Answers(("year 1066", "1066"), (25, 30)), Answers((), ()), Answers(("106",), (30,))]
    found = windows(["when"] * 3, [context] * 3, tiny_tokenizer, 64, 8)
    targets = span_targets(found, answers)
    assert targets.shape == (3, 2)
    for n, text in ((0, "year 1066"), (2, "106")):
        first, last = targets[n] + found.offsets[n]
        assert context[found.starts[first] : found.ends[last]] == text
    assert targets[1].tolist() == [0, 0]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_an_oracle_gets_every_answer_back(tiny_tokenizer: PreTrainedTokenizerBase, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(["the", "King", "river,", "x1", "born"]), min_size=1, max_size=40))
    context = " ".join(words)
    begin = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(begin, min(begin + 3, len(words) - 1)))
    text, start = " ".join(words[begin : end + 1]), len(" ".join([*words[:begin], ""]))
    answers = data.draw(st.sampled_from([Answers((text,), (start,)), Answers((), ())]))
    found = windows(["who was"], [context], tiny_tokenizer, 40, 18)
    targets = span_targets(found, [answers])
    logits = np.zeros((2, len(found), 40))
    for side in (0, 1):
        logits[side, np.arange(len(found)), targets[:, side]] = 5.0
    assert decode(logits[0], logits[1], found, [context]).answers() == [answers.texts[0] if answers.texts else ""]


def slow_decode(
    s: Any, e: Any, found: Windows, contexts: list[str], longest: int, n_best: int, threshold: float
) -> list[str]:
    """The definition, one candidate at a time."""
    answers = []
    for n, context in enumerate(contexts):
        spans, null = [], []
        for w in np.flatnonzero(found.examples == n):
            starts, ends = found.starts[row(found, w)], found.ends[row(found, w)]
            null.append(s[w, 0] + e[w, 0])
            top_s = np.argsort(-s[w, : len(starts)])[:n_best]
            top_e = np.argsort(-e[w, : len(starts)])[:n_best]
            for i in top_s:
                for j in top_e:
                    if starts[i] >= 0 and starts[j] >= 0 and i <= j < i + longest:
                        spans.append((s[w, i] + e[w, j], context[starts[i] : ends[j]]))
        best = max(spans, default=(-np.inf, ""))
        answers.append("" if min(null) - best[0] > threshold else best[1])
    return answers


@pytest.mark.parametrize(("longest", "n_best", "threshold"), [(30, 20, 0.0), (3, 20, 0.0), (30, 4, 1.0), (5, 1, -2.0)])
def test_decoding_is_its_definition(
    tiny_tokenizer: PreTrainedTokenizerBase, longest: int, n_best: int, threshold: float
) -> None:
    contexts = ["the river of the city was bad " * k for k in range(1, 8)] * 3
    found = windows(["who was born"] * len(contexts), contexts, tiny_tokenizer, 24, 6)
    rng = np.random.default_rng(5)
    s, e = rng.normal(size=(2, len(found), 30))
    s[:, 24:] = 100.0  # past every window's end: must not count
    s[:, 0] += rng.normal(2.0, 2.0, size=len(found))
    got = squad.decode(s, e, found, contexts, longest, n_best).answers(threshold)
    assert got == slow_decode(s, e, found, contexts, longest, n_best, threshold)
    assert n_best == 1 or ("" in got and any(got))


def test_the_threshold_decides_between_an_answer_and_none(tiny_tokenizer: PreTrainedTokenizerBase) -> None:
    found = windows(["who"], ["the king"], tiny_tokenizer, 16, 4)
    s = np.zeros((1, 16), dtype=np.float32)
    e = np.zeros((1, 16), dtype=np.float32)
    king = int(np.flatnonzero(found.starts == 4)[0])
    s[0, king] = e[0, king] = 2.0
    s[0, 0] = 5.0
    decoded = decode(s, e, found, ["the king"])
    assert (decoded.texts, decoded.doubts.tolist()) == (["king"], [1.0])  # 5 + 0 for no answer, 2 + 2 for the span
    assert decoded.answers() == decoded.answers(0.99) == [""]
    assert decoded.answers(1.0) == ["king"]  # no answer must exceed the threshold, not only reach it
    s[0, 0] = 3.0
    assert decode(s, e, found, ["the king"]).answers() == ["king"]
    assert decode(s, e, found, ["the king"]).answers(-1.5) == [""]


def test_encoded_spans_keep_their_windows(tiny_tokenizer: PreTrainedTokenizerBase) -> None:
    split = Split(["who", "when"], ["the king " * 30, "the year"], [Answers(("king",), (4,)), Answers((), ())])
    encoded = encode(split, tiny_tokenizer, 24, 6, "spans")
    assert encoded.windows is not None
    assert encoded.targets.shape == (len(encoded), 2)
    assert len(encoded) > 2
    assert encoded.windows.examples[-1] == 1
    assert encoded.targets[0].all()
    assert not encoded.targets[1:].any()
