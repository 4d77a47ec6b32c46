"""A tidy table as a file that other programs read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from palimpsest.errors import StoreError, UnknownName

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
