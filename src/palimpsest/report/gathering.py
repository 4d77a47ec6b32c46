"""A store's records in memory, kept up to date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from palimpsest.errors import StoreError
from palimpsest.store import Problem, Record, Store


class Gathered(Store):
    """The records of some trials, read once each, without their curves and predictions.

    It is a store itself, so that tables and claims can be computed from it without reading the files again; but
    nothing is written through it.
    """

    def __init__(self, store: Store, ids: Iterable[str]) -> None:
        super().__init__()
        self.source, self._wanted = store, frozenset(ids)
        self._held: dict[str, Record] = {}
        self._stamps: dict[str, int] = {}  # of the files that may still change: failed and damaged ones

    def refresh(self) -> set[str]:
        """Read what is new; returns the identities whose records have changed."""
        changed = set()
        for id in self._wanted & self.source.ids():
            held = self._held.get(id)
            if held is not None and held.outcome.status == "finished":
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
        return changed

    def _stamp(self, id: str) -> int:
        try:
            return Path(self.source.place(id)).stat().st_mtime_ns
        except OSError:
            return 0

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
