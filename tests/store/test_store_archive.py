"""An archive: one file with all that a store holds, read like a store and never written to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from palimpsest.errors import MissingStore, NothingFinished, SpecError, StoreError
from palimpsest.specs.expansion import EncoderIdentity
from palimpsest.specs.trial import Companion, Trial
from palimpsest.store import DirectoryStore, Record, Store, open_store
from palimpsest.store.archive import contents, write_archive
from palimpsest.store.export import copy
from palimpsest.store.facts import Facts, TaskFacts
from palimpsest.training.predictions import pack, unpack

MakeRecord = Callable[..., Record]

TINY = EncoderIdentity("tiny", "aaaa1111", 3, 2)
REVIEWS = TaskFacts("reviews", "f00d", 48, 16, "classification", False, ("neg", "pos"), "accuracy", pack([0, 1, 1]))


@pytest.fixture
def full(store: DirectoryStore, record: MakeRecord) -> DirectoryStore:
    for index in range(6):
        store.put(record(index, score=index / 8))
    store.put(record(6, status="failed"))
    store.put(record(7, alongside=(Companion(task="cola", data="beef"),)))
    return store


@pytest.fixture
def archive(full: DirectoryStore, tmp_path: Path) -> Path:
    return write_archive(full, contents(full), Facts((TINY,), (REVIEWS,)), tmp_path / "results.parquet")


def test_it_is_read_like_the_store_it_was_made_of(full: DirectoryStore, archive: Path) -> None:
    read = open_store(archive)
    assert str(read) == str(archive)
    assert read.ids() == full.ids()
    assert read.statuses() == full.statuses()
    assert read.finished_ids() == full.finished_ids()
    assert [r.to_json() for r in read.records()] == [r.to_json() for r in full.records()]
    some = sorted(full.ids())[:3]
    assert read.get(some[0]) == full.get(some[0])
    assert read.statuses([*some, "0" * 32]) == full.statuses(some)
    assert some[0] in read
    assert "0" * 32 not in read
    assert read.problems == []
    with pytest.raises(StoreError, match="there is no record 0000"):
        read.get("0" * 32)


def test_losses_that_were_no_numbers_stay_so(store: DirectoryStore, record: MakeRecord, tmp_path: Path) -> None:
    store.put(record(score=float("nan")))
    path = write_archive(store, contents(store), Facts(), tmp_path / "nan.parquet")
    (read,) = open_store(path).records()
    assert np.isnan(read.outcome.metrics["accuracy"])


def test_some_records_only(full: DirectoryStore, tmp_path: Path) -> None:
    chosen = sorted(full.ids())[:2]
    path = write_archive(full, contents(full, [*chosen, "0" * 32]), Facts(), tmp_path / "some.parquet")
    assert open_store(path).ids() == set(chosen)


def test_an_archive_with_more_in_it_is_not_replaced(full: DirectoryStore, archive: Path, record: MakeRecord) -> None:
    before = archive.read_bytes()
    some = sorted(full.ids())[:2]
    with pytest.raises(StoreError, match="holds 6 trials that are not among the 2 to be written"):
        write_archive(full, contents(full, some), Facts(), archive)
    assert archive.read_bytes() == before
    full.put(record(9))
    write_archive(full, contents(full), Facts(), archive)
    assert len(open_store(archive).ids()) == 9


def test_any_program_reads_it(archive: Path, full: DirectoryStore) -> None:
    table = pq.read_table(archive).to_pylist()
    assert {row["id"]: row["score"] for row in table} == {r.id: r.outcome.metrics["accuracy"] for r in full.records()}
    assert {(row["encoder"], row["task"], row["size"], row["status"]) for row in table} == {
        ("pocket", "sst2", "500", "finished"),
        ("pocket", "sst2", "500", "failed"),
    }
    assert json.loads(table[0]["record"])["outcome"]["curve"] == [[1, 0.7], [2, 0.6]]


def test_what_it_is_about(full: DirectoryStore, record: MakeRecord) -> None:
    full.put(record(9, encoder="other", weights="bbbb", task="rte"))
    found = contents(full)
    assert set(found.encoders) == {("pocket", None), ("other", "bbbb")}
    assert set(found.tasks) == {("sst2", None), ("cola", "beef"), ("rte", None)}


def test_alike_trials_are_neighbours(store: DirectoryStore, record: MakeRecord, tmp_path: Path) -> None:
    tasks = ["sst2", "cola", "rte"]
    for index in range(9):
        store.put(record(index, task=tasks[index % 3]))
    path = write_archive(store, contents(store), Facts(), tmp_path / "sorted.parquet")
    assert pq.read_table(path).column("task").to_pylist() == ["cola"] * 3 + ["rte"] * 3 + ["sst2"] * 3


def test_more_records_than_a_row_group(full: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palimpsest.store.archive._AT_ONCE", 3)
    path = write_archive(full, contents(full), Facts(), tmp_path / "groups.parquet")
    assert pq.read_metadata(path).num_row_groups == 3
    assert [r.id for r in open_store(path).records()] == sorted(full.ids())


def test_nothing_is_written_to_it(archive: Path, record: MakeRecord) -> None:
    read = open_store(archive)
    before = archive.read_bytes()
    with pytest.raises(StoreError, match=r"read and not added to; .* --format store --out DIR"):
        read.put(record(99))
    with pytest.raises(StoreError, match="read and not added to"):
        read.keep_weights("0" * 32, b"weights")
    with pytest.raises(StoreError, match="read and not added to"):
        open_store(archive, create=True)
    assert archive.read_bytes() == before


def test_no_store_is_made_under_the_name_of_an_archive(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="names an archive"):
        open_store(tmp_path / "new.parquet", create=True)
    with pytest.raises(MissingStore, match="there is no archive"):
        open_store(tmp_path / "new.parquet")


def test_a_directory_may_have_such_a_name(tmp_path: Path, record: MakeRecord) -> None:
    DirectoryStore.open(tmp_path / "odd.parquet", create=True).put(record())
    assert isinstance(open_store(tmp_path / "odd.parquet", create=True), DirectoryStore)


def test_the_way_back(full: DirectoryStore, archive: Path, tmp_path: Path) -> None:
    def files(store: DirectoryStore) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in store.path.glob("trials/*/*.json")}

    assert copy(open_store(archive), tmp_path / "back") == (len(full.ids()), len(full.ids()))
    back = open_store(tmp_path / "back")
    assert isinstance(back, DirectoryStore)
    assert files(back) == files(full)


def test_into_a_store_that_has_some(full: DirectoryStore, archive: Path, record: MakeRecord, tmp_path: Path) -> None:
    into = DirectoryStore.open(tmp_path / "into", create=True)
    into.put(record(0, score=0.999))  # finished already: stays
    into.put(record(50))
    copy(open_store(archive), into.path)
    assert into.ids() == full.ids() | {record(50).id}
    assert into.get(record(0).id).outcome.metrics == {"accuracy": 0.999}


class TestDamage:
    def test_not_parquet(self, tmp_path: Path) -> None:
        (tmp_path / "text.parquet").write_text("id,score\n")
        with pytest.raises(StoreError, match=r"text\.parquet is damaged, or no Parquet file"):
            open_store(tmp_path / "text.parquet")

    def test_another_kind_of_parquet(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"id": ["a"]}), tmp_path / "table.parquet")
        with pytest.raises(StoreError, match=r"no archive of records.*--format archive"):
            open_store(tmp_path / "table.parquet")

    def test_truncated(self, archive: Path) -> None:
        archive.write_bytes(archive.read_bytes()[:-20])
        with pytest.raises(StoreError, match="is damaged"):
            open_store(archive)

    def test_a_flipped_byte_is_an_error_and_not_a_missing_record(self, archive: Path) -> None:
        place = pq.read_metadata(archive).row_group(0).column(12)
        assert place.path_in_schema == "record"
        content = bytearray(archive.read_bytes())
        content[place.data_page_offset + place.total_compressed_size // 2] ^= 0xFF
        archive.write_bytes(content)
        with pytest.raises(StoreError, match="is damaged"):
            list(open_store(archive).records())

    def test_of_a_newer_version(self, archive: Path) -> None:
        table = pq.read_table(archive)
        pq.write_table(table.replace_schema_metadata({b"palimpsest-archive": b"2"}), archive)
        with pytest.raises(StoreError, match="a newer version: format 2"):
            open_store(archive)

    def test_a_record_that_is_none(self, archive: Path) -> None:
        rows = pq.read_table(archive)
        texts = rows.column("record").to_pylist()
        changed = rows.set_column(12, "record", pa.array(["{}", *texts[1:]]))
        pq.write_table(changed.replace_schema_metadata(rows.schema.metadata), archive)
        read = open_store(archive)
        assert len(list(read.records())) == len(texts) - 1
        (problem,) = read.problems
        assert problem.reason == "not a record: there is no format number"

    def test_facts_that_cannot_be_read(self, archive: Path) -> None:
        meta = {b"palimpsest-archive": b"1", b"palimpsest-facts": b'{"encoders": [{}], "tasks": []}'}
        pq.write_table(pq.read_table(archive).replace_schema_metadata(meta), archive)
        with pytest.raises(StoreError, match=r"results\.parquet is damaged: what it says of encoders"):
            _ = open_store(archive).facts


class TestWriting:
    def test_nothing_to_write(self, store: DirectoryStore, tmp_path: Path) -> None:
        with pytest.raises(NothingFinished, match="nothing to archive"):
            write_archive(store, contents(store), Facts(), tmp_path / "empty.parquet")

    def test_another_ending(self, full: DirectoryStore, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"end its name in \.parquet"):
            write_archive(full, contents(full), Facts(), tmp_path / "results.zip")

    def test_what_goes_wrong_leaves_the_old_file(
        self, full: DirectoryStore, archive: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = archive.read_bytes()

        def full_disk(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full_disk)
        with pytest.raises(StoreError, match="No space left on device"):
            write_archive(full, contents(full), Facts(), archive)
        assert archive.read_bytes() == before
        assert [p.name for p in archive.parent.iterdir() if p.is_file()] == [archive.name]


class TestFacts:
    def test_they_come_back(self, archive: Path) -> None:
        assert open_store(archive).facts == Facts((TINY,), (REVIEWS,))
        task = open_store(archive).facts.tasks[0]
        assert list(unpack(task.answers)) == [0, 1, 1]

    def test_other_stores_have_none(self, full: Store) -> None:
        assert full.facts == Facts()

    @pytest.mark.parametrize(
        "ref", ["tiny", "tiny@aaaa1111", "tiny@aa", "/gone/models/tiny", "./tiny", "../x/tiny", "a/b/tiny"]
    )
    def test_an_encoder_by_name(self, ref: str) -> None:
        assert Facts((TINY,)).encoder(ref) == TINY

    @pytest.mark.parametrize("ref", ["tin", "tiny@bb", "org/tiny", "/models/other"])
    def test_an_encoder_that_is_not_known(self, ref: str) -> None:
        assert Facts((TINY,)).encoder(ref) is None

    def test_two_encoders_of_a_name(self) -> None:
        other = EncoderIdentity("tiny", "bbbb2222", 4, 2)
        facts = Facts((TINY, other))
        with pytest.raises(SpecError, match=r"any of tiny@aaaa1111, tiny@bbbb2222; say which with --model"):
            facts.encoder("tiny")
        assert facts.encoder("tiny@b") == other

    def test_the_official_data_are_meant_where_there_are_others(self) -> None:
        def version(data: str | None) -> TaskFacts:
            return TaskFacts("sst2", data, 10, 5, "classification", False, ("0", "1"), "accuracy")

        assert Facts(tasks=(version("a"), version(None))).task("sst2") == version(None)
        assert Facts(tasks=(version("a"),)).task("sst2") == version("a")
        assert Facts().task("sst2") is None
        with pytest.raises(SpecError, match=r"sst2 on 2 data sets \(fingerprints a, b\); .*--data DIR"):
            Facts(tasks=(version("a"), version("b"))).task("sst2")


def test_trials_after_others_come_back(store: DirectoryStore, record: MakeRecord, tmp_path: Path) -> None:
    parent: Trial = record(0).trial
    store.put(record(1, task="rte", after=parent))
    path = write_archive(store, contents(store), Facts(), tmp_path / "after.parquet")
    (read,) = open_store(path).records()
    assert read.trial.after == parent
