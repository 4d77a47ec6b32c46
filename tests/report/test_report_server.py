"""The live server, without a browser."""

from __future__ import annotations

import itertools
import json
import os
import time
from typing import Any

import anyio
import pytest
from page_material import Made, failed, made_up
from starlette.testclient import TestClient

from palimpsest.errors import PalimpsestError
from palimpsest.execution.heartbeat import Heartbeat
from palimpsest.execution.worker import Event
from palimpsest.report.server import Watched, application, listen
from palimpsest.store.running import STALE, drivers, remembered


@pytest.fixture
def watched(made: Made) -> Watched:
    return Watched(made.plan, made.store, str(made.place), "palimpsest run small")


@pytest.fixture
def client(watched: Watched) -> TestClient:
    return TestClient(application(watched), base_url="http://127.0.0.1:8765")


def test_the_page_and_its_parts(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for name in ("page.css", "figures.js", "page.js", "live.js", "plotly.js", "start.js"):
        assert f'"/assets/{name}"' in page.text
        assert client.get(f"/assets/{name}").status_code == 200
    assert client.get("/assets/../server.py").status_code == 404
    assert client.get("/assets/server.py").status_code == 404


def test_nothing_can_be_changed(client: TestClient) -> None:
    for method, path in itertools.product(["POST", "PUT", "DELETE", "PATCH"], ["/", "/events", "/assets/page.js"]):
        assert client.request(method, path).status_code == 405


def test_requests_for_other_hosts_are_refused(client: TestClient) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_events_tell_what_a_page_does_not_know(made: Made, watched: Watched) -> None:
    async def listen() -> list[tuple[str, Any]]:
        stream = watched.events(since=0)
        seen = [await anext(stream), await anext(stream)]
        made.store.put(made_up(made.missing[0]))
        assert watched.look()
        watched._listeners.copy().pop().set()
        seen += [await anext(stream), await anext(stream)]
        await stream.aclose()  # type: ignore[attr-defined]
        return [_parsed(event) for event in seen]

    hello, first, changes, now = anyio.run(listen)
    assert [kind for kind, _ in (hello, first, changes, now)] == ["hello", "now", "changes", "now"]
    assert made.missing[0].trial.identity in changes[1][0]["points"][0][1]["id"]
    assert watched.changes(since=watched.version) == []
    assert not watched.look()


def _parsed(event: str) -> tuple[str, Any]:
    fields = dict(line.split(": ", 1) for line in event.strip().splitlines())
    return fields["event"], json.loads(fields["data"])


def test_a_heartbeat_comes_and_goes(made: Made) -> None:
    trials = [cell.trial for cell in made.missing]
    seen: list[Event] = []
    with Heartbeat(made.store, made.plan, trials) as beat:
        emit = beat.watch(seen.append)
        emit(Event("begin", trials=tuple(trials[:3])))
        emit(Event("losses", curves={trials[0].identity: [(1, 0.7)], "0" * 32: [(1, 0.1)]}))
        emit(Event("trial", trial=trials[1], outcome=made_up(made.missing[1]).outcome))
        emit(Event("trial", trial=trials[2], outcome=failed(made.missing[2], "x").outcome))
        content = beat._content()
        assert (content["total"], content["finished"], content["failed"]) == (6, 1, 1)
        assert content["running"] == [{"id": trials[0].identity, "task": "cola", "curve": [(1, 0.7)]}]
        end = time.monotonic() + 20
        while not (notes := drivers(made.store)) and time.monotonic() < end:
            time.sleep(0.01)
        assert notes[0]["studies"] == ["small"]
    assert len(seen) == 4
    assert drivers(made.store) == []
    known = remembered(made.store)
    assert known is not None
    assert known[0].canonical == made.plan.studies[0].canonical


def test_only_a_driver_at_the_same_trials_is_in_the_way(made: Made) -> None:
    trials = [cell.trial for cell in made.missing]
    with Heartbeat(made.store, made.plan, trials[:3]) as beat:
        assert not beat.crowded()
        with Heartbeat(made.store, made.plan, trials[3:]) as other:
            assert not beat.crowded()
            assert not other.crowded()
        with Heartbeat(made.store, made.plan, trials[2:]) as rival:
            assert beat.crowded()
            assert rival.crowded()


def test_the_note_of_a_dead_driver_is_not_believed(made: Made) -> None:
    folder = made.place / "running"
    folder.mkdir()
    note = folder / "9.json"
    note.write_text('{"started": "now", "running": []}')
    assert len(drivers(made.store)) == 1
    os.utime(note, (time.time() - STALE - 1,) * 2)
    assert drivers(made.store) == []
    (folder / "8.json").write_text("{")
    assert drivers(made.store) == []


def test_a_port_that_is_taken() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PalimpsestError, match=rf"cannot serve on 127\.0\.0\.1:{port} \(.*in use\); choose another"):
            listen("127.0.0.1", port)
