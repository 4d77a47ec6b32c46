"""GLUE from a directory in its own layout (DIR/CoLA/train.tsv, DIR/MNLI/dev_matched.tsv, …)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from palimpsest.errors import DataError
from palimpsest.tasks import tables
from palimpsest.tasks.base import Split
from palimpsest.tasks.known import Known


def files(known: Known, directory: Path) -> tuple[Path, Path]:
    """The training and validation file of a task, in DIR or DIR/glue."""
    for root in (directory, directory / "glue"):
        folder = root / known.folder
        if folder.is_dir():
            return folder / "train.tsv", folder / known.validation_file
    raise DataError(
        f"{directory}: there is neither {known.folder}/ nor glue/{known.folder}/ in it, where the files of "
        f"{known.name} should be. Name another directory with --data, or leave it out to use the Hugging Face hub."
    )


def read(known: Known, path: Path) -> tuple[Split, int]:
    """One split, and how many rows were skipped.

    Fields are never quoted. A row with columns missing or to spare is an error; in QQP it is skipped.
    """
    columns = (*known.text, known.target)
    table = tables.read(path, columns, header=known.header, skip_ragged=known.skips_ragged)
    targets: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    if known.kind == "regression":
        targets = table.numbers(known.target)
    else:
        spelled = known.labels if known.written == "name" else map(str, range(len(known.labels)))
        targets = table.classes(known.target, {label: number for number, label in enumerate(spelled)})
    first = table.columns[known.text[0]]
    second = table.columns[known.text[1]] if len(known.text) == 2 else None
    return Split(first, second, targets), table.skipped
