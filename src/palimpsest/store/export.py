"""What leaves a store: a tidy table as a file that other programs read, or records that go to another store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from palimpsest.errors import StoreError, UnknownName
from palimpsest.store import Store, open_store

if TYPE_CHECKING:
    import pandas as pd


def _csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, encoding="utf-8", lineterminator="\n")


def _parquet(frame: pd.DataFrame, path: Path) -> None:
    frame.to_parquet(path, index=False)


_WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {"csv": _csv, "parquet": _parquet}


def export(frame: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write a table as CSV or Parquet, by the ending of the name. A file of that name is replaced in one step."""
    path = Path(path)
    ending = path.suffix.removeprefix(".").lower()
    if ending not in _WRITERS:
        raise UnknownName("kind of file", ending, _WRITERS, hint=f"({path}: end the name in .csv or .parquet)")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _WRITERS[ending](frame, unfinished)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def copy(source: Store, target: str | os.PathLike[str], ids: Iterable[str] | None = None) -> tuple[int, int]:
    """Put the readable records of a store (or those of `ids`) into another; how many they are, and how many are new."""
    into = open_store(target, create=True)
    before = into.ids()
    count = new = 0
    for record in source.records(ids):
        into.put(record)
        count += 1
        new += record.id not in before
    return count, new
