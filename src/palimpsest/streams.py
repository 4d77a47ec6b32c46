"""Random numbers that belong to a trial: counter-based, the same on every machine, device and library version.

A stream has no state. Its *key* is derived from what the numbers are for (a seed and some words), and the number at an
index is a hash of key and index. So a trial's subsample, data order, weights and dropout masks do not depend on what
else is drawn, on what the trial is packed with, or on the generator of some library. The host functions use numpy,
the device functions torch's integer arithmetic (which works under ``vmap`` and compiles into a few instructions).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Ints = npt.NDArray[np.int64]

_MIX_1, _MIX_2 = 0x7FEB352D, 0x846CA68B - (1 << 32)  # constants of a 32-bit integer hash with low bias; as signed ints


def key(*words: int | str) -> tuple[int, int]:
    """Two signed 32-bit integers that stand for these words (usually a purpose, a seed, and what it is for)."""
    digest = hashlib.blake2b("\x1f".join(str(w) for w in words).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little", signed=True), int.from_bytes(digest[4:], "little", signed=True)


def _mix64(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def host_bits(n: int, *words: int | str) -> npt.NDArray[np.uint64]:
    """n random 64-bit words of the stream named by `words`."""
    a, b = (np.uint64(v & 0xFFFFFFFF) for v in key(*words))
    counter = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _mix64(_mix64(counter ^ (a << np.uint64(32) | b)) + a)


def permutation(n: int, *words: int | str) -> Ints:
    """A uniformly random order of range(n)."""
    return np.argsort(host_bits(n, *words), kind="stable").astype(np.int64)


def step_keys(steps: int, *words: int | str) -> npt.NDArray[np.int32]:
    """One key per optimiser step, [steps, 2]: what a trial's dropout stream is at each step."""
    return host_bits(steps, *words).view(np.int32).reshape(steps, 2)


def mix(x: torch.Tensor) -> torch.Tensor:
    """Scramble int32 words: every bit of the result depends on every bit given."""
    # ">>" keeps the sign of an int32, so the shifted-in bits are masked away.
    x = (x ^ ((x >> 16) & 0xFFFF)) * _MIX_1
    x = (x ^ ((x >> 15) & 0x1FFFF)) * _MIX_2
    return x ^ ((x >> 16) & 0xFFFF)


def bits(index: torch.Tensor, k0: int | torch.Tensor, k1: int | torch.Tensor) -> torch.Tensor:
    """The int32 random words at these int32 indices of the stream with this key."""
    return mix(mix(index ^ k0) + k1)


def uniform(index: torch.Tensor, k0: int | torch.Tensor, k1: int | torch.Tensor) -> torch.Tensor:
    """Numbers in the open interval (0, 1), on a grid of 2⁻²⁴, symmetric about one half."""
    # 23 bits and a half fit into a float32; with one bit more the largest would be rounded up to 1.
    return (((bits(index, k0, k1) >> 9) & 0x7FFFFF).float() + 0.5) * 2.0**-23
