"""Tasks by name, wherever their examples are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from palimpsest.errors import DataError, UnknownName
from palimpsest.specs.task_file import TaskFile
from palimpsest.tasks import glue, hub, own, squad
from palimpsest.tasks.base import Split, Task, TaskIdentity
from palimpsest.tasks.fingerprint import fingerprint
from palimpsest.tasks.known import KNOWN, Known, find

# A key holds the size and time of the files behind it, so that a long session sees them change.
_LOADED: dict[tuple[object, ...], Task] = {}

_MINIATURES = {
    "mini-sentiment": "Is the verdict good? Built in, in the image of SST-2.",
    "mini-acceptability": "Is the sentence acceptable English? Built in, in the image of CoLA.",
    "mini-inference": "Does the sentence answer the question? Built in, in the image of QNLI.",
}


@dataclass(frozen=True)
class Row:
    """One line of the listing of tasks; the numbers of rows are those of the complete data set."""

    name: str
    kind: str
    metrics: tuple[str, ...]
    train_rows: int
    validation_rows: int
    summary: str


def names() -> list[str]:
    """All tasks that need no file of one's own."""
    from palimpsest.tasks import miniature

    return [*KNOWN, *miniature.NAMES]


def describe() -> list[Row]:
    """What `names` are."""
    from palimpsest.tasks import miniature

    rows = [Row(k.name, k.kind, k.metrics, k.train_rows, k.validation_rows, k.summary) for k in KNOWN.values()]
    for name in miniature.NAMES:
        task = load(name, None)
        summary = _MINIATURES.get(name, task.source)
        rows.append(Row(name, task.kind, task.metrics, len(task.train), len(task.validation), summary))
    return rows


def load(ref: str | TaskFile, data_dir: Path | None = None) -> Task:
    """A task by name, or made of one's own files; the same object when asked for again.

    A known task is read from `data_dir`, or else from the hub, when its splits are first looked at. Names are found
    in any spelling ("SST-2", "sst2"). Built-in tasks have no use for `data_dir`.
    """
    if isinstance(ref, TaskFile):
        return _cached((ref, *_stamp(ref.train), *_stamp(ref.validation)), lambda: own.read(ref))
    known = find(ref)
    if known is None:
        return _built_in(ref)
    if data_dir is None:
        return _cached((known.name,), lambda: _from_hub(known))
    train, validation = _files(known, data_dir)
    key = (known.name, train, validation, *_stamp(train), *_stamp(validation))
    return _cached(key, lambda: _from_files(known, train, validation))


def identify(ref: str | TaskFile, data_dir: Path | None = None) -> TaskIdentity:
    """What a trial's identity holds of a task. Reads files, but downloads nothing: the hub's splits are complete."""
    known = find(ref) if isinstance(ref, str) else None
    if known is not None and data_dir is None:
        return TaskIdentity(known.name, None, known.train_rows)
    task = load(ref, data_dir)
    return TaskIdentity(task.name, task.data, len(task.train))


def _cached(key: tuple[object, ...], read: Callable[[], Task]) -> Task:
    if key not in _LOADED:
        _LOADED[key] = read()
    return _LOADED[key]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0  # reading it will say what is wrong
    return status.st_size, status.st_mtime_ns


def _built_in(ref: str) -> Task:
    from palimpsest.tasks import miniature

    name = ref.lower()
    if name not in miniature.NAMES:
        raise UnknownName("task", ref, names(), hint="A study can also name files of your own.")
    return _cached((name,), lambda: miniature.load(name))


def _files(known: Known, directory: Path) -> tuple[Path, Path]:
    if not directory.is_dir():
        raise DataError(f"{directory}: no such directory. --data names the one that holds GLUE's folders or SQuAD's.")
    return squad.files(directory) if known.kind == "spans" else glue.files(known, directory)


def _from_files(known: Known, train: Path, validation: Path) -> Task:
    source = str(train.parent)
    if known.kind == "spans":
        splits = squad.read(train), squad.read(validation)
    else:
        (train_split, a), (validation_split, b) = glue.read(known, train), glue.read(known, validation)
        splits = train_split, validation_split
        source += f" ({a + b} ragged rows skipped)" if a + b else ""
    complete = (len(splits[0]), len(splits[1])) == known.official
    return _task(known, lambda: splits, None if complete else fingerprint(splits), source)


def _from_hub(known: Known) -> Task:
    return _task(known, lambda: hub.read(known), None, f"{known.hub_repo} on the Hugging Face hub")


def _task(known: Known, read: Callable[[], tuple[Split, Split]], data: str | None, source: str) -> Task:
    return Task(known.name, known.kind, known.labels, known.metrics, read, data, source)
