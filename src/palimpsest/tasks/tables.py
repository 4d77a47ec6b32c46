"""Reading CSV, TSV and JSON Lines strictly: what does not fit is an error that names the file and the line."""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from palimpsest.errors import DataError

Targets = npt.NDArray[np.int64] | npt.NDArray[np.float64]

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class Table:
    """Some columns of a file, as text, and the line that each row begins on."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    skipped: int = 0  # ragged rows left out, where that was asked for

    def __len__(self) -> int:
        return len(self.lines)

    def classes(self, column: str, numbers: Mapping[str, int]) -> npt.NDArray[np.int64]:
        """A column of class names as class numbers."""
        found = np.empty(len(self), dtype=np.int64)
        for row, value in enumerate(self.columns[column]):
            number = numbers.get(value.strip())
            if number is None:
                raise DataError(
                    f"{self.path}:{self.lines[row]}: {value.strip()!r} in column {column!r} is not a label of this "
                    f"task; its labels are {', '.join(map(repr, numbers))}."
                )
            found[row] = number
        return found

    def numbers(self, column: str) -> npt.NDArray[np.float64]:
        """A column of finite numbers."""
        found = np.empty(len(self), dtype=np.float64)
        for row, value in enumerate(self.columns[column]):
            try:
                found[row] = float(value)
            except ValueError:
                found[row] = math.nan
            if not math.isfinite(found[row]):
                raise DataError(
                    f"{self.path}:{self.lines[row]}: {value!r} in column {column!r} is not a finite number, which "
                    "regression needs. For classes, say type: classification."
                )
        return found


def read(
    path: Path,
    columns: Sequence[str],
    *,
    texts: Sequence[str] = (),
    header: Sequence[str] | None = None,
    skip_ragged: bool = False,
) -> Table:
    """These columns of a file, whose ending tells its format. Blank lines do not count.

    `header` is for files that have none; `texts` are the columns that must hold strings where the format knows types.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise DataError(f"{path}: cannot tell the format by this ending; expected {', '.join(ENDINGS)}.")
    content = read_text(path)
    if not content.strip():
        raise DataError(f"{path}:1: the file is empty.")
    if ending == ".tsv":
        table = _rows(path, _tsv(content), columns, header, skip_ragged)
    elif ending == ".csv":
        table = _rows(path, _csv(path, content), columns, header, skip_ragged)
    else:
        table = _jsonl(path, content, columns, texts)
    if not len(table):
        why = f"all {table.skipped} rows have columns missing" if table.skipped else "there is no example in it"
        raise DataError(f"{path}:1: there is a header, but {why}.")
    return table


def read_text(path: Path) -> str:
    """A UTF-8 file as text, without a byte order mark."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: byte 0x{raw[error.start]:02x} is not UTF-8. Save the file in the encoding UTF-8."
        ) from None


def _tsv(content: str) -> Iterator[tuple[int, list[str]]]:
    # Only "\n" ends a line: the texts themselves may hold other characters that str.splitlines() breaks at.
    for number, line in enumerate(content.split("\n"), start=1):
        if line := line.removesuffix("\r"):
            yield number, line.split("\t")


def _csv(path: Path, content: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    begin = 1
    try:
        for cells in reader:
            if cells:
                yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{begin}: malformed CSV ({error}). Is a quotation mark left open?") from None


def _rows(
    path: Path,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[str],
    header: Sequence[str] | None,
    skip_ragged: bool,
) -> Table:
    names = list(header) if header else next(rows)[1]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise DataError(f"{path}:1: the header names {', '.join(map(repr, twice))} twice.")
    places = [_place(path, names, column) for column in columns]
    found: list[list[str]] = [[] for _ in columns]
    lines: list[int] = []
    skipped = 0
    for number, cells in rows:
        if len(cells) != len(names):
            if skip_ragged:
                skipped += 1
                continue
            raise DataError(f"{path}:{number}: {len(cells)} columns where there should be {len(names)}.")
        lines.append(number)
        for values, place in zip(found, places, strict=True):
            values.append(cells[place])
    return Table(path, dict(zip(columns, found, strict=True)), lines, skipped)


def _place(path: Path, names: list[str], column: str) -> int:
    if column in names:
        return names.index(column)
    if len(names) == 1 and column in names[0].split(";"):
        raise DataError(f"{path}:1: columns are separated by semicolons here; use commas, or tabs in a .tsv file.")
    near = difflib.get_close_matches(column, names, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"its columns are {', '.join(map(repr, names))}."
    raise DataError(f"{path}:1: there is no column {column!r}; {advice}")


def _jsonl(path: Path, content: str, columns: Sequence[str], texts: Sequence[str]) -> Table:
    found: dict[str, list[str]] = {column: [] for column in columns}
    lines: list[int] = []
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line, object_pairs_hook=partial(_object, where))
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: not valid JSON ({error.msg}, at character {error.pos + 1}).") from None
        except RecursionError:
            raise DataError(f"{where}: JSON nested too deeply.") from None
        if not isinstance(row, dict):
            raise DataError(f'{where}: each line must be a JSON object, such as {{"text": "…", "label": "…"}}.')
        lines.append(number)
        for column in columns:
            if column not in row:
                raise DataError(f"{where}: there is no key {column!r}; its keys are {', '.join(map(repr, row))}.")
            found[column].append(_cell(row[column], column, where, must_be_text=column in texts))
    return Table(path, found, lines)


def _object(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise DataError(f"{where}: the object has a key twice.")
    return row


def _cell(value: object, column: str, where: str, *, must_be_text: bool) -> str:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DataError(f"{where}: {column!r} holds half of a surrogate pair, which is not text.") from None
        return value
    if must_be_text:
        raise DataError(f"{where}: {column!r} should be a text, not {json.dumps(value)[:40]}.")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    raise DataError(f"{where}: {column!r} should be a text or a number, not {json.dumps(value)[:40]}.")
