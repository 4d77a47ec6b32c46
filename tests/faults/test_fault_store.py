"""The store fails in mid-run: full, read-only, broken, removed; or holds what is no record."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fault_tools import on_a_bad_disk, quick_context, results, rival, stamps

from palimpsest.errors import StoreError
from palimpsest.execution.worker import Event
from palimpsest.store import DirectoryStore


@pytest.mark.parametrize(
    ("call", "number"), [("fsync", errno.ENOSPC), ("fsync", errno.EDQUOT), ("link", errno.EROFS), ("link", errno.EIO)]
)
def test_a_disk_that_fails(
    run_study: Any, study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """A clear error, what is finished is intact, and the same command goes on when the disk is well again."""
    working, calls = getattr(os, call), [0]

    def failing(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] > 10:
            raise OSError(number, os.strerror(number))
        return working(*args)

    where = tmp_path / "store"
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(
            StoreError, match=f"cannot write to the store.*{os.strerror(number)}.*the same command again"
        ):
            run_study(study(), where)
    before = stamps(where)
    assert 0 < len(before) < 20
    assert len(results(where)) == len(before)
    run_study(study(), where)
    assert len(results(where)) == 20
    assert before.items() <= stamps(where).items()


def test_a_store_that_is_read_only_is_told_before_anything_is_trained(
    run_study: Any, study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    run_study(study(), tmp_path / "store", limit=1)
    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr("palimpsest.execution.worker.execute", lambda *_: pytest.fail("a pack was begun"))
    with pytest.raises(StoreError, match=r"cannot write to the store.*Read-only"):
        run_study(study(), tmp_path / "store")
    assert not list((tmp_path / "store" / "running").iterdir())


@pytest.mark.parametrize(
    ("how", "number"), [("full", errno.ENOSPC), ("read-only", errno.EROFS), ("limit", errno.EFBIG)]
)
def test_a_disk_that_really_fails(study: Any, tmp_path: Path, how: str, number: int) -> None:
    """A file system of 64 kB, one that becomes read-only, and a limit on the size of files: that needs no mounting."""
    mine, theirs = multiprocessing.Pipe()
    where = tmp_path / "store"
    process = quick_context().Process(target=on_a_bad_disk, args=(how, study(), where, theirs))
    process.start()
    theirs.close()
    first = mine.recv()
    if isinstance(first, str):
        process.join()
        pytest.skip(first)
    (error, leftovers, before, files), (nothing, _, after, later) = first, mine.recv()
    process.join()
    assert process.exitcode == 0
    assert error.startswith(
        f"cannot write to the store {where}: {os.strerror(number)}. What is finished there is intact"
    )
    assert "the same command again" in error
    assert 0 < len(before) < 20
    assert leftovers == []
    assert nothing == ""
    assert [status for status, *_ in after.values()] == ["finished"] * 20
    assert before.items() <= after.items()
    assert files.items() <= later.items()


def test_a_store_that_is_removed_in_mid_run(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any) -> None:
    where = tmp_path / "store"
    put, puts = DirectoryStore.put, [0]

    def remove_after_five(self: DirectoryStore, record: Any) -> None:
        if puts[0] == 5:
            shutil.rmtree(where)
        puts[0] += 1
        put(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "put", remove_after_five)
        with pytest.raises(StoreError, match="has been removed"):
            run_study(study(), where)
    assert not (where / "trials").exists()  # nobody made a store without a marker
    shutil.rmtree(where, ignore_errors=True)
    run_study(study(), where)
    assert len(results(where)) == 20


def test_records_that_are_none(run_study: Any, study: Any, tmp_path: Path) -> None:
    """Named, skipped, never deleted; their trials are run again, and no others."""
    where = tmp_path / "store"
    run_study(study(), where)
    whole, before = results(where), stamps(where)
    files = sorted(where.glob("trials/*/*.json"))
    other = files[5].read_bytes()
    harm = {files[0]: b"", files[1]: files[1].read_bytes()[:200], files[2]: other, files[3]: b"\x00\xff" * 50}
    for file, content in harm.items():
        file.write_bytes(content)
    stranger = files[4].with_name("notes.json")
    stranger.write_text("{}")
    store = DirectoryStore.open(where)
    assert len(store.finished_ids()) == 16
    assert {p.path for p in store.problems} == {*map(str, harm), str(stranger)}
    events = run_study(study(), where)
    assert {f"{e.trial.identity}.json" for e in events if e.kind == "trial"} == {file.name for file in harm}
    assert sorted(p.read_bytes() for p in (where / "damaged").iterdir()) == sorted(harm.values())
    assert stranger.read_text() == "{}"
    stranger.unlink()
    assert results(where) == whole
    untouched = {name: stamp for name, stamp in before.items() if name not in {file.name for file in harm}}
    assert untouched.items() <= stamps(where).items()


def test_two_drivers_in_one_process(run_study: Any, study: Any, planned: Any, tmp_path: Path) -> None:
    """While the first is at its first pack, the second does everything: the first then does only what was in flight."""
    from palimpsest.execution.run import run_plan
    from palimpsest.store import open_store

    where = tmp_path / "store"
    store = open_store(where, create=True)
    begun: list[tuple[Any, ...]] = []
    ended: list[Event] = []
    second: list[list[Event]] = []

    def watch(event: Event) -> None:
        if event.kind == "begin":
            begun.append(event.trials)
            if not second:
                second.append(run_study(study(), where))
        elif event.kind == "trial":
            ended.append(event)

    run_plan(planned(study(), store), store, str(where), watch, "cpu", processes=1)
    first, by_second = begun[0], stamps(where)
    assert len(begun) == 1
    assert len(first) <= 8
    assert len(ended) == 20
    assert sum(len(e.trials) for e in second[0] if e.kind == "begin") == 20
    assert len(by_second) == len(results(where)) == 20


def test_two_drivers_started_together(run_study: Any, study: Any, tmp_path: Path) -> None:
    """No damage, and what a driver begins with is what nobody had finished when it looked."""
    path, where, gate = study(trials=16), tmp_path / "store", quick_context().Barrier(2)
    told = []
    for _ in range(2):
        mine, theirs = multiprocessing.Pipe()
        process = quick_context().Process(target=rival, args=(path, where, gate, theirs))
        process.start()
        theirs.close()
        told.append((process, mine))
    begun = [mine.recv() for _, mine in told]
    for process, _ in told:
        process.join()
        assert process.exitcode == 0
    run_study(path, tmp_path / "quiet")
    assert results(where) == results(tmp_path / "quiet")
    assert not (where / "damaged").exists()
    assert not list((where / "running").iterdir())
    written = {p.stem: p.stat().st_ctime_ns for p in where.glob("trials/*/*.json")}
    tick = 20_000_000  # nanoseconds by which a file's time may lag behind the clock
    assert all(looked <= written[id] + tick for driver in begun for looked, id in driver)
    assert {id for driver in begun for _, id in driver} == set(written)
    assert all(begun)  # both had something to do, and in another order: in the same one they would do all of it twice
    assert sum(map(len, begun)) < 2 * len(written)
