"""Tasks made of the user's own files."""

from __future__ import annotations

import math

from palimpsest.errors import DataError
from palimpsest.specs.task_file import TaskFile
from palimpsest.tasks import tables
from palimpsest.tasks.base import Split, Task
from palimpsest.tasks.fingerprint import fingerprint
from palimpsest.tasks.known import METRICS

MOST_CLASSES = 1000  # beyond this, a column of numbers or of texts was probably taken for classes


def read(spec: TaskFile) -> Task:
    """Both files, checked and numbered. The task's `data` covers what they say and how it is to be understood."""
    columns = (*spec.text_columns, spec.label)
    train = tables.read(spec.train, columns, texts=spec.text_columns)
    validation = tables.read(spec.validation, columns, texts=spec.text_columns)
    if spec.type == "regression":
        labels: tuple[str, ...] = ()
        splits = tuple(_split(spec, table, table.numbers(spec.label)) for table in (train, validation))
    else:
        labels = _labels(spec, train)
        numbers = {label: number for number, label in enumerate(labels)}
        splits = tuple(_split(spec, table, table.classes(spec.label, numbers)) for table in (train, validation))
    metrics = spec.metrics or METRICS[spec.type]
    data = fingerprint(splits, spec.type, "labels", *labels, "metrics", *metrics)
    return Task(
        name=spec.name,
        kind=spec.type,
        labels=labels,
        metrics=metrics,
        load=lambda: (splits[0], splits[1]),
        data=data,
        source=f"{spec.train}, {spec.validation}",
    )


def _split(spec: TaskFile, table: tables.Table, targets: tables.Targets) -> Split:
    texts = [table.columns[column] for column in spec.text_columns]
    for line, *cells in zip(table.lines, *texts, strict=True):
        if not any(cell.strip() for cell in cells):
            where = " and ".join(map(repr, spec.text_columns))
            raise DataError(f"{table.path}:{line}: there is no text in {where}; take the example out, or fill it in.")
    return Split(texts[0], texts[1] if len(texts) == 2 else None, targets)


def _labels(spec: TaskFile, train: tables.Table) -> tuple[str, ...]:
    found: dict[str, int] = {}
    for line, value in zip(train.lines, train.columns[spec.label], strict=True):
        if not value.strip():
            raise DataError(f"{spec.train}:{line}: the label in column {spec.label!r} is empty.")
        found.setdefault(value.strip(), line)
    if len(found) == 1:
        raise DataError(
            f"{spec.train}:{train.lines[-1]}: all examples up to this last one have the same label "
            f"{next(iter(found))!r}; a classification needs at least two. For numbers, say type: regression."
        )
    if spec.labels:
        return spec.labels
    if len(found) > MOST_CLASSES:
        raise DataError(
            f"{spec.train}:{list(found.values())[MOST_CLASSES]}: column {spec.label!r} has more than {MOST_CLASSES} "
            "different labels. For numbers, say type: regression."
        )
    if all(_is_number(label) for label in found):
        return tuple(sorted(found, key=lambda label: (float(label), label)))
    return tuple(sorted(found))


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False
