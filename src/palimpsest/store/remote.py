"""A store behind a URL (``s3://…`` and whatever else fsspec knows): one small object per trial, no locks."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import fsspec

from palimpsest.errors import MissingStore, StoreError
from palimpsest.store.base import Note, Problem, Store, is_identity
from palimpsest.store.directory import FORMAT, MARKER
from palimpsest.store.record import Record

_AT_ONCE = 256  # objects asked for together: a request takes long, but many can be under way
_EXTRAS = {"s3": "s3", "s3a": "s3"}


class RemoteStore(Store):
    """Records in ``URL/trials/ab/abcdef….json``, as in a directory.

    An object appears whole or not at all, and only where there was none, so the first of two writers wins. Object
    stores cannot rename; a record that takes the place of a failed or damaged one overwrites it, a damaged one after a
    copy of it has been put into ``URL/damaged/``. A failed record never overwrites a readable one: at worst, then, a
    finished record is replaced by a finished record of the same trial.

    Credentials and the address of the service come from where the file system's own library looks for them
    (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``~/.aws`` …); nothing of them is kept or printed.
    """

    notes_every = 10.0  # each is a request, and somebody pays for it

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url.rstrip("/")
        self._fs, self._root = _file_system(self.url)

    @classmethod
    def open(cls, url: str, create: bool = False) -> RemoteStore:
        """The store at this URL. With `create`, a place where there is nothing becomes one; buckets are not made."""
        store = cls(url)
        with store._reporting("open"):
            if not store._fs.exists(store._marker):
                others = store._anything()
                if others and not store._fs.exists(store._marker):  # somebody may just have made it a store
                    raise StoreError(f"{url} is not a store: it has no {MARKER}, but other objects ({others}, …)")
                if not others and not create:
                    raise MissingStore(f"there is no store in {url}; check the address, or run a study with it first")
                if not others:
                    store._fs.pipe_file(store._marker, (json.dumps({"format": FORMAT}) + "\n").encode())
            store._check_format()
        return store

    def __str__(self) -> str:
        return self.url

    @property
    def _marker(self) -> str:
        return f"{self._root}/{MARKER}"

    def _anything(self) -> str | None:
        try:
            listing = self._fs.ls(self._root, detail=False)
        except FileNotFoundError:
            return None
        names = sorted(
            path.rstrip("/").rpartition("/")[2] for path in listing if path.strip("/") != self._root.strip("/")
        )
        return names[0] if names else None

    def _check_format(self) -> None:
        try:
            format = json.loads(self._fs.cat_file(self._marker))["format"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(f'{self.url}/{MARKER} is damaged; it should be {{"format": {FORMAT}}}') from None
        if not isinstance(format, int) or format > FORMAT:
            raise StoreError(
                f"{self.url} is a store of a newer version: format {format}; this Palimpsest reads up to {FORMAT}"
            )

    def place(self, id: str) -> str:
        return f"{self.url}/trials/{id[:2]}/{id}.json"

    def _path(self, id: str) -> str:
        return f"{self._root}/trials/{id[:2]}/{id}.json"

    def _weights(self, id: str) -> str:
        return f"{self._root}/weights/{id}.safetensors"

    def keep_weights(self, id: str, content: bytes) -> None:
        with self._reporting("write to"):
            self._fs.pipe_file(self._weights(id), content)

    def weights(self, id: str) -> bytes | None:
        with self._reporting("read"):
            try:
                return bytes(self._fs.cat_file(self._weights(id)))
            except FileNotFoundError:
                return None

    def has_weights(self, id: str) -> bool:
        with self._reporting("read"):
            return bool(self._fs.exists(self._weights(id)))

    def drop_weights(self, id: str) -> None:
        with self._reporting("write to"), suppress(FileNotFoundError):
            self._fs.rm_file(self._weights(id))

    def _note(self, kind: str, name: str) -> str:
        return f"{self._root}/{kind}/{name}.json"

    def write_note(self, kind: str, name: str, content: bytes) -> None:
        with self._reporting("write to"):
            self._fs.pipe_file(self._note(kind, name), content)

    def notes(self, kind: str) -> list[Note]:
        found = []
        with self._reporting("read"):
            for path in self._fs.find(f"{self._root}/{kind}"):
                name, _, suffix = path.rpartition("/")[2].rpartition(".")
                if suffix == "json":
                    with suppress(FileNotFoundError):  # taken away between two requests
                        found.append(Note(name, self._age(path), bytes(self._fs.cat_file(path))))
        return sorted(found, key=lambda note: note.age)

    def _age(self, path: str) -> float:
        try:
            written: datetime = self._fs.modified(path)
        except NotImplementedError:
            return math.inf
        written = written if written.tzinfo else written.replace(tzinfo=UTC)
        return (datetime.now(UTC) - written).total_seconds()

    def drop_note(self, kind: str, name: str) -> None:
        with self._reporting("write to"), suppress(FileNotFoundError):
            self._fs.rm_file(self._note(kind, name))

    def ids(self) -> set[str]:
        found = set()
        with self._reporting("read"):
            for path in self._fs.find(f"{self._root}/trials"):
                folder, name = path.split("/")[-2:]
                stem, _, suffix = name.rpartition(".")
                if suffix == "json" and is_identity(stem) and stem[:2] == folder:
                    found.add(stem)
                elif suffix == "json" and not name.startswith("."):
                    place = f"{self.url}/trials/{folder}/{name}"
                    self._problems[place] = Problem(place, "foreign: not named by the identity of a trial")
        return found

    def records(self, ids: Iterable[str] | None = None) -> Iterator[Record]:
        wanted = self._worth_reading(ids)
        for begin in range(0, len(wanted), _AT_ONCE):
            some = wanted[begin : begin + _AT_ONCE]
            with self._reporting("read"):
                found = self._fs.cat([self._path(id) for id in some], on_error="return")
                for error in found.values():
                    if isinstance(error, Exception) and not isinstance(error, FileNotFoundError | PermissionError):
                        raise error
            for id in some:
                try:
                    yield self._interpret(id, partial(_content, id, found[self._path(id)]))
                except StoreError:
                    continue  # listed among the problems, unless there is none

    def _read(self, id: str) -> bytes:
        path = self._path(id)
        return _content(id, self._fs.cat([path], on_error="return")[path])

    def put(self, record: Record) -> None:
        text = (record.to_json() + "\n").encode()
        path = self._path(record.id)
        with self._reporting("write to"):
            if not self._fs.exists(self._marker):
                raise StoreError(f"the store {self.url} has been removed; finished trials are no longer being kept")
            try:
                self._fs.pipe_file(path, text, mode="create")
            except FileExistsError:
                self._replace(record, path, text)

    def _replace(self, record: Record, path: str, text: bytes) -> None:
        content = self._fs.cat_file(path)
        try:
            held = Record.from_json(content)
        except StoreError:
            held = None
        if held is None or held.id != record.id:
            name = f"{record.id}.json.{hashlib.sha256(content).hexdigest()[:12]}"
            self._fs.pipe_file(f"{self._root}/damaged/{name}", content)
        elif held.outcome.status == "finished" or record.outcome.status == "failed":
            return
        self._fs.pipe_file(path, text)

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # what a service raises depends on its library
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(
                f"cannot {what} the store {self.url}: {reason}. What is finished there is intact; "
                "mend this and run the same command again"
            ) from error


def _content(id: str, found: bytes | Exception) -> bytes:
    if isinstance(found, FileNotFoundError):
        raise KeyError(id)
    if isinstance(found, Exception):
        raise StoreError(f"unreadable: {found}")
    return found


def _file_system(url: str) -> tuple[Any, str]:
    scheme = urlsplit(url).scheme
    if "@" in urlsplit(url).netloc:
        raise StoreError("a store's address holds no user and no password; put them where the service's library looks")
    try:
        system, root = fsspec.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        advice = f"pip install 'palimpsest-lm[{extra}]'" if extra else str(error)
        raise StoreError(f"stores on {scheme}:// need another package: {advice}") from None
    except ValueError as error:
        raise StoreError(f"{url}: stores on {scheme}:// are not supported ({error})") from None
    return system, str(root).rstrip("/")
