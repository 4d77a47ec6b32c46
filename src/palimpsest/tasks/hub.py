"""GLUE and SQuAD 2.0 from the Hugging Face hub: its parquet files, kept in the hub's own cache."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from palimpsest.errors import DataError
from palimpsest.tasks.base import Answers, Split
from palimpsest.tasks.known import Known

_ADVICE = "Pass --data DIR with the files in GLUE's own layout, or set HF_ENDPOINT to a mirror that can be reached."


def read(known: Known) -> tuple[Split, Split]:
    """Both splits, downloaded where the cache does not have them.

    HF_ENDPOINT, HF_HUB_CACHE and HF_HUB_OFFLINE count as they are now, not as they were when huggingface_hub was
    imported.
    """
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
    from huggingface_hub import snapshot_download

    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    folder = "squad_v2" if known.kind == "spans" else known.name
    try:
        snapshot = snapshot_download(
            known.hub_repo,
            repo_type="dataset",
            allow_patterns=[f"{folder}/train-*.parquet", f"{folder}/{known.hub_validation}-*.parquet"],
            endpoint=os.environ.get("HF_ENDPOINT") or None,
            cache_dir=os.environ.get("HF_HUB_CACHE") or None,
            local_files_only=offline,
        )
    except Exception as error:  # the hub's errors and those of its HTTP client have no base in common
        where = os.environ.get("HF_ENDPOINT") or "the Hugging Face hub"
        reason = (
            "HF_HUB_OFFLINE is set and they are not in the cache" if offline else f"{type(error).__name__}: {error}"
        )
        raise DataError(
            f"cannot get the files of {known.name} ({known.hub_repo}) from {where}: {reason.strip()}\n{_ADVICE}"
        ) from error
    return Path(snapshot) / folder


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
