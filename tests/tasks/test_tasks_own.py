"""Tasks made of the user's own files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palimpsest.errors import DataError, PalimpsestError
from palimpsest.specs.task_file import TaskFile
from palimpsest.tasks import registry

CSV = 'text,label\n"good, really",pos\n"bad\nthrough and through",neg\n'


def spec(
    tmp_path: Path, train: str | bytes = CSV, validation: str | bytes = CSV, ending: str = "csv", **more: Any
) -> TaskFile:
    paths = {}
    for name, content in (("train", train), ("validation", validation)):
        paths[name] = tmp_path / f"{name}.{ending}"
        paths[name].write_bytes(content if isinstance(content, bytes) else content.encode())
    fields: dict[str, Any] = {"name": "mine", "text": "text", "label": "label"} | paths | more
    return TaskFile.parse(fields, "study.yaml")


def test_csv_is_quoted(tmp_path: Path) -> None:
    task = registry.load(spec(tmp_path))
    assert list(task.train.first) == ["good, really", "bad\nthrough and through"]
    assert task.labels == ("neg", "pos")
    assert list(task.train.targets) == [1, 0]
    assert task.metrics == ("accuracy", "f1", "mcc")


def test_tsv_is_not_quoted(tmp_path: Path) -> None:
    task = registry.load(spec(tmp_path, 'text\tlabel\n"a\t1\nb"\t0\n', "text\tlabel\nc\t1\n", "tsv"))
    assert list(task.train.first) == ['"a', 'b"']


def test_jsonl_pairs_with_numbers_as_labels(tmp_path: Path) -> None:
    rows = [{"a": f"q{n}", "b": "s", "label": n, "other": [1]} for n in (10, 9, 2)]
    lines = "\n\n".join(json.dumps(row) for row in rows)
    task = registry.load(spec(tmp_path, lines, lines, "jsonl", text=["a", "b"]))
    assert task.labels == ("2", "9", "10")
    assert list(task.train.targets) == [2, 1, 0]
    assert list(task.train.second or ()) == ["s"] * 3


def test_regression(tmp_path: Path) -> None:
    content = "text,label\na,0.5\nb,-3\n"
    task = registry.load(spec(tmp_path, content, content, type="regression"))
    assert (task.kind, task.labels, task.metrics) == ("regression", (), ("pearson", "spearman"))
    np.testing.assert_array_equal(np.asarray(task.train.targets), [0.5, -3.0])


def test_labels_can_be_ordered_and_may_be_absent_from_training_then(tmp_path: Path) -> None:
    task = registry.load(spec(tmp_path, labels=["pos", "neutral", "neg"]))
    assert list(task.train.targets) == [0, 2]


def test_labels_given_as_numbers_in_yaml(tmp_path: Path) -> None:
    content = "text,label\na,0\nb,1\n"
    assert registry.load(spec(tmp_path, content, content, labels=[1, 0])).labels == ("1", "0")


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ("text,labels\na,b\n", 1, "no column 'label'; did you mean 'labels'?"),
        ("text;label\na;pos\n", 1, "columns are separated by semicolons here; use commas"),
        ("text,label\na,pos\nb\n", 3, "1 columns where there should be 2"),
        ('text,label\n"a\nb",pos\nc,neg,x\n', 4, "3 columns where there should be 2"),
        ('text,label\na,pos\n"b,neg\n', 3, "quotation mark"),
        ("text,label,text\na,pos,b\n", 1, "'text' twice"),
        ("", 1, "the file is empty"),
        ("text,label\n", 1, "no example"),
        (b"text,label\ncaf\xe9,pos\n", 2, "not UTF-8"),
        ("text,label\na,pos\nb,\n", 3, "empty"),
        ("text,label\na,pos\nb,pos\n", 3, "the same label 'pos'"),
        ("text,label\na,pos\n ,neg\n", 3, "there is no text in 'text'"),
    ],
)
def test_a_bad_training_file(tmp_path: Path, content: str | bytes, line: int, says: str) -> None:
    with pytest.raises(DataError) as caught:
        registry.load(spec(tmp_path, train=content))
    assert str(caught.value).startswith(f"{tmp_path / 'train.csv'}:{line}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"text": "a", "label": "pos"', "not valid JSON"),
        ('{"text": "a", "text": "b", "label": "pos"}', "key twice"),
        ('["a", "pos"]', "must be a JSON object"),
        ('{"text": "a"}', "no key 'label'"),
        ('{"text": 5, "label": "pos"}', "should be a text, not 5"),
        ('{"text": "a", "label": null}', "should be a text or a number, not null"),
        ('{"text": "\\ud800", "label": "pos"}', "surrogate"),
        ("[" * 100_000, "not valid JSON|nested too deeply"),
    ],
)
def test_a_broken_line_of_json(tmp_path: Path, line: str, says: str) -> None:
    good = '{"text": "a", "label": "pos"}\n{"text": "b", "label": "neg"}\n'
    with pytest.raises(DataError, match=rf"train\.jsonl:3: .*({says})"):
        registry.load(spec(tmp_path, good + line + "\n", good, "jsonl"))


def test_validation_labels_unseen_in_training(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"validation\.csv:3: 'neutral' .* its labels are 'neg', 'pos'"):
        registry.load(spec(tmp_path, validation="text,label\na,pos\nb,neutral\n"))


@pytest.mark.parametrize("value", ["much", "NaN", "-inf"])
def test_regression_needs_finite_numbers(tmp_path: Path, value: str) -> None:
    content = f"text,label\na,1\nb,{value}\n"
    with pytest.raises(DataError, match=r"train\.csv:3: .* not a finite number"):
        registry.load(spec(tmp_path, content, content, type="regression"))


def test_texts_taken_for_classes(tmp_path: Path) -> None:
    content = "text,label\n" + "".join(f"a,{n / 7}\n" for n in range(1500))
    with pytest.raises(DataError, match=r"train\.csv:1002: .*type: regression"):
        registry.load(spec(tmp_path, content))


def test_endings_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.xlsx: cannot tell the format"):
        registry.load(spec(tmp_path, ending="xlsx"))
    good = spec(tmp_path)
    good.train.unlink()
    with pytest.raises(DataError, match=r"train\.csv: no such file"):
        registry.load(good)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": ""}, "1 to 100 characters"),
        ({"name": "x" * 101}, "1 to 100 characters"),
        ({"name": " mine"}, "no space at either end"),
        ({"name": "a/b"}, "path separators"),
        ({"name": "a\\b"}, "path separators"),
        ({"name": ".."}, "plain label"),
        ({"name": "a\x07b"}, "control characters"),
        ({"name": "SST-2"}, "knows already"),
        ({"name": "mini-inference"}, "knows already"),
        ({"labels": ["a"]}, "at least two classes"),
        ({"labels": ["a", "a"]}, "twice"),
        ({"labels": [True, False]}, "quotes"),
        ({"labels": ["a", "b"], "type": "regression"}, "labels are for classification"),
        ({"metrics": ["pearson"]}, "not one of accuracy, f1, mcc"),
        ({"metrics": []}, "is empty"),
        ({"text": "label"}, "same column twice"),
        ({"text": ["a", "b", "c"]}, "text"),
        ({"lable": "x"}, "Did you mean 'label'"),
    ],
)
def test_what_a_task_file_cannot_say(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(PalimpsestError, match=says):
        spec(tmp_path, **fields)


def test_identity_is_what_the_files_say_not_where_or_how(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    here = registry.identify(spec(tmp_path))
    tsv = "text\tlabel\ngood\tpos\nbad\tneg\n"
    as_tsv = registry.identify(spec(tmp_path / "elsewhere", tsv, tsv, "tsv"))
    as_csv = registry.identify(spec(tmp_path / "elsewhere", tsv.replace("\t", ","), tsv.replace("\t", ",")))
    assert as_tsv == as_csv != here
    assert as_tsv.data is not None
    assert len(as_tsv.data) == 16
    assert as_tsv.train_rows == 2


def test_the_spec_itself_does_not_count_paths(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert spec(tmp_path).identity == spec(tmp_path / "elsewhere").identity


def test_identity_follows_the_meaning(tmp_path: Path) -> None:
    base = registry.identify(spec(tmp_path)).data
    assert registry.identify(spec(tmp_path, labels=["neg", "pos"], metrics=["accuracy", "f1", "mcc"])).data == base
    numbers = "text,label\na,1\nb,2\n"
    swapped = CSV.replace("pos", "other").replace("neg", "pos").replace("other", "neg")
    others = {
        registry.identify(spec(tmp_path, labels=["pos", "neg"])).data,
        registry.identify(spec(tmp_path, metrics=["mcc"])).data,
        registry.identify(spec(tmp_path, metrics=["f1", "accuracy", "mcc"])).data,
        registry.identify(spec(tmp_path, validation=swapped)).data,
        registry.identify(spec(tmp_path, train=swapped, validation=swapped)).data,
        registry.identify(spec(tmp_path, numbers, numbers)).data,
        registry.identify(spec(tmp_path, numbers, numbers, type="regression")).data,
    }
    assert len(others | {base}) == 8


def test_loaded_once_until_the_file_changes(tmp_path: Path) -> None:
    mine = spec(tmp_path)
    assert registry.load(mine) is registry.load(mine)
    changed = spec(tmp_path, train=CSV + "more,pos\n")
    assert len(registry.load(changed).train) == 3


def test_one_of_two_texts_may_be_empty(tmp_path: Path) -> None:
    content = "a,b,label\nwho,,pos\n,you,neg\n"
    pairs = spec(tmp_path, content, content, text=["a", "b"])
    assert registry.load(pairs).train.second == ["", "you"]
    bad = spec(tmp_path, content, "a,b,label\nwho,you,pos\n,,neg\n", text=["a", "b"])
    with pytest.raises(DataError, match=r":3: there is no text in 'a' and 'b'"):
        registry.load(bad)
