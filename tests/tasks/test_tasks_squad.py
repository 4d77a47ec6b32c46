"""SQuAD's files and its metrics."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.errors import DataError
from palimpsest.tasks import registry, squad
from palimpsest.tasks.base import Answers

CONTEXT = "The king was born in 1066 by the river."


def document(**changes: Any) -> dict[str, Any]:
    answerable = {
        "id": "1",
        "question": "When was the king born?",
        "is_impossible": False,
        "answers": [{"text": "1066", "answer_start": 21}, {"text": "in 1066", "answer_start": 18}],
    }
    impossible = {
        "id": "2",
        "question": "Who was the queen?",
        "is_impossible": True,
        "answers": [],
        "plausible_answers": [{"text": "The king", "answer_start": 0}],
    }
    paragraph = {"context": CONTEXT, "qas": [answerable | changes, impossible]}
    return {"version": "v2.0", "data": [{"title": "A", "paragraphs": [paragraph]}]}


@pytest.mark.parametrize("folder", ["squad2", "SQuAD", "."])
def test_reads_questions_paragraphs_and_answers(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    for name in ("train-v2.0.json", "dev-v2.0.json"):
        (tmp_path / folder / name).write_text(json.dumps(document()))
    task = registry.load("SQuAD 2", tmp_path)
    assert list(task.train.first) == ["When was the king born?", "Who was the queen?"]
    assert list(task.train.second or ()) == [CONTEXT, CONTEXT]
    assert list(task.train.targets) == [Answers(("1066", "in 1066"), (21, 18)), Answers((), ())]
    assert (task.kind, task.metrics, task.data is None) == ("spans", ("f1", "em"), False)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r":1: the file is empty"),
        ('{"data": [\n{"paragraphs" 5}]}', r":2: not valid JSON"),
        ("[]", "the document has no 'data'"),
        ('{"data": []}', "no question"),
        (json.dumps(document(question=None)), r"data\[0\]\.paragraphs\[0\]\.qas\[0\] has no 'question' of type str"),
        (json.dumps(document(answers=[{"text": "x"}])), r"answers\[0\] has no 'answer_start' of type int"),
        (json.dumps(document(answers=[{"text": "x", "answer_start": 999}])), "starts at 999, outside its paragraph"),
    ],
)
def test_what_is_not_squad(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "train-v2.0.json").write_text(json.dumps(document()))
    (tmp_path / "dev-v2.0.json").write_text(content)
    with pytest.raises(DataError, match=rf"dev-v2\.0\.json.*{says}"):
        registry.load("squad2", tmp_path)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has train-v2\.0\.json and dev-v2\.0\.json"):
        registry.load("squad2", tmp_path)
    (tmp_path / "train-v2.0.json").write_text(json.dumps(document()))
    with pytest.raises(DataError, match=r"dev-v2\.0\.json: no such file"):
        registry.load("squad2", tmp_path)


@pytest.mark.parametrize(
    ("prediction", "answers", "em", "f1"),
    [
        ("The  River!", ("river",), 1, 1),
        ("a river", ("the RIVER.",), 1, 1),
        ("river bank", ("the river",), 0, 2 / 3),
        ("big big river", ("big river",), 0, 4 / 5),
        ("theatre", ("atre",), 0, 0),
        ("O'Brien", ("obrien",), 1, 1),
        ("", (), 1, 1),
        ("the", (), 1, 1),
        ("river", (), 0, 0),
        ("", ("river",), 0, 0),
        ("river", ("city", "the river bank", "river"), 1, 1),
        ("east bank", ("west bank", "bank"), 0, 2 / 3),
        ("", ("the", "..."), 1, 1),
        ("river", ("the", "river"), 1, 1),
    ],
)
def test_exact_match_and_f1_by_hand(prediction: str, answers: tuple[str, ...], em: float, f1: float) -> None:
    found = squad.em_f1([prediction], [Answers(answers, (0,) * len(answers))])
    assert found == pytest.approx((em, f1))


def test_scores_are_means_over_questions() -> None:
    answers = [Answers(("river",), (0,)), Answers((), ())]
    assert squad.em_f1(["river", "something"], answers) == (0.5, 0.5)


def test_questions_with_and_without_an_answer() -> None:
    answers = [Answers(("river mouth",), (0,)), Answers((), ()), Answers(("king",), (0,)), Answers(("the",), (0,))]
    found = squad.by_kind(["river bank", "", "king", "city"], answers)
    assert found == {"has_answer_em": 0.5, "has_answer_f1": 0.75, "no_answer_f1": 0.5}  # "the" is no answer
    assert squad.by_kind(["king"], answers[2:3]) == {"has_answer_em": 1.0, "has_answer_f1": 1.0}
    assert squad.by_kind(["king"], answers[1:2]) == {"no_answer_f1": 0.0}


# Four questions from the surest to the least sure, the second and fourth without an answer. With the threshold below
# all doubts both of these are right: 2 of 4. Answering the first is a gain of 1, the second costs 1, the third brings
# half an F1 (one word of two and of two) and no exact match, the fourth costs 1.
DOUBTS = [-3.0, -1.0, 0.5, 2.0]
TEXTS = ["river", "city", "river bank", "king"]
ANSWERS = [Answers(("river",), (0,)), Answers((), ()), Answers(("river mouth",), (0,)), Answers((), ())]


def best(doubts: list[float], texts: list[str], answers: list[Answers]) -> dict[str, float]:
    return squad.best_thresholds(squad.Decoded(texts, np.array(doubts)), answers)


def test_the_best_thresholds_by_hand() -> None:
    assert best(DOUBTS, TEXTS, ANSWERS) == {
        "best_em": 0.75, "best_em_threshold": -3.0, "best_f1": 0.75, "best_f1_threshold": -3.0,
    }  # fmt: skip
    # Without the second question, F1 goes on growing where exact match does not.
    without = [DOUBTS[0], *DOUBTS[2:]], [TEXTS[0], *TEXTS[2:]], [ANSWERS[0], *ANSWERS[2:]]
    found = best(*without)
    assert (found["best_em"], found["best_em_threshold"]) == (pytest.approx(2 / 3), -3.0)
    assert (found["best_f1"], found["best_f1_threshold"]) == (pytest.approx(2.5 / 3), 0.5)


def test_the_best_may_be_to_answer_nothing_or_everything() -> None:
    nothing = best([4.0, 1.0], ["king", "river"], [Answers((), ()), Answers((), ())])
    assert nothing == {"best_em": 1.0, "best_em_threshold": 0.0, "best_f1": 1.0, "best_f1_threshold": 0.0}
    everything = best([4.0, 1.0], ["king", "river"], [Answers(("king",), (0,)), Answers(("river",), (0,))])
    assert everything == {"best_em": 1.0, "best_em_threshold": 4.0, "best_f1": 1.0, "best_f1_threshold": 4.0}
    hopeless = best([math.inf], [""], [Answers(("king",), (0,))])
    assert hopeless == {"best_em": 0.0, "best_em_threshold": 0.0, "best_f1": 0.0, "best_f1_threshold": 0.0}


def test_equal_doubts_are_answered_together() -> None:
    answers = [Answers(("king",), (0,)), Answers((), ())]
    for order in ((0, 1), (1, 0)):
        found = best([1.0, 1.0], [["king", "river"][i] for i in order], [answers[i] for i in order])
        assert (found["best_em"], found["best_em_threshold"]) == (0.5, 0.0)


@given(st.data())
def test_no_threshold_is_better_than_the_best(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    words = st.sampled_from(["", "the", "king", "river", "river bank"])
    texts = data.draw(st.lists(words, min_size=n, max_size=n))
    doubts = data.draw(st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, math.inf]), min_size=n, max_size=n))
    answers = [
        Answers(tuple(t), (0,) * len(t))
        for t in data.draw(st.lists(st.lists(words, max_size=2), min_size=n, max_size=n))
    ]
    decoded = squad.Decoded(
        [t if math.isfinite(d) else "" for t, d in zip(texts, doubts, strict=True)], np.array(doubts)
    )
    found = squad.best_thresholds(decoded, answers)
    tried = [squad.em_f1(decoded.answers(threshold), answers) for threshold in (-9.0, -2.0, -0.5, 0.0, 0.5, 1.0)]
    for i, metric in enumerate(("em", "f1")):
        reached = squad.em_f1(decoded.answers(found[f"best_{metric}_threshold"]), answers)[i]
        assert found[f"best_{metric}"] == pytest.approx(reached) == pytest.approx(max(t[i] for t in tried))


def test_real_squad(real_data: Path) -> None:
    dev = squad.read(squad.files(real_data)[1])
    assert len(dev) == 11873
    assert sum(not a.texts for a in dev.targets) == 5945  # type: ignore[union-attr]
    for context, answers in zip(dev.second or (), dev.targets, strict=True):
        assert isinstance(answers, Answers)
        assert all(context.startswith(t, s) for t, s in zip(answers.texts, answers.starts, strict=True))
    gold = [a.texts[0] if a.texts else "" for a in dev.targets]  # type: ignore[union-attr]
    assert squad.em_f1(gold, dev.targets) == (1.0, 1.0)  # type: ignore[arg-type]
