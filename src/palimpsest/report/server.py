"""The page, live: it follows a store while a study runs, and tells open pages what is new.

Read-only: there is no request that changes anything. The store is looked at only while somebody looks at the page, and
never for more than one hundredth of the time, because it may lie on the machine that trains.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from palimpsest.errors import PalimpsestError
from palimpsest.execution.plan import Plan
from palimpsest.report.document import LIVE_POLICY, SCRIPTS, asset, plotly_source, served
from palimpsest.report.page import gather, payload, study_pages
from palimpsest.store import Store
from palimpsest.store.running import drivers

_SHARE = 100  # a look that took a second is followed by so many seconds of rest
_REST = (1.0, 30.0)  # but at least and at most so many
_SILENCE = 15.0  # seconds after which a comment keeps the connection open
_HEADERS = {
    "Content-Security-Policy": LIVE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Watched:
    """A plan's results as they stand, with a version that rises with every change."""

    def __init__(self, plan: Plan, store: Store, place: str, command: str) -> None:
        self._store, self._place, self._command = store, place, command
        self._gathered = gather(plan, store)
        self.pages = study_pages(plan, self._gathered)
        self.server = secrets.token_hex(6)  # another start of the server may show another study
        self.version = 0
        self.now = self._now()
        self._changed: dict[str, int] = {}  # trial → the version in which it changed
        self._listeners: set[anyio.Event] = set()
        self._watchers = 0
        self._closing = False

    def look(self) -> bool:
        """Read what is new; whether there was anything."""
        changed = self._gathered.refresh()
        now = self._now()
        if not changed and now == self.now:
            return False
        self.now = now
        self.version += 1
        for page in self.pages:
            page.forget(changed)
        self._changed |= dict.fromkeys(changed, self.version)
        return True

    def _now(self) -> dict[str, Any]:
        notes = drivers(self._store)
        running = [trial for note in notes for trial in note.get("running", [])]
        ours = {id for page in getattr(self, "pages", []) for id in page.points.by_trial}
        kept = [{name: v for name, v in note.items() if name not in ("running", "sample")} for note in notes]
        return {"drivers": kept, "running": [r for r in running if not ours or r.get("id") in ours]}

    def payload(self) -> dict[str, Any]:
        """The whole page as it stands."""
        live = {"server": self.server, "version": self.version, "now": self.now}
        return payload(self.pages, self._place, self._command, judged=False) | {"live": live}

    def changes(self, since: int) -> list[dict[str, Any]]:
        """What is different from an earlier version."""
        ids = {id for id, version in self._changed.items() if version > since}
        return [found for page in self.pages if (found := page.changes(ids))]

    def close(self) -> None:
        """Let go of all who listen: the server is about to end."""
        self._closing = True
        for listener in self._listeners:
            listener.set()

    async def follow(self) -> None:
        """Look again and again, as long as somebody watches."""
        while True:
            if not self._watchers:
                await anyio.sleep(0.2)
                continue
            begin = time.process_time()
            if await anyio.to_thread.run_sync(self.look):
                for listener in self._listeners:
                    listener.set()
            spent = time.process_time() - begin
            await anyio.sleep(min(max(spent * _SHARE, _REST[0]), _REST[1]))

    async def events(self, since: int) -> AsyncIterator[str]:
        """Server-sent events: first what a page of this version does not know, then everything new."""
        self._watchers += 1
        try:
            yield _event("hello", {"server": self.server}, since)
            sent = -1
            while not self._closing:
                news = anyio.Event()
                self._listeners.add(news)
                try:
                    if self.version != sent:
                        known, sent = max(since, sent), self.version
                        changes = await anyio.to_thread.run_sync(self.changes, known)
                        if changes:
                            yield _event("changes", changes, sent)
                        yield _event("now", self.now, sent)
                    with anyio.move_on_after(_SILENCE) as silence:
                        await news.wait()
                    if silence.cancelled_caught:
                        yield ": still here\n\n"
                finally:
                    self._listeners.discard(news)
        finally:
            self._watchers -= 1


def _event(kind: str, data: Any, version: int) -> str:
    return f"id: {version}\nevent: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def application(watched: Watched, host: str = "127.0.0.1") -> Starlette:
    """The server's addresses. Requests that name another host than this one are refused, whatever they ask for."""
    sources: dict[str, Callable[[], str]] = {name: lambda name=name: asset(name) for name in (*SCRIPTS, "page.css")}  # type: ignore[misc]
    sources |= {"plotly.js": plotly_source, "start.js": lambda: "palimpsest.plotlyIsHere();"}
    kept: dict[str, str] = {}

    def page(_: Request) -> Response:
        return HTMLResponse(served(watched.payload()), headers=_HEADERS)

    def part(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in sources:
            return PlainTextResponse("there is nothing of this name", status_code=404, headers=_HEADERS)
        kept[name] = kept.get(name) or sources[name]()
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return Response(kept[name], media_type=kind, headers=_HEADERS | {"Cache-Control": "max-age=300"})

    async def events(request: Request) -> Response:
        asked = request.headers.get("last-event-id") or request.query_params.get("since") or "0"
        since = int(asked) if asked.isdecimal() else 0
        return StreamingResponse(watched.events(since), media_type="text/event-stream", headers=_HEADERS)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watched.follow)
            yield
            tasks.cancel_scope.cancel()

    names = ["*"] if host in ("0.0.0.0", "::") else ["127.0.0.1", "localhost", "[::1]", host]
    return Starlette(
        routes=[
            Route("/", page, methods=["GET"]),
            Route("/assets/{name}", part, methods=["GET"]),
            Route("/events", events, methods=["GET"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=names)],
        lifespan=lifespan,
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, watched: Watched) -> None:
        super().__init__(config)
        self._watched = watched

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._watched.close()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """Take a port."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise PalimpsestError(
            f"cannot serve on {host}:{port} ({os.strerror(error.errno or 0)}); choose another port with --port"
        ) from None


def serve(watched: Watched, host: str, listening: socket.socket) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(application(watched, host), log_level="warning", timeout_graceful_shutdown=1)
    _Server(config, watched).run(sockets=[listening])
