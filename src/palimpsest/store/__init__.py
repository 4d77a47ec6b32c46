"""Where results live: facts, written once under the identity of their trial."""

from __future__ import annotations

import os
import re
from pathlib import Path

from palimpsest.errors import StoreError
from palimpsest.store.base import Problem, Status, Store
from palimpsest.store.directory import DirectoryStore
from palimpsest.store.record import Record

__all__ = ["DirectoryStore", "Problem", "Record", "Status", "Store", "open_store"]


def open_store(where: str | os.PathLike[str], create: bool = False) -> Store:
    """The store at a path or URL; with `create`, a missing or empty place becomes one that can be written to.

    A name that ends in ``.parquet`` is that of an archive, which is only read.
    """
    text = os.fspath(where)
    if match := re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", text):
        if match[1].lower() != "file":
            from palimpsest.store.remote import RemoteStore

            return RemoteStore.open(text, create)
        text = text[match.end() :]
    if text.endswith(".parquet"):  # pyarrow is imported only where it is needed
        from palimpsest.store.archive import ArchiveStore, is_archive, refusal

        if is_archive(text):
            if create:
                raise refusal(text)
            return ArchiveStore.open(text)
    if not text:
        raise StoreError("the store has no path; give a directory or a URL")
    return DirectoryStore.open(Path(text).expanduser(), create)
