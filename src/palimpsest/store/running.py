"""What goes on in a store right now: notes that drivers leave beside the records, for whoever watches.

``PATH/running/<pid>-<random>.json`` is rewritten by a driver every two seconds while it works and removed when it ends;
one that is older than `STALE` was left by a driver that was killed, and is not believed. A study's own note,
``PATH/studies/<identity>.json``,
says which study was run, so that a store can be shown without being told what it is about.

Nothing depends on these notes: results are in the records alone, and a note that cannot be written is left out.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from palimpsest.errors import PalimpsestError
from palimpsest.specs.study import Study
from palimpsest.store.base import Store
from palimpsest.store.directory import DirectoryStore

STALE = 60.0  # seconds after which a driver that gives no sign of life is taken for dead


def notes_folder(store: Store, kind: str) -> Path | None:
    """Where a store keeps its notes of this kind; None for stores that are no directory."""
    return store.path / kind if isinstance(store, DirectoryStore) else None


def write_note(path: Path, content: dict[str, Any]) -> None:
    """Replace a note in one step, so that a reader never sees half of it. Not synced: it need not survive a crash."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        unfinished.replace(path)


def drivers(store: Store) -> list[dict[str, Any]]:
    """The notes of the drivers that are at work, the oldest driver first."""
    folder = notes_folder(store, "running")
    found = [note for path in _files(folder) if (note := _fresh(path)) is not None]
    return sorted(found, key=lambda note: str(note.get("started")))


def remember(store: Store, studies: Sequence[Study], data: Path | None) -> None:
    """Note which studies are run with this store."""
    folder = notes_folder(store, "studies")
    for study in studies:
        if folder is not None:
            content = {"study": study.model_dump(mode="json"), "data": str(data) if data else None}
            write_note(folder / f"{study.identity}.json", content)


def remembered(store: Store) -> tuple[Study, Path | None] | None:
    """The study that was last run with this store, and the directory of its data."""
    newest = sorted(_files(notes_folder(store, "studies")), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest:
        content = _content(path)
        with suppress(PalimpsestError):  # from another version: as if it were not there
            if content is not None:
                study = Study.parse(content.get("study"), str(path))
                return study, Path(content["data"]) if content.get("data") else None
    return None


def _files(folder: Path | None) -> list[Path]:
    return [p for p in folder.glob("*.json") if not p.name.startswith(".")] if folder and folder.is_dir() else []


def _fresh(path: Path) -> dict[str, Any] | None:
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        return None
    return _content(path) if age < STALE else None


def _content(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
