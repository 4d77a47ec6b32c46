"""A directory store: what it accepts, what it keeps, and what it survives."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from palimpsest.errors import StoreError
from palimpsest.store import DirectoryStore, Record, open_store


def damage(store: DirectoryStore, id: str, text: str = '{"format": 1, "id"') -> Path:
    path = Path(store.place(id))
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def leftovers(store: DirectoryStore) -> list[str]:
    return [p.name for p in store.path.rglob(".*")]


# Opening


def test_create_then_open(tmp_path: Path, record: Any) -> None:
    for name in ("new", "nested/deep"):
        open_store(tmp_path / name, create=True).put(record())
        assert open_store(str(tmp_path / name)).ids() == {record().id}
    (tmp_path / "empty").mkdir()
    assert open_store(tmp_path / "empty", create=True).ids() == set()
    assert open_store(f"file://{tmp_path}/empty").ids() == set()


def test_create_opens_what_is_there(store: DirectoryStore, record: Any) -> None:
    store.put(record())
    assert open_store(store.path, create=True).get(record().id) == record()


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    for create in (False, True):
        with pytest.raises(StoreError, match="is a file; a store is a directory"):
            open_store(tmp_path / "file", create)
        with pytest.raises(StoreError, match=r"not a store.*thesis\.tex"):
            open_store(tmp_path / "home", create)
        with pytest.raises(StoreError, match="gopher:// are not supported"):
            open_store("gopher://bucket/results", create)
        with pytest.raises(StoreError, match="no path"):
            open_store("", create)
    with pytest.raises(StoreError, match="there is no store in"):
        open_store(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    with pytest.raises(StoreError, match="the directory is empty"):
        open_store(tmp_path / "empty")


def test_a_store_of_a_newer_version_or_with_a_damaged_marker(store: DirectoryStore) -> None:
    marker = store.path / "palimpsest-store.json"
    assert json.loads(marker.read_text()) == {"format": 1}
    marker.write_text('{"format": 7}')
    with pytest.raises(StoreError, match="newer version: format 7; this Palimpsest reads up to 1"):
        open_store(store.path)
    marker.write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        open_store(store.path, create=True)


def test_a_store_whose_trials_folder_is_gone_is_empty(store: DirectoryStore, record: Any) -> None:
    (store.path / "trials").rmdir()
    assert open_store(store.path).ids() == set()
    store.put(record())
    assert record().id in store


# Keeping


def test_put_and_get(store: DirectoryStore, record: Any) -> None:
    store.put(record(1))
    store.put(record(2, "failed"))
    assert store.get(record(1).id) == record(1)
    assert store.ids() == {record(1).id, record(2).id}
    assert store.finished_ids() == {record(1).id}
    assert record(2).id in store
    assert record(3).id not in store
    assert store.statuses([record(1).id, record(2).id, record(3).id]) == {
        record(1).id: "finished",
        record(2).id: "failed",
    }
    assert Path(store.place(record(1).id)) == store.path / "trials" / record(1).id[:2] / f"{record(1).id}.json"
    assert leftovers(store) == []


def test_get_says_what_is_wrong(store: DirectoryStore, record: Any) -> None:
    with pytest.raises(StoreError, match="there is no record"):
        store.get(record().id)
    for name in ("../../etc/passwd", "", "ABC"):
        assert name not in store
        with pytest.raises(StoreError, match="not the identity of a trial"):
            store.get(name)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [("finished", "finished", 1), ("finished", "failed", 1), ("failed", "finished", 2), ("failed", "failed", 2)],
)
def test_a_finished_record_stays_and_a_failed_one_makes_way(
    store: DirectoryStore, record: Any, first: str, second: str, kept: int
) -> None:
    store.put(record(status=first, score=0.1))
    store.put(record(status=second, score=0.2))
    assert store.get(record().id).outcome.metrics == {"accuracy": kept / 10}
    assert leftovers(store) == []
    assert not (store.path / "damaged").exists()


def test_records_of_some_ids_come_in_their_order_and_once(store: DirectoryStore, record: Any) -> None:
    for n in range(5):
        store.put(record(n))
    ids = [record(n).id for n in (3, 1, 3, 9)]
    assert [r.id for r in store.records(ids)] == [ids[0], ids[1]]
    assert {r.id for r in store.records()} == store.ids()


def _write(path: Path, records: list[Record]) -> None:
    store = open_store(path, create=True)
    for record in records:
        store.put(record)


def test_many_writers_of_the_same_trials(tmp_path: Path, record: Any) -> None:
    """All of them open a store that does not exist yet, and every trial is finished by someone in the end."""
    path = tmp_path / "store"
    context = multiprocessing.get_context("spawn")
    writers = []
    for w in range(3):
        # One writer's trials all failed: whatever the order, the others' results must win.
        status = "failed" if w == 0 else "finished"
        records = [record(n, status, score=w / 10) for n in range(25)]
        writers.append(context.Process(target=_write, args=(path, records)))
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [w.exitcode for w in writers] == [0, 0, 0]
    store = DirectoryStore.open(path)
    assert store.finished_ids() == {record(n).id for n in range(25)}
    assert store.problems == []
    assert leftovers(store) == []


# Surviving


def test_damaged_files_count_as_missing_and_are_reported_not_deleted(store: DirectoryStore, record: Any) -> None:
    good, torn, newer, foreign, empty = (record(n) for n in range(5))
    store.put(good)
    damage(store, torn.id, torn.to_json()[:200])
    damage(store, newer.id, newer.to_json().replace('"format": 1', '"format": 9'))
    damage(store, foreign.id, good.to_json())
    damage(store, empty.id, "")
    copy = Path(store.place(good.id)).with_name("copy of a record.json")
    copy.write_text(good.to_json())
    half_written = Path(store.place(good.id)).with_name(f".{good.id}.json.123-abcd")
    half_written.write_text("{")
    assert [r.id for r in store.records()] == [good.id]
    assert store.statuses() == {good.id: "finished"} | dict.fromkeys(
        (torn.id, newer.id, foreign.id, empty.id), "damaged"
    )
    assert store.finished_ids() == {good.id}
    reasons = {p.path: p.reason for p in store.problems}
    assert set(reasons) == {store.place(r.id) for r in (torn, newer, foreign, empty)} | {str(copy)}
    assert "truncated" in reasons[store.place(torn.id)]
    assert "newer version: format 9" in reasons[store.place(newer.id)]
    assert "foreign" in reasons[store.place(foreign.id)]
    assert "foreign" in reasons[str(copy)]
    assert all(Path(p).exists() for p in reasons)
    assert half_written.exists()
    assert torn.id not in store
    with pytest.raises(StoreError, match="truncated"):
        store.get(torn.id)


def test_a_damaged_record_is_moved_aside_when_its_trial_is_run_again(store: DirectoryStore, record: Any) -> None:
    r = record()
    for n in (1, 2):
        damage(store, r.id, f"damage {n}")
        assert list(store.records()) == []
        store.put(r)
        assert (store.path / "damaged" / f"{r.id}.json.{n}").read_text() == f"damage {n}"
        assert list(store.records()) == [r]
    assert store.problems == []


def test_a_directory_in_the_place_of_a_record(store: DirectoryStore, record: Any) -> None:
    Path(store.place(record().id)).mkdir(parents=True)
    assert store.statuses() == {record().id: "damaged"}
    store.put(record())
    assert store.finished_ids() == {record().id}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_is_full_or_read_only(
    store: DirectoryStore, record: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store.put(record(1))

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(StoreError, match=f"cannot write to the store.*{os.strerror(number)}.*intact"):
            store.put(record(2))
    assert store.ids() == {record(1).id}
    assert leftovers(store) == []
    store.put(record(2))
    assert store.finished_ids() == {record(1).id, record(2).id}


def test_a_store_that_is_removed_while_it_is_written_to(store: DirectoryStore, record: Any) -> None:
    store.path.rename(store.path.with_name("elsewhere"))
    with pytest.raises(StoreError, match="has been removed"):
        store.put(record())
    with pytest.raises(StoreError, match="cannot read the store"):
        store.ids()
    assert not store.path.exists()


def test_a_file_system_without_hard_links(store: DirectoryStore, record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    store.put(record(status="failed", score=0.1))
    store.put(record(score=0.2))
    store.put(record(score=0.3))
    assert store.get(record().id).outcome.metrics == {"accuracy": 0.2}
    damage(store, record(1).id)
    store.put(record(1))
    assert len(list((store.path / "damaged").iterdir())) == 1
    assert leftovers(store) == []


def test_a_finished_record_that_arrives_while_a_failed_one_makes_way(
    store: DirectoryStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a writer's look at a failed record and its move, another writer finishes the trial."""
    store.put(record(status="failed"))
    rename = Path.rename

    def slow(self: Path, target: Path) -> Path:
        monkeypatch.undo()
        DirectoryStore.open(store.path).put(record(score=0.1))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", slow)
    store.put(record(score=0.2))
    assert store.get(record().id).outcome.metrics == {"accuracy": 0.1}
    assert leftovers(store) == []
