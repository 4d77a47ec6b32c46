"""What goes on in a store right now: notes that drivers leave beside the records, for whoever watches.

``running/<pid>-<random>.json`` is rewritten by a driver every few seconds while it works and removed when it ends; one
that is older than `STALE` was left by a driver that was killed, and is not believed. A study's own note,
``studies/<identity>.json``, says which study was run, so that a store can be shown without being told what it is about.

Nothing depends on these notes: results are in the records alone, and a note that cannot be written or read is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from palimpsest.errors import PalimpsestError, StoreError
from palimpsest.specs.study import Study
from palimpsest.store.base import Note, Store

STALE = 60.0  # seconds after which a driver that gives no sign of life is taken for dead


def write_note(store: Store, kind: str, name: str, content: dict[str, Any]) -> None:
    """Leave or replace a note, if that can be."""
    with suppress(StoreError):
        store.write_note(kind, name, json.dumps(content).encode())


def check_writable(store: Store) -> None:
    """Complain now, rather than after the first pack, about a store that nothing can be written to."""
    name = f"{os.getpid()}-check"
    store.write_note("running", name, b"{}")
    drop_note(store, "running", name)


def drop_note(store: Store, kind: str, name: str) -> None:
    with suppress(StoreError):
        store.drop_note(kind, name)


def drivers(store: Store) -> list[dict[str, Any]]:
    """The notes of the drivers that are at work, the oldest driver first."""
    fresh = (_content(note) for note in _notes(store, "running") if note.age < STALE)
    return sorted((note for note in fresh if note), key=lambda note: str(note.get("started")))


def in_words(note: dict[str, Any]) -> str:
    """A driver's note in words."""
    left = note.get("seconds_left")
    time_left = ""
    if isinstance(left, int):
        time_left = f", about {left} s left" if left < 120 else f", about {left // 60} min left"
    ended = f"{note.get('finished')} of {note.get('total')} trials"
    return f"running: {ended}, {note.get('trials_per_minute')} per minute{time_left}"


def remember(store: Store, studies: Sequence[Study], data: Path | None) -> None:
    """Note which studies are run with this store."""
    for study in studies:
        content = {"study": study.model_dump(mode="json"), "data": str(data) if data else None}
        write_note(store, "studies", study.identity, content)


def remembered(store: Store) -> tuple[Study, Path | None] | None:
    """The study that was last run with this store, and the directory of its data."""
    for note in _notes(store, "studies"):
        content = _content(note)
        with suppress(PalimpsestError):  # from another version: as if it were not there
            if content is not None:
                study = Study.parse(content.get("study"), f"{store}/studies/{note.name}.json")
                return study, Path(content["data"]) if content.get("data") else None
    return None


def _notes(store: Store, kind: str) -> list[Note]:
    try:
        return store.notes(kind)
    except StoreError:
        return []


def _content(note: Note) -> dict[str, Any] | None:
    try:
        content = json.loads(note.content)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
