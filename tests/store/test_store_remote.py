"""A store on an object store: a real S3 client over HTTP against a server on loopback, and other file systems."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from s3_server import ENVIRONMENT, free_port, serving

from palimpsest.errors import MissingStore, StoreError
from palimpsest.execution.heartbeat import Heartbeat
from palimpsest.execution.plan import Plan, Resources
from palimpsest.store import Record, Store, open_store
from palimpsest.store.remote import RemoteStore
from palimpsest.store.running import drivers, remembered
from palimpsest.studies import load

# aiobotocore leaves its connection pool to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """The file system of a server with one bucket."""
    with pytest.MonkeyPatch.context() as patch, serving() as endpoint:
        for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": endpoint}).items():
            patch.setenv(name, value)
        system = fsspec.filesystem("s3", use_listings_cache=False)
        system.mkdir("bucket")
        yield system


@pytest.fixture(params=["s3", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "s3":
        request.getfixturevalue("s3")
        return f"s3://bucket/{uuid4().hex}/results"
    return f"memory://{uuid4().hex}/results"


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url, create=True)


def _raw(url: str) -> tuple[Any, str]:
    return fsspec.url_to_fs(url, use_listings_cache=False)


def _damage(store: Store, id: str, content: bytes) -> None:
    system, path = _raw(store.place(id))
    system.pipe_file(path, content)


def test_open(url: str, record: Callable[..., Record]) -> None:
    with pytest.raises(MissingStore, match="there is no store in"):
        open_store(url)
    open_store(url + "/", create=True).put(record())
    store = open_store(url)
    assert str(store) == url
    assert store.ids() == {record().id}
    assert open_store(url, create=True).get(record().id) == record()


def test_places_that_are_no_stores(url: str) -> None:
    system, path = _raw(url)
    system.pipe_file(f"{path}/thesis.tex", b"x")
    with pytest.raises(StoreError, match=r"is not a store.*thesis\.tex"):
        open_store(url, create=True)
    system.pipe_file(f"{path}/palimpsest-store.json", b'{"format": 7}')
    with pytest.raises(StoreError, match="newer version: format 7"):
        open_store(url)
    system.pipe_file(f"{path}/palimpsest-store.json", b"[")
    with pytest.raises(StoreError, match="is damaged"):
        open_store(url)


def test_addresses_that_cannot_be(s3: Any) -> None:
    del s3
    with pytest.raises(StoreError, match="bucket"):
        open_store("s3://no-such-bucket/x", create=True)
    with pytest.raises(StoreError, match=r"gopher:// are not supported"):
        open_store("gopher://x/y")
    with pytest.raises(StoreError, match="no password") as caught:
        open_store("ftp://me:hunter2@host/x")
    assert "hunter2" not in str(caught.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "url_to_fs", missing)
    with pytest.raises(StoreError, match=r"pip install 'palimpsest-lm\[s3\]'"):
        open_store("s3://bucket/x")


def test_put_and_get(store: Store, record: Callable[..., Record]) -> None:
    for n in range(4):
        store.put(record(n, "failed" if n == 3 else "finished"))
    assert store.get(record(1).id) == record(1)
    assert store.finished_ids() == {record(n).id for n in range(3)}
    assert store.statuses([record(3).id, record(9).id]) == {record(3).id: "failed"}
    assert [r.id for r in store.records([record(n).id for n in (2, 9, 0, 2)])] == [record(2).id, record(0).id]
    assert record(9).id not in store
    with pytest.raises(StoreError, match="there is no record"):
        store.get(record(9).id)
    assert store.problems == []


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [("finished", "finished", 1), ("finished", "failed", 1), ("failed", "finished", 2), ("failed", "failed", 1)],
)
def test_a_finished_record_stays(
    store: Store, record: Callable[..., Record], first: str, second: str, kept: int
) -> None:
    store.put(record(status=first, score=0.1))
    store.put(record(status=second, score=0.2))
    assert store.get(record().id).outcome.metrics == {"accuracy": kept / 10}


def test_damaged_and_foreign_objects(store: Store, record: Callable[..., Record]) -> None:
    torn, foreign = record(0).to_json()[:99].encode(), record(5).to_json().encode()
    store.put(record(1))
    _damage(store, record(0).id, torn)
    _damage(store, record(2).id, foreign)
    _damage(store, record(3).id, b"")
    system, path = _raw(f"{store}/trials/ab/notes.json")
    system.pipe_file(path, b"{}")
    assert store.finished_ids() == {record(1).id}
    reasons = [p.reason for p in store.problems]
    assert len(reasons) == 4
    assert any("foreign: not named" in r for r in reasons)
    assert any(f"it holds the trial {record(5).id}" in r for r in reasons)
    for n in (0, 2, 3):
        store.put(record(n))
    assert store.finished_ids() == {record(n).id for n in range(4)}
    system, root = _raw(f"{store}/damaged")
    assert sorted(system.cat_file(p) for p in system.find(root)) == sorted([b"", torn, foreign])


def test_weights_are_kept_while_they_are_needed(store: Store, record: Callable[..., Record]) -> None:
    id = record().id
    assert not store.has_weights(id)
    assert store.weights(id) is None
    store.keep_weights(id, b"first")
    store.keep_weights(id, b"second")
    elsewhere = open_store(str(store))  # as a worker on another machine sees it
    assert elsewhere.has_weights(id)
    assert elsewhere.weights(id) == b"second"
    for _ in range(2):
        store.drop_weights(id)
        assert store.weights(id) is None
    assert store.ids() == set()


def test_notes_come_and_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver's sign of life is seen from elsewhere, gone with the driver, and not believed when it is old."""
    elsewhere = open_store(str(store))
    assert (drivers(elsewhere), remembered(elsewhere)) == ([], None)
    plan = Plan((load("demo")[0],), [], Resources({}, {}), {}, {})
    with Heartbeat(store, plan, []):
        deadline = time.monotonic() + 60
        while not (notes := drivers(elsewhere)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert notes[0]["studies"] == ["demo"]
        with monkeypatch.context() as patch:
            patch.setattr("palimpsest.store.running.STALE", 0.0)
            assert drivers(elsewhere) == []
    assert drivers(elsewhere) == []
    known = remembered(elsewhere)
    assert known is not None
    assert known[0].canonical == plan.studies[0].canonical
    store.write_note("running", "torn", b"{")
    assert [note.name for note in elsewhere.notes("running")] == ["torn"]
    assert drivers(elsewhere) == []
    store.drop_note("running", "never was")
    assert store.ids() == set()
    assert store.problems == []


def test_a_store_that_was_removed(store: Store, record: Callable[..., Record]) -> None:
    system, path = _raw(str(store))
    system.rm(path, recursive=True)
    with pytest.raises(StoreError, match="has been removed"):
        store.put(record())


def test_more_records_than_one_request_takes(store: Store, record: Callable[..., Record], monkeypatch: Any) -> None:
    monkeypatch.setattr("palimpsest.store.remote._AT_ONCE", 3)
    monkeypatch.setattr("palimpsest.store.base._FEW", 2)
    ids = {record(n).id for n in range(8)}
    for n in range(8):
        store.put(record(n))
    assert {r.id for r in store.records()} == ids
    assert store.finished_ids([*ids, record(20).id]) == ids


def test_a_store_that_somebody_makes_at_the_same_moment(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    del s3
    url = f"s3://bucket/{uuid4().hex}"
    look = RemoteStore._anything

    def meanwhile(self: RemoteStore) -> str | None:
        monkeypatch.setattr(RemoteStore, "_anything", look)
        open_store(url, create=True)
        return look(self)

    monkeypatch.setattr(RemoteStore, "_anything", meanwhile)
    assert open_store(url, create=True).finished_ids() == set()


def _write(url: str, records: list[Record]) -> None:
    store = open_store(url, create=True)
    for record in records:
        store.put(record)


def test_several_writers_of_the_same_trials(s3: Any, record: Callable[..., Record]) -> None:
    """One writer's trials all failed: whatever the order, the other's results win, and nothing is damaged."""
    del s3
    url = f"s3://bucket/{uuid4().hex}"
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_write, args=(url, [record(n, status) for n in range(12)]))
        for status in ("failed", "finished")
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [w.exitcode for w in writers] == [0, 0]
    store = open_store(url)
    assert store.finished_ids() == {record(n).id for n in range(12)}
    assert store.problems == []


def test_a_service_that_goes_away_and_comes_back(record: Callable[..., Record], monkeypatch: Any) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    port = free_port()
    for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}).items():
        monkeypatch.setenv(name, value)
    with serving(port):
        fsspec.filesystem("s3", use_listings_cache=False, skip_instance_cache=True).mkdir("flaky")
        store = RemoteStore("s3://flaky/x")
        store._fs = fsspec.filesystem("s3", use_listings_cache=False, skip_instance_cache=True)
        store._fs.pipe_file("flaky/x/palimpsest-store.json", json.dumps({"format": 1}).encode())
        store.put(record(0))
    for action in (lambda: store.put(record(1)), store.ids, lambda: list(store.records([record(0).id]))):
        with pytest.raises(StoreError, match=r"cannot .* the store s3://flaky/x: .*What is finished there is intact"):
            action()
    with serving(port):
        assert store.get(record(0).id) == record(0)
        store.put(record(1))
        assert store.ids() == {record(0).id, record(1).id}


def test_nothing_secret_is_stored(s3: Any, record: Callable[..., Record]) -> None:
    url = f"s3://bucket/{uuid4().hex}"
    open_store(url, create=True).put(record())
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]
    for path in s3.find(url):
        content = s3.cat_file(path).decode()
        assert all(ENVIRONMENT[name] not in content for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
