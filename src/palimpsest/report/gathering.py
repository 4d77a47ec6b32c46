"""A store's records in memory, kept up to date."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from palimpsest.errors import StoreError
from palimpsest.store import DirectoryStore, Problem, Record, Store

_SETTLED = 2.0  # seconds after which a folder's time of change can be trusted to tell of every change
_RECENT = 10  # trials that ended last, remembered


class Gathered(Store):
    """The records of some trials, read once each, without their curves and predictions.

    It is a store itself, so that tables can be computed from it without reading the files again; but nothing is
    written through it.
    """

    def __init__(self, store: Store, ids: Iterable[str]) -> None:
        super().__init__()
        self.source, self._wanted = store, frozenset(ids)
        self._held: dict[str, Record] = {}
        self._stamps: dict[str, int] = {}  # of the files that may still change: failed and damaged ones
        self._folders: dict[str, int] = {}  # of a directory: when the folders of trials last changed
        self.recent: list[Record] = []
        """The records that came last, newest first."""

    def refresh(self) -> set[str]:
        """Read what is new; returns the identities whose records have changed."""
        changed = set()
        for id in self._wanted & (self._listed() | self._stamps.keys()):
            held = self._held.get(id)
            if held is not None and held.outcome.status == "finished":
                self._stamps.pop(id, None)
                continue
            stamp = self._stamp(id)
            if self._stamps.get(id) == stamp:
                continue
            self._stamps[id] = stamp
            try:
                record = self.source.get(id)
            except StoreError:
                continue  # listed among the store's problems; looked at again when the file changes
            self._held[id] = replace(record, outcome=replace(record.outcome, curve=(), predictions=""))
            changed.add(id)
        if changed:
            new = sorted((self._held[id] for id in changed), key=_ended, reverse=True)[:_RECENT]
            old = [record for record in self.recent if record.id not in changed]
            self.recent = sorted([*new, *old], key=_ended, reverse=True)[:_RECENT]
        return changed

    def _listed(self) -> set[str]:
        """The identities that there is something under; of a directory, only in folders that have changed."""
        if not isinstance(self.source, DirectoryStore):
            return self.source.ids()
        found: set[str] = set()
        now = time.time()
        try:
            with os.scandir(self.source.path / "trials") as entries:
                folders = {entry.path: entry.stat().st_mtime_ns for entry in entries if entry.is_dir()}
        except OSError:
            return self.source.ids()  # which says what is wrong
        for path, changed in folders.items():
            if self._folders.get(path) != changed:
                if now - changed / 1e9 > _SETTLED:
                    self._folders[path] = changed
                with os.scandir(path) as entries:
                    found |= {e.name[:-5] for e in entries if e.name.endswith(".json") and not e.name.startswith(".")}
        return found

    def _stamp(self, id: str) -> int:
        try:
            return Path(self.source.place(id)).stat().st_mtime_ns
        except OSError:
            return 0

    @property
    def failed(self) -> list[Record]:
        """The records of failed trials."""
        return [r for id in self._stamps if (r := self._held.get(id)) is not None and r.outcome.status == "failed"]

    @property
    def problems(self) -> list[Problem]:
        return self.source.problems

    def ids(self) -> set[str]:
        return set(self._held)

    def get(self, id: str) -> Record:
        if id not in self._held:
            raise StoreError(f"there is no record {id} in {self.source}")
        return self._held[id]

    def records(self, ids: Iterable[str] | None = None) -> Iterator[Record]:
        for id in sorted(self._held) if ids is None else dict.fromkeys(ids):
            if id in self._held:
                yield self._held[id]

    def put(self, record: Record) -> None:
        raise StoreError(f"the page only reads: the record {record.id} is not written through it")

    def place(self, id: str) -> str:
        return self.source.place(id)

    def _read(self, id: str) -> bytes:
        return self.get(id).to_json().encode()

    def __str__(self) -> str:
        return str(self.source)


def _ended(record: Record) -> str:
    return str(record.provenance.get("ended", ""))
