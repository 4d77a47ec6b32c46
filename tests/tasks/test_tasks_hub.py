"""Tasks from the hub, played by a server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hub_server import Hub

from palimpsest.errors import DataError
from palimpsest.tasks import registry
from palimpsest.tasks.base import Answers
from palimpsest.tasks.known import KNOWN


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    served = Hub()
    monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(registry, "_LOADED", {})
    yield served
    served.close()


def put_wnli(hub: Hub, train: int = 635, validation: int = 71, high: int = 1) -> None:
    for name, rows in (("train", train), ("validation", validation), ("test", 5)):
        table = {
            "sentence1": [f"sentence {n}" for n in range(rows)],
            "sentence2": ["other"] * rows,
            "label": [-1] * rows if name == "test" else [n % 2 * high for n in range(rows)],
            "idx": list(range(rows)),
        }
        hub.put("nyu-mll/glue", f"wnli/{name}-00000-of-00001.parquet", table)
    hub.put("nyu-mll/glue", "cola/train-00000-of-00001.parquet", {"sentence": ["x"]})


def test_downloads_what_the_task_needs_and_nothing_else(hub: Hub) -> None:
    put_wnli(hub)
    task = registry.load("WNLI")
    assert hub.asked == []
    assert (task.data, task.labels) == (None, ("not_entailment", "entailment"))
    assert (len(task.train), len(task.validation)) == (635, 71)
    assert np.asarray(task.train.targets).tolist()[:3] == [0, 1, 0]
    assert (task.train.first[1], (task.train.second or ())[1]) == ("sentence 1", "other")
    fetched = {line.rpartition("/")[2] for line in hub.asked if "/resolve/" in line}
    assert fetched == {"train-00000-of-00001.parquet", "validation-00000-of-00001.parquet"}
    assert not any("cola" in line or "wnli/test" in line for line in hub.asked)


def test_files_and_hub_agree_on_identity_and_class_numbers(hub: Hub, tmp_path: Path) -> None:
    put_wnli(hub)
    (tmp_path / "WNLI").mkdir()
    for name, rows in (("train", 635), ("dev", 71)):
        lines = "".join(f"{n}\tsentence {n}\tother\t{n % 2}\n" for n in range(rows))
        (tmp_path / "WNLI" / f"{name}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + lines)
    here, there = registry.load("wnli", tmp_path), registry.load("wnli")
    assert (here.name, here.data, here.labels) == (there.name, there.data, there.labels)
    for a, b in ((here.train, there.train), (here.validation, there.validation)):
        assert (list(a.first), list(a.second or ())) == (list(b.first), list(b.second or ()))
        np.testing.assert_array_equal(np.asarray(a.targets), np.asarray(b.targets))


def test_the_cache_serves_when_the_hub_does_not(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    put_wnli(hub)
    assert len(registry.load("wnli").train) == 635
    asked = len(hub.asked)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    registry._LOADED.clear()
    assert len(registry.load("wnli").train) == 635
    assert len(hub.asked) == asked


def test_several_shards_and_matched_validation(hub: Hub) -> None:
    known = KNOWN["mnli"]
    sizes = {"train-00000-of-00002": known.train_rows - 2, "train-00001-of-00002": 2}
    sizes |= {"validation_matched-00000-of-00001": known.validation_rows, "validation_mismatched-00000-of-00001": 1}
    for name, rows in sizes.items():
        text = pa.array([name]).take(pa.array(np.zeros(rows, dtype=np.int64)))
        label = pa.array(np.full(rows, 2, dtype=np.int64))
        hub.put("nyu-mll/glue", f"mnli/{name}.parquet", {"premise": text, "hypothesis": text, "label": label})
    task = registry.load("mnli")
    assert task.train.first[-1] == "train-00001-of-00002"
    assert task.validation.first[0] == "validation_matched-00000-of-00001"
    assert task.labels[int(np.asarray(task.train.targets)[0])] == "contradiction"


def test_squad(hub: Hub) -> None:
    known = KNOWN["squad2"]
    for name, rows in (("train", known.train_rows), ("validation", known.validation_rows)):
        answers = pa.array(
            [{"text": ["king"], "answer_start": [4]}, {"text": [], "answer_start": []}],
            type=pa.struct({"text": pa.list_(pa.string()), "answer_start": pa.list_(pa.int32())}),
        )
        which = pa.array(np.arange(rows) % 2)
        table = {
            "question": pa.array(["Who?", "Why?"]).take(which),
            "context": pa.array(["the king", "the king"]).take(which),
            "answers": answers.take(which),
        }
        hub.put("rajpurkar/squad_v2", f"squad_v2/{name}-00000-of-00001.parquet", table)
    task = registry.load("squad2")
    assert list(task.validation.targets[:2]) == [Answers(("king",), (4,)), Answers((), ())]
    assert (task.train.first[1], (task.train.second or ())[1]) == ("Why?", "the king")


def test_similarities_stay_numbers(hub: Hub) -> None:
    for name, rows in (("train", 5749), ("validation", 1500)):
        table = {"sentence1": ["a"] * rows, "sentence2": ["b"] * rows, "label": pa.array([2.5] * rows, pa.float32())}
        hub.put("nyu-mll/glue", f"stsb/{name}-00000-of-00001.parquet", table)
    targets = np.asarray(registry.load("stsb").train.targets)
    assert (targets.dtype, targets[0]) == (np.float64, 2.5)


def test_an_incomplete_copy_is_not_taken_for_the_official_one(hub: Hub) -> None:
    put_wnli(hub, train=600)
    with pytest.raises(DataError, match=r"has 600 and 71 examples of wnli, not the official 635 and 71.*--data DIR"):
        len(registry.load("wnli").train)


def test_labels_that_the_task_does_not_have(hub: Hub) -> None:
    put_wnli(hub, high=2)
    with pytest.raises(DataError, match=r"train-00000-of-00001\.parquet: has labels other than 0\.\.1"):
        len(registry.load("wnli").train)


def test_files_that_are_not_parquet(hub: Hub) -> None:
    put_wnli(hub)
    hub.repos["nyu-mll/glue"]["wnli/train-00000-of-00001.parquet"] = b"<html>sign in</html>"
    with pytest.raises(DataError, match="not the parquet file that wnli should have"):
        len(registry.load("wnli").train)


def test_files_that_lack_a_column(hub: Hub) -> None:
    for name in ("train", "validation"):
        hub.put("nyu-mll/glue", f"rte/{name}-00000-of-00001.parquet", {"sentence1": ["a"], "label": [1]})
    with pytest.raises(DataError, match="not the parquet file that rte should have"):
        len(registry.load("rte").train)


def test_a_repository_without_the_validation_split(hub: Hub) -> None:
    put_wnli(hub)
    del hub.repos["nyu-mll/glue"]["wnli/validation-00000-of-00001.parquet"]
    with pytest.raises(DataError, match=r"no validation-\*\.parquet"):
        len(registry.load("wnli").train)


@pytest.mark.usefixtures("hub")
def test_a_hub_without_the_data_set() -> None:
    with pytest.raises(DataError, match=r"(?s)cannot get the files of rte.*--data DIR.*HF_ENDPOINT"):
        len(registry.load("rte").train)


@pytest.mark.usefixtures("hub")
def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match=r"(?s)from http://127\.0\.0\.1:9.*--data DIR.*HF_ENDPOINT"):
        len(registry.load("cola").train)


def test_offline_and_not_cached(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"HF_HUB_OFFLINE is set.*\n.*--data DIR"):
        len(registry.load("cola").train)
    assert hub.asked == []
