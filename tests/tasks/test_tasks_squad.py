"""SQuAD's files and its metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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


def test_real_squad(real_data: Path) -> None:
    dev = squad.read(squad.files(real_data)[1])
    assert len(dev) == 11873
    assert sum(not a.texts for a in dev.targets) == 5945  # type: ignore[union-attr]
    for context, answers in zip(dev.second or (), dev.targets, strict=True):
        assert isinstance(answers, Answers)
        assert all(context.startswith(t, s) for t, s in zip(answers.texts, answers.starts, strict=True))
    gold = [a.texts[0] if a.texts else "" for a in dev.targets]  # type: ignore[union-attr]
    assert squad.em_f1(gold, dev.targets) == (1.0, 1.0)  # type: ignore[arg-type]
