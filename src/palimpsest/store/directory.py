"""A store in a directory: one small JSON file per trial, any number of writers, no locks."""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from palimpsest.errors import MissingStore, StoreError
from palimpsest.store.base import Note, Problem, Status, Store, is_identity
from palimpsest.store.record import Record

MARKER = "palimpsest-store.json"
FORMAT = 1

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class DirectoryStore(Store):
    """Records in ``PATH/trials/ab/abcdef….json``; the marker ``PATH/palimpsest-store.json`` tells a store apart.

    Damaged files that a new record replaces are moved to ``PATH/damaged/``. Names that begin with a dot are
    unfinished writes; they are ignored. ``PATH/running/`` and ``PATH/studies/`` hold notes for those who watch a run
    (see :mod:`palimpsest.store.running`); no result depends on them.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._folder = str(self._trials)

    @classmethod
    def open(cls, path: str | os.PathLike[str], create: bool = False) -> DirectoryStore:
        """The store in this directory. With `create`, a missing or empty directory becomes one."""
        store = cls(Path(path))
        with store._reporting("open"):
            if not store.path.exists():
                if not create:
                    raise MissingStore(f"there is no store in {path}; check the path, or run a study with it first")
                store.path.mkdir(parents=True, exist_ok=True)
            elif not store.path.is_dir():
                raise StoreError(f"{path} is a file; a store is a directory, or an archive (.parquet)")
            if not store._marker.exists():
                others = [p.name for p in store.path.iterdir() if not p.name.startswith(f".{MARKER}.")]
                if others and not store._marker.exists():  # somebody may just have made it a store
                    raise StoreError(
                        f"{path} is not a store: it has no {MARKER}, but other files ({sorted(others)[0]}, …). "
                        "Give an empty or a new directory"
                    )
                if not others and not create:
                    raise MissingStore(f"there is no store in {path}: the directory is empty")
                with store._temporary(store._marker, json.dumps({"format": FORMAT}) + "\n") as temporary:
                    temporary.replace(store._marker)
            store._check_format()
            if create:
                store._trials.mkdir(exist_ok=True)
        return store

    def __str__(self) -> str:
        return str(self.path)

    @property
    def _marker(self) -> Path:
        return self.path / MARKER

    @property
    def _trials(self) -> Path:
        return self.path / "trials"

    def _weights(self, id: str) -> Path:
        return self.path / "weights" / f"{id}.safetensors"

    def keep_weights(self, id: str, content: bytes) -> None:
        file = self._weights(id)
        with self._reporting("write to"):
            file.parent.mkdir(exist_ok=True)
            with self._temporary(file, content) as temporary:
                temporary.replace(file)

    def weights(self, id: str) -> bytes | None:
        with self._reporting("read"):
            try:
                return self._weights(id).read_bytes()
            except FileNotFoundError:
                return None

    def has_weights(self, id: str) -> bool:
        return self._weights(id).is_file()

    def drop_weights(self, id: str) -> None:
        with self._reporting("write to"):
            self._weights(id).unlink(missing_ok=True)

    def _note(self, kind: str, name: str) -> Path:
        return self.path / kind / f"{name}.json"

    def write_note(self, kind: str, name: str, content: bytes) -> None:
        file = self._note(kind, name)
        with self._reporting("write to"):
            file.parent.mkdir(exist_ok=True)
            with self._temporary(file, content, durable=False) as temporary:
                temporary.replace(file)

    def notes(self, kind: str) -> list[Note]:
        found = []
        for file in (self.path / kind).glob("[!.]*.json"):
            with suppress(OSError):  # taken away between two looks
                found.append(Note(file.stem, time.time() - file.stat().st_mtime, file.read_bytes()))
        return sorted(found, key=lambda note: note.age)

    def drop_note(self, kind: str, name: str) -> None:
        with self._reporting("write to"):
            self._note(kind, name).unlink(missing_ok=True)

    def _check_format(self) -> None:
        try:
            format = json.loads(self._marker.read_bytes())["format"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(f'{self._marker} is damaged; its content should be {{"format": {FORMAT}}}') from None
        if not isinstance(format, int) or format > FORMAT:
            raise StoreError(
                f"{self.path} is a store of a newer version: format {format}; this Palimpsest reads up to {FORMAT}"
            )

    def place(self, id: str) -> str:
        return f"{self._folder}{os.sep}{id[:2]}{os.sep}{id}.json"  # not a Path: that costs as much as reading the file

    def ids(self) -> set[str]:
        found: set[str] = set()
        with self._reporting("read"):
            for folder in self._scan(self._trials):
                if folder.is_dir():
                    found |= self._ids_in(folder)
        return found

    def _ids_in(self, folder: os.DirEntry[str]) -> set[str]:
        found = set()
        for name in (entry.name for entry in self._scan(folder.path)):
            stem, dot, suffix = name.rpartition(".")
            if name.startswith(".") or (dot, suffix) != (".", "json"):
                continue
            if is_identity(stem) and stem[:2] == folder.name:
                found.add(stem)
            else:
                path = os.path.join(folder.path, name)  # noqa: PTH118 (a hot loop over scandir's strings)
                self._problems[path] = Problem(path, "foreign: not named by the identity of a trial")
        return found

    def _scan(self, folder: Path | str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except FileNotFoundError:
            if not self._marker.exists():
                raise
            return []  # a store without its first trial, or another process is just making the folder
        except PermissionError as error:
            self._problems[str(folder)] = Problem(str(folder), f"unreadable: {error.strerror}")
            return []

    def _read(self, id: str) -> bytes:
        try:
            with open(self.place(id), "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise KeyError(id) from None
        except OSError as error:
            raise StoreError(f"unreadable: {error.strerror}") from None

    def put(self, record: Record) -> None:
        """Keep a record; survives a crash of the process or the machine at any instant.

        The bytes reach the disk under a temporary name before the record's own name appears, and that name appears
        in one step which never overwrites another file: a reader sees the whole record or none, the first of two
        writers wins, and a crash leaves at most a temporary file behind.
        """
        text = record.to_json() + "\n"
        file = Path(self.place(record.id))
        with self._reporting("write to"):
            if not self._marker.exists():
                raise StoreError(f"the store {self.path} has been removed; finished trials are no longer being kept")
            file.parent.mkdir(parents=True, exist_ok=True)
            with self._temporary(file, text) as temporary:
                while not _rename_without_overwriting(temporary, file):
                    if self._is(file, record.id, "finished"):
                        return
                    self._clear(file, record.id)
            _sync_directory(file.parent)

    def _is(self, file: Path, id: str, status: Status) -> bool:
        try:
            held = Record.from_json(file.read_bytes())
        except (StoreError, OSError):
            return False
        return held.id == id and held.outcome.status == status

    def _clear(self, file: Path, id: str) -> None:
        """Make way for a record: drop a failed one, move a damaged or foreign one to ``damaged/``.

        Between looking and moving, another writer may have put a finished record there, so what was moved is looked
        at again, and a finished record goes back.
        """
        taken = _temporary_name(file)
        try:
            file.rename(taken)
        except FileNotFoundError:
            return
        if self._is(taken, id, "finished"):
            if not _rename_without_overwriting(taken, file):
                taken.unlink()
            return
        if self._is(taken, id, "failed"):
            taken.unlink()
            return
        damaged = self.path / "damaged"
        damaged.mkdir(exist_ok=True)
        number = 1
        while not _rename_without_overwriting(taken, damaged / f"{file.name}.{number}"):
            number += 1

    @contextmanager
    def _temporary(self, file: Path, content: str | bytes, durable: bool = True) -> Iterator[Path]:
        """A file beside `file` with this content, on disk when the block begins and gone when it ends."""
        path = _temporary_name(file)
        try:
            with open(path, "xb") as stream:
                stream.write(content.encode() if isinstance(content, str) else content)
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            yield path
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"cannot {what} the store {self.path}: {error.strerror or error}. What is finished there is intact; "
                "mend this and run the same command again"
            ) from error


def _temporary_name(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}-{secrets.token_hex(4)}")


def _rename_without_overwriting(source: Path, target: Path) -> bool:
    """Give a file another name, unless that name is taken. In one step, wherever the file system has hard links."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if target.exists():
            return False
        source.replace(target)
        return True
    source.unlink()
    return True


def _sync_directory(folder: Path) -> None:
    """Make a new name in a directory durable; some network file systems refuse this, and need it less."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
