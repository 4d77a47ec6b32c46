"""What a store is, wherever it lives."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from palimpsest.errors import StoreError
from palimpsest.store.facts import Facts
from palimpsest.store.record import Record

Status = Literal["finished", "failed", "damaged"]

_FEW = 100  # to read so many files that may not exist is faster than to list all that do
_IDENTITY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Problem:
    """A file in the store that is not a record, and why. It is left where it is."""

    path: str
    reason: str


@dataclass(frozen=True)
class Note:
    """Something left in a store for whoever watches; no result depends on it."""

    name: str
    age: float  # seconds since it was written; infinite where the file system does not say
    content: bytes


def is_identity(text: str) -> bool:
    return _IDENTITY.fullmatch(text) is not None


class Store(ABC):
    """Records by the identity of their trials.

    A finished record is written once and never changed. A record that cannot be read counts as missing, so that its
    trial is run again; it is listed in `problems` and never deleted.

    An implementation says where the bytes of an identity are; everything that is about records is here.
    """

    notes_every = 2.0  # seconds between two writes of a note that is kept up to date

    def __init__(self) -> None:
        self._problems: dict[str, Problem] = {}
        self._weights_kept: dict[str, bytes] = {}

    @abstractmethod
    def ids(self) -> set[str]:
        """The identities that there is something under, by name only: fast, but some may turn out damaged."""

    @abstractmethod
    def put(self, record: Record) -> None:
        """Keep a record. One that is already finished stays as it is; a failed or damaged one makes way."""

    @abstractmethod
    def place(self, id: str) -> str:
        """Where the record of this identity is or would be, for people."""

    @abstractmethod
    def _read(self, id: str) -> bytes:
        """What is stored under this identity; KeyError when there is nothing, StoreError when it cannot be read."""

    def keep_weights(self, id: str, content: bytes) -> None:
        """Keep a trial's final weights, for as long as trials that come after it need them.

        They appear whole or not at all. An implementation that keeps them nowhere keeps them in this process.
        """
        self._weights_kept[id] = content

    def weights(self, id: str) -> bytes | None:
        """The weights kept under this identity, or None."""
        return self._weights_kept.get(id)

    def has_weights(self, id: str) -> bool:
        return id in self._weights_kept

    def drop_weights(self, id: str) -> None:
        """Let go of weights that nobody needs any more; nothing happens where there are none."""
        self._weights_kept.pop(id, None)

    def write_note(self, kind: str, name: str, content: bytes) -> None:
        """Leave or replace a note. Readers never see half of it, but it need not survive a crash.

        An implementation that has no place for notes forgets them.
        """
        del kind, name, content

    def notes(self, kind: str) -> list[Note]:
        """The notes of a kind, the newest first."""
        del kind
        return []

    def drop_note(self, kind: str, name: str) -> None:
        """Take a note away; nothing happens where there is none."""
        del kind, name

    @property
    def facts(self) -> Facts:
        """What is known here of the encoders and tasks, so that they need not be at hand to look at results."""
        return Facts()

    @property
    def problems(self) -> list[Problem]:
        """The unreadable files met so far, in the order of their paths."""
        return sorted(self._problems.values(), key=lambda p: p.path)

    def get(self, id: str) -> Record:
        """The record of this identity; a StoreError says that there is none, or why it cannot be read."""
        if not is_identity(id):
            raise StoreError(f"{id!r} is not the identity of a trial: that is 32 hexadecimal digits")
        return self._interpret(id, lambda: self._read(id))

    def _interpret(self, id: str, read: Callable[[], bytes]) -> Record:
        place = self.place(id)
        try:
            record = Record.from_json(read())
            if record.id != id:
                raise StoreError(f"foreign: it holds the trial {record.id}")
        except KeyError:
            raise StoreError(f"there is no record {id} in {self}") from None
        except StoreError as error:
            self._problems[place] = Problem(place, str(error))
            raise StoreError(f"{place}: {error}") from None
        self._problems.pop(place, None)
        return record

    def records(self, ids: Iterable[str] | None = None) -> Iterator[Record]:
        """All readable records, or those of `ids` that there are. The others are collected in `problems`."""
        for id in self._worth_reading(ids):
            try:
                yield self.get(id)
            except StoreError:
                continue  # get() has listed it among the problems, unless there is none

    def _worth_reading(self, ids: Iterable[str] | None) -> list[str]:
        """The identities to look under, in order: a few are simply tried, for many the store is listed first."""
        if ids is None:
            return sorted(self.ids())
        asked = [id for id in dict.fromkeys(ids) if is_identity(id)]
        if len(asked) <= _FEW:
            return asked
        present = self.ids()
        return [id for id in asked if id in present]

    def statuses(self, ids: Iterable[str] | None = None) -> dict[str, Status]:
        """What there is under each of these identities (by default all); those without a record are left out.

        This reads every record, because only its content tells whether a file is whole.
        """
        present = self.ids()
        asked = present if ids is None else present.intersection(ids)
        statuses: dict[str, Status] = dict.fromkeys(asked, "damaged")
        statuses.update((record.id, record.outcome.status) for record in self.records(asked))
        return statuses

    def finished_ids(self, ids: Iterable[str] | None = None) -> set[str]:
        """The identities (among `ids`) whose trials need not be run: finished, and readable."""
        return {id for id, status in self.statuses(ids).items() if status == "finished"}

    def __contains__(self, id: object) -> bool:
        """Whether there is a readable record, finished or failed."""
        return isinstance(id, str) and is_identity(id) and any(True for _ in self.records([id]))
