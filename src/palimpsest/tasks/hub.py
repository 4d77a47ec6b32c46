"""GLUE and SQuAD 2.0 from the Hugging Face hub: its parquet files, kept in the hub's own cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from palimpsest import hub
from palimpsest.errors import DataError
from palimpsest.tasks.base import Answers, Split
from palimpsest.tasks.known import Known

_ADVICE = "Pass --data DIR with the files in GLUE's own layout, or set HF_ENDPOINT to a mirror that can be reached."


def read(known: Known) -> tuple[Split, Split]:
    """Both splits, downloaded where the cache does not have them."""
    folder = _download(known)
    train, validation = (_split(known, folder, name) for name in ("train", known.hub_validation))
    if (len(train), len(validation)) != known.official:
        # Trials from the hub are identified as official before anything is downloaded.
        raise DataError(
            f"{known.hub_repo} has {len(train)} and {len(validation)} examples of {known.name}, not the official "
            f"{known.train_rows} and {known.validation_rows} (read from {folder}). {_ADVICE}"
        )
    return train, validation


def _download(known: Known) -> Path:
    folder = "squad_v2" if known.kind == "spans" else known.name
    patterns = [f"{folder}/train-*.parquet", f"{folder}/{known.hub_validation}-*.parquet"]
    try:
        return hub.snapshot(known.hub_repo, patterns, kind="dataset") / folder
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        if hub.is_offline():
            reason = "HF_HUB_OFFLINE is set and they are not in the cache"
        raise DataError(
            f"cannot get the files of {known.name} ({known.hub_repo}) from {hub.endpoint()}: {reason.strip()}\n"
            f"{_ADVICE}"
        ) from error


def _split(known: Known, folder: Path, name: str) -> Split:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = sorted(folder.glob(f"{name}-*.parquet"))
    if not paths:
        raise DataError(f"{folder}: no {name}-*.parquet in it, where {known.hub_repo} should have put one. {_ADVICE}")
    target = "answers" if known.kind == "spans" else "label"
    try:
        table = pa.concat_tables([pq.read_table(path, columns=[*known.hub_text, target]) for path in paths])
        texts = [table.column(column).to_pylist() for column in known.hub_text]
        targets = table.column(target).to_pylist()
    except (pa.ArrowException, KeyError, OSError) as error:
        raise DataError(f"{paths[0]}: not the parquet file that {known.name} should have ({error}).") from error
    first, second = texts[0], texts[1] if len(texts) == 2 else None
    if known.kind == "spans":
        return Split(first, second, [Answers(tuple(a["text"]), tuple(a["answer_start"])) for a in targets])
    if known.kind == "regression":
        return Split(first, second, np.array(targets, dtype=np.float64))
    numbers = np.array(targets, dtype=np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= len(known.labels)):
        raise DataError(f"{paths[0]}: has labels other than 0..{len(known.labels) - 1} (a test split has no labels).")
    return Split(first, second, numbers)
