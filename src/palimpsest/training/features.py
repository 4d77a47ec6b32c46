"""Pooled hidden states of a frozen encoder: computed once, kept in a memory-mapped cache, read by all probes.

The cache is known by content: an entry's name is a hash of the weights that were run, of the tokens they were run on,
and of the precision. An encoder under another name shares its entries, one that has changed does not, and nothing needs
to be told to the cache when an intervention is carried out. It lies in ``$PALIMPSEST_CACHE`` or ``~/.cache/palimpsest``
and may be deleted at any time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.encoders.loading import Encoder, State
from palimpsest.errors import TrainingError
from palimpsest.specs.intervention import Intervention, PermuteLayers
from palimpsest.specs.protocol import Initialiser
from palimpsest.surgery.operations import operate
from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.batches import Padded
from palimpsest.training.data import Data
from palimpsest.training.evaluation import chunks
from palimpsest.training.kernels import good_kernels
from palimpsest.training.network import pool
from palimpsest.training.preparation import Prepared, fresh_pooler

Array = npt.NDArray[np.floating[Any]]
Pooling = Literal["mean", "cls", "pooler"]

_LAW = Initialiser()
_FORMAT = "1"  # part of every entry's name: changed whenever the same inputs would give other numbers
_TOKENS = {"cpu": 8192, "cuda": 65_536}  # in one batch
_ROWS = 16_384  # that go through the pooler at a time


class Features(NamedTuple):
    """What a probe sees: [L + 1, examples, hidden] of each split; 0 is the output of the embeddings."""

    train: Array
    validation: Array


@dataclass(frozen=True)
class Source:
    """What features depend on besides encoder and examples. Trials with equal sources share their features."""

    pooling: Pooling = "mean"
    interventions: tuple[Intervention, ...] = ()
    initialiser: Initialiser = _LAW
    reinit: int = 0
    fresh_pooler: int | None = None  # with pooling=pooler: the seed it is drawn with; None for the encoder's own

    @classmethod
    def of(cls, prepared: Prepared) -> Source:
        """A trial's source; seeds that make no difference are left out of it."""
        trial, protocol = prepared.trial, prepared.protocol
        own = protocol.pooling != "pooler" or (prepared.encoder.has_pooler and protocol.pooler == "keep")
        source = cls(protocol.pooling, trial.interventions, fresh_pooler=None if own else trial.seeds.classifier)
        if all(isinstance(i, PermuteLayers) for i in trial.interventions):
            return source
        return cls(source.pooling, trial.interventions, protocol.initialiser, trial.seeds.reinit, source.fresh_pooler)


@good_kernels
def features(
    encoder: Encoder, data: Data, device: torch.device | str = "cpu", source: Source | Pooling = "mean"
) -> Features:
    """Pooled hidden states of all layers for both splits, from the cache or by running the encoder once.

    Computed in fp32 and kept in fp32 on a CPU; computed in bf16 and kept in fp16, which is finer, on a GPU.
    The encoder's own pooler is applied to the first token of every layer, also of those it was not pretrained for.
    """
    device = torch.device(device)
    if not isinstance(source, Source):
        source = Source(source)
    weights = _weights_digest(encoder, source.interventions, source.initialiser, source.reinit)
    name = _name(encoder, data, weights, device)
    if source.pooling != "pooler":
        return _kept(name, source.pooling, encoder, data) or _run(name, encoder, data, device, source)
    if source.fresh_pooler is not None:
        # One per seed: too many to be worth keeping.
        weight, bias = fresh_pooler(encoder.anatomy.hidden, source.fresh_pooler)
    elif encoder.has_pooler:
        weight, bias = (encoder.state[f"{encoder.anatomy.family.pooler}.{part}"] for part in ("weight", "bias"))
        name = f"{name}-{_digest({'weight': weight, 'bias': bias})}"
        if kept := _kept(name, "pooler", encoder, data):
            return kept
    else:
        raise TrainingError(f"{encoder.identity.name} has no pooler of its own: probe it with pooling mean or cls")
    first = features(encoder, data, device, Source("cls", source.interventions, source.initialiser, source.reinit))
    return _through_pooler(first, weight.to(device), bias.to(device), name if source.fresh_pooler is None else None)


def cache_directory() -> Path:
    return Path(os.environ.get("PALIMPSEST_CACHE") or "~/.cache/palimpsest").expanduser() / "features"


@torch.no_grad()
def _run(name: str, encoder: Encoder, data: Data, device: torch.device, source: Source) -> Features:
    """Run the frozen encoder over both splits; mean and first token are kept, whichever was asked for."""
    model = encoder.network().eval()
    if source.interventions:
        state = _operated(encoder, source.interventions, source.initialiser, source.reinit)
        for own, parameter in model.named_parameters():
            parameter.copy_(state[own])
    model.to(device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    for split, padded in zip(Features._fields, data.on(device), strict=True):
        shape = _shape(encoder, getattr(data, split))
        with _new(name, split, "mean", shape, device) as mean, _new(name, split, "cls", shape, device) as first:
            for rows, hidden, mask in hidden_states(model, encoder, padded):
                mean[:, rows] = _on_host([pool(states.float(), mask, "mean") for states in hidden])
                first[:, rows] = _on_host([pool(states, mask, "cls") for states in hidden])
    kept = _kept(name, source.pooling, encoder, data)
    if kept is None:
        raise TrainingError(f"the features just written to {cache_directory()} cannot be read back")
    return kept


def hidden_states(
    model: Any, encoder: Encoder, padded: Padded
) -> Iterator[tuple[npt.NDArray[np.int64], tuple[torch.Tensor, ...], torch.Tensor]]:
    """Batch by batch: row numbers, the hidden states of all layers, and which tokens are real."""
    device, width = padded.ids.device, padded.ids.shape[1]
    for rows, length in chunks(padded, max(1, _TOKENS[device.type] // width), width):
        batch = padded.take(torch.as_tensor(rows, device=device), length)
        types = {"token_type_ids": batch.types} if encoder.anatomy.family.token_types else {}
        out = model(input_ids=batch.ids, attention_mask=batch.mask.long(), output_hidden_states=True, **types)
        yield rows, out.hidden_states, batch.mask


def _on_host(tensors: list[torch.Tensor]) -> npt.NDArray[Any]:
    together = torch.stack(tensors)
    return (together.half() if together.is_cuda else together).cpu().numpy()


@torch.no_grad()
def _through_pooler(first: Features, weight: torch.Tensor, bias: torch.Tensor, name: str | None) -> Features:
    pooled = []
    for split, states in first._asdict().items():
        with _new(name, split, "pooler", states.shape, weight.device) as out:
            for layer, begin in np.ndindex(len(states), -(-states.shape[1] // _ROWS)):
                rows = slice(begin * _ROWS, (begin + 1) * _ROWS)
                x = torch.as_tensor(states[layer, rows]).to(weight.device).float()
                out[layer, rows] = _on_host([torch.tanh(torch.addmm(bias, x, weight.T))])[0]
        pooled.append(out)
    return Features(*pooled)


def _operated(
    encoder: Encoder, interventions: tuple[Intervention, ...], law: Initialiser, seed: int
) -> dict[str, torch.Tensor]:
    return operate(encoder.state, interventions, encoder.anatomy, law, seed)


@lru_cache(maxsize=256)
def _weights_digest(encoder: Encoder, interventions: tuple[Intervention, ...], law: Initialiser, seed: int) -> str:
    state = _operated(encoder, interventions, law, seed)
    return _digest({name: w for name, w in state.items() if "pooler" not in name})


def _digest(state: State) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for name in sorted(state):
        digest.update(f"{name} {tuple(state[name].shape)} ".encode())
        digest.update(state[name].contiguous().cpu().numpy().data)
    return digest.hexdigest()


def _name(encoder: Encoder, data: Data, weights: str, device: torch.device) -> str:
    digest = hashlib.blake2b(f"{_FORMAT} {device.type} {weights} {_settings(encoder)} ".encode(), digest_size=12)
    for split in (data.train, data.validation):
        for array in (split.ids, split.types, split.offsets):
            digest.update(f"{array.dtype} {len(array)} ".encode())
            digest.update(np.ascontiguousarray(array).data)
    readable = re.sub(r"[^\w.-]+", "_", f"{encoder.identity.name}-{data.task.name}")
    return f"{readable[:80]}-{digest.hexdigest()}"


def _settings(encoder: Encoder) -> str:
    """What of the encoder's config its outputs may depend on besides the weights."""
    config: dict[str, Any] = encoder.model.config.to_dict()
    told = {k: v for k, v in config.items() if not k.startswith("_") and k not in ("transformers_version", "dtype")}
    return json.dumps(told, sort_keys=True, default=str)


def _shape(encoder: Encoder, split: Encoded) -> tuple[int, int, int]:
    return encoder.anatomy.depth + 1, len(split), encoder.anatomy.hidden


def _path(name: str, split: str, pooling: str) -> Path:
    return cache_directory() / f"{name}-{split}-{pooling}.npy"


def _kept(name: str, pooling: str, encoder: Encoder, data: Data) -> Features | None:
    """The cache's entry, mapped into memory; None where it is missing, truncated or of another shape."""
    found = []
    for split in Features._fields:
        try:
            # Copy-on-write: torch wants arrays that it may write to, and the file stays as it is.
            array = np.load(_path(name, split, pooling), mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        if array.shape != _shape(encoder, getattr(data, split)) or array.dtype not in (np.float16, np.float32):
            return None
        found.append(array)
    return Features(*found)


@contextmanager
def _new(
    name: str | None, split: str, pooling: str, shape: tuple[int, ...], device: torch.device
) -> Iterator[npt.NDArray[Any]]:
    """An array on disk to be filled; it appears in the cache, whole, when the block ends. Without a name it never does.

    A crash in between leaves at most a file that nobody reads, named ``.writing-…``. The space is reserved beforehand:
    a full disk is then an error, and not the death of the process at some write to mapped memory.
    """
    dtype = np.dtype(np.float16 if device.type == "cuda" else np.float32)
    folder = cache_directory()
    path = folder / f".writing-{uuid4().hex}"
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
            _reserve(path)
        except OSError as error:
            gigabytes = math.prod(shape) * dtype.itemsize / 1e9
            raise TrainingError(
                f"cannot keep {gigabytes:.1f} GB of features in {folder}: {error.strerror}. "
                "Make room there, or let PALIMPSEST_CACHE name another directory."
            ) from error
        yield array
        if name is not None:
            array.flush()
            path.replace(_path(name, split, pooling))
    finally:
        if path.exists():
            path.unlink()


def _reserve(path: Path) -> None:
    """Take the disk space of a file that is still full of holes, where the file system can."""
    if not hasattr(os, "posix_fallocate"):
        return
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
