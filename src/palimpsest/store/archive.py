"""A store in one Parquet file: whole records, to be kept, shipped and read, not to be added to."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from palimpsest.errors import MissingStore, NothingFinished, StoreError
from palimpsest.specs.size import size_label
from palimpsest.store.base import Status, Store, is_identity
from palimpsest.store.facts import Facts, Key
from palimpsest.store.record import Record

ENDING = ".parquet"
FORMAT = 1

_META = b"palimpsest-archive"  # marks the file among others of its kind; says the format
_FACTS = b"palimpsest-facts"
_AT_ONCE = 1000  # records in a row group: so many are in memory while an archive is written
_LEVEL = 17  # of zstd: a sixth smaller than at its default, and still hundreds of records a second

_COLUMNS: dict[str, tuple[Any, Callable[[Record], Any]]] = {
    "id": (pa.string(), lambda r: r.id),
    "status": (pa.string(), lambda r: r.outcome.status),
    "encoder": (pa.string(), lambda r: r.trial.encoder),
    "weights": (pa.string(), lambda r: r.trial.weights),
    "task": (pa.string(), lambda r: r.trial.task),
    "data": (pa.string(), lambda r: r.trial.data),
    "method": (pa.string(), lambda r: r.trial.method),
    "size": (pa.string(), lambda r: size_label(r.trial.size)),
    "protocol": (pa.string(), lambda r: r.trial.protocol.name),
    "metric": (pa.string(), lambda r: r.outcome.metric or None),
    "score": (pa.float64(), lambda r: r.outcome.metrics.get(r.outcome.metric)),
    "steps": (pa.int64(), lambda r: r.outcome.steps),
    "record": (pa.large_string(), Record.to_json),
}
"""What every row has: some facts for whoever reads the file with other programs, and the record's own JSON."""

_SHORT = [name for name in _COLUMNS if name not in ("id", "score", "record")]  # columns of few values


@dataclass(frozen=True)
class Contents:
    """What goes into an archive: the records, alike ones side by side, and what they are about."""

    ids: tuple[str, ...]
    encoders: tuple[Key, ...]
    tasks: tuple[Key, ...]


def contents(store: Store, of: Iterable[str] | None = None) -> Contents:
    """The readable records of a store (or those `of` these identities), in the order in which they are archived."""
    order: list[tuple[tuple[str, ...], str]] = []
    encoders: dict[Key, None] = {}
    tasks: dict[Key, None] = {}
    for record in store.records(of):
        trial = record.trial
        encoders[trial.encoder, trial.weights] = None
        tasks[trial.task, trial.data] = None
        tasks |= dict.fromkeys((other.task, other.data) for other in trial.alongside)
        parts = (*trial.interventions, trial.seeds)
        alike = (trial.encoder, trial.task, trial.method, size_label(trial.size), trial.protocol.identity)
        order.append(((*alike, *(part.canonical_json for part in parts)), record.id))
    ids = tuple(id for _, id in sorted(order))
    return Contents(ids, tuple(sorted(encoders, key=str)), tuple(sorted(tasks, key=str)))


def write_archive(store: Store, found: Contents, facts: Facts, path: str | os.PathLike[str]) -> Path:
    """Write these records of a store into one file, which appears whole or not at all.

    An archive of that name is replaced, unless it holds trials that these are without.
    """
    path = Path(path)
    if path.suffix != ENDING:
        raise StoreError(f"{path}: an archive is a Parquet file; end its name in {ENDING}")
    if not found.ids:
        raise NothingFinished(f"there is nothing to archive: {store} has no record of what is asked for")
    lost = _held(path) - set(found.ids)
    if lost:
        raise StoreError(
            f"{path} holds {len(lost):,} trials that are not among the {len(found.ids):,} to be written: they would be "
            "lost. Give another --out, or delete the file first"
        )
    meta = {_META: str(FORMAT).encode(), _FACTS: facts.to_json()}
    schema = pa.schema([(name, kind) for name, (kind, _) in _COLUMNS.items()], metadata=meta)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": _LEVEL,
        "use_dictionary": _SHORT,
        "write_statistics": _SHORT,  # of records they would be two whole records for every page
        "write_page_checksum": True,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(unfinished, schema, **options) as writer:
            for begin in range(0, len(found.ids), _AT_ONCE):
                writer.write_table(_table(store, found.ids[begin : begin + _AT_ONCE], schema))
        with unfinished.open("rb") as stream:
            os.fsync(stream.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _held(path: Path) -> set[str]:
    """The trials of the archive at this path, if there is one that can be read."""
    try:
        return ArchiveStore.open(path).ids()
    except StoreError:
        return set()


def _table(store: Store, ids: tuple[str, ...], schema: Any) -> Any:
    records = {record.id: record for record in store.records(ids)}
    rows = [records[id] for id in ids if id in records]
    columns = [pa.array([value(row) for row in rows], kind) for kind, value in _COLUMNS.values()]
    return pa.Table.from_arrays(columns, schema=schema)


def is_archive(where: str | os.PathLike[str]) -> bool:
    """Whether a place is, or could only be, that of an archive: by its name, if there is no directory of that name."""
    text = os.fspath(where)
    return text.endswith(ENDING) and "://" not in text.removeprefix("file://") and not _path(text).is_dir()


def _path(text: str) -> Path:
    return Path(text.removeprefix("file://")).expanduser()


def refusal(where: str | os.PathLike[str]) -> StoreError:
    """Why nothing is written to an archive, and what to do."""
    return StoreError(
        f"{where} names an archive, which is read and not added to; give a directory or a URL. "
        f"An archive becomes a store again with: palimpsest export --store {where} --format store --out DIR"
    )


class ArchiveStore(Store):
    """The records of an archive. Nothing is read before it is asked for; then it is kept, as it lies in the file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        with self._reporting():
            self._meta = pq.read_metadata(path).metadata or {}
        if _META not in self._meta:
            raise StoreError(
                f"{path} is a Parquet file, but no archive of records. `palimpsest export --format archive` makes one; "
                "tables that --format parquet makes cannot be read back"
            )
        format = self._meta[_META].decode(errors="replace")
        if not format.isdecimal() or int(format) > FORMAT:
            raise StoreError(
                f"{path} is an archive of a newer version: format {format}; this Palimpsest reads up to {FORMAT}"
            )

    @classmethod
    def open(cls, where: str | os.PathLike[str]) -> ArchiveStore:
        path = _path(os.fspath(where))
        if not path.exists():
            raise MissingStore(f"there is no archive {path}; check the path")
        return cls(path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def facts(self) -> Facts:
        return self._facts

    @cached_property
    def _facts(self) -> Facts:
        try:
            return Facts.from_json(self._meta.get(_FACTS, b"{}"))
        except StoreError as error:
            raise StoreError(f"{self.path} is damaged: {error}") from None

    @cached_property
    def _rows(self) -> dict[str, tuple[int, Status]]:
        """Where each record is, and how its trial ended."""
        ids, statuses = self._columns("id", "status")
        pairs = zip(map(str, ids.to_pylist()), statuses.to_pylist(), strict=True)
        return {
            id: (row, status if status in ("finished", "failed") else "damaged")
            for row, (id, status) in enumerate(pairs)
            if is_identity(id)
        }

    @cached_property
    def _texts(self) -> Any:
        (texts,) = self._columns("record")
        return texts.cast(pa.large_string()).combine_chunks()

    def _columns(self, *names: str) -> list[Any]:
        with self._reporting():
            table = pq.read_table(self.path, columns=list(names), page_checksum_verification=True)
            return [table.column(name) for name in names]

    def place(self, id: str) -> str:
        return f"{self.path}, trial {id}"

    def ids(self) -> set[str]:
        return set(self._rows)

    def statuses(self, ids: Iterable[str] | None = None) -> dict[str, Status]:
        """As :meth:`Store.statuses`, from the column of this name: the file's checksums say whether it is whole."""
        asked = self._rows if ids is None else [id for id in dict.fromkeys(ids) if id in self._rows]
        return {id: self._rows[id][1] for id in asked}

    def records(self, ids: Iterable[str] | None = None) -> Iterator[Record]:
        """As :meth:`Store.records`; but a file that is damaged is an error, and not so many missing records."""
        _ = self._texts
        yield from super().records(ids)

    def _read(self, id: str) -> bytes:
        row, _ = self._rows[id]
        text = self._texts[row].as_py()
        return (text or "").encode()

    def put(self, record: Record) -> None:
        del record
        raise refusal(self.path)

    def keep_weights(self, id: str, content: bytes) -> None:
        del id, content
        raise refusal(self.path)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, KeyError) as error:
            if isinstance(error, OSError) and error.strerror:
                raise StoreError(f"cannot read {self.path}: {error.strerror}") from None
            reason = " ".join(str(error).split())[:200]
            raise StoreError(f"{self.path} is damaged, or no Parquet file: {reason}") from None
