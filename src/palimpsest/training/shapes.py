"""The shapes that a pack's batches have on a GPU: few, because each is a CUDA graph, and some are worth compiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from palimpsest.training.batches import Rows
from palimpsest.training.sharing import arrange, lines_for
from palimpsest.training.stack import Stack

Shape = tuple[int, int]
"""Lines, and the length that they are padded to."""

_LENGTHS = (16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512)
_COMPILED_LENGTHS = (32, 64, 128, 256, 384, 512)  # fewer still: they take time to make
# Measured on an H200, for each step, trial, token, layer and hidden unit:
_COMPILED = 4.2e-11  # seconds in a compiled program, at length 0
_LONGER = 2.1  # twice as much at a length of so many head sizes, because of attention
_SAVED = 2.6e-10  # seconds more where nothing is compiled
_COMPILING = 25.0  # seconds that compiling takes, for each shape


@dataclass(frozen=True, eq=False)
class Shapes:
    """The shape of all trials' batches at each step, which of these get a compiled program, and where examples lie."""

    at: list[Shape]
    compiled: frozenset[Shape]
    starts: Rows  # [T, steps, B]: the slots of examples that share lines
    batch: int

    def shared(self, shape: Shape) -> bool:
        return shape[0] < self.batch


def shapes(stack: Stack, compiled: bool | None = None, ahead: int = 0) -> Shapes:
    """Compiled or not, or where it pays; `ahead` are the trial-steps that will run the same programs later."""
    pack = stack.pack
    batch, width = pack.rows.shape[2], stack.training.ids.shape[1]
    lengths = np.minimum(stack.training.host_lengths[pack.rows], stack.limit)
    needed = np.full(pack.steps, stack.limit) if stack.padding == "max" else lengths.max(axis=(0, 2))
    alone = np.minimum(_up(needed, _LENGTHS), width)  # the length where each example has a line

    @cache
    def shape(length: int) -> Shape:
        lines = lines_for(stack.training.host_lengths[:-1], batch, length) if stack.shares else batch
        return (lines, length) if lines < batch else (batch, min(length, width))

    chosen: list[int] = []
    if compiled is not False and stack.network.parts.foldable:
        times = 1 + ahead / sum(pack.lengths)
        worth = 0.0 if compiled else _COMPILING / (times * len(pack.trials))
        chosen = _worth_compiling(needed, alone, shape, stack, worth)
    usual = np.array([min((c for c in chosen if c >= n), default=a) for n, a in zip(needed, alone, strict=True)])
    line = np.maximum(usual, needed)
    starts, used = (
        arrange(lengths, line) if stack.shares else (np.zeros_like(pack.rows), np.full(pack.rows.shape[:2], batch))
    )
    room = np.array([shape(int(n))[0] for n in usual])
    fits = (used.max(axis=0) <= room) | (room == batch)
    at = [shape(int(n)) if fit else (batch, int(own)) for n, own, fit in zip(usual, alone, fits, strict=True)]
    return Shapes(at, frozenset(shape(c) for c in chosen), starts, batch)


def _worth_compiling(needed: Rows, alone: Rows, shape: Callable[[int], Shape], stack: Stack, worth: float) -> list[int]:
    """The lengths that get a compiled program: as long as another one saves so many seconds of each trial's steps."""
    anatomy = stack.pack.trials[0].body.anatomy
    scale = anatomy.hidden * anatomy.depth

    def seconds(length: int, extra: float = 0.0) -> float:
        lines, length = shape(length)
        return lines * length * scale * (_COMPILED * (1 + length / (_LONGER * anatomy.head_size)) + extra)

    costs: npt.NDArray[np.float64] = np.array([seconds(int(n), _SAVED) for n in alone])
    chosen: list[int] = []
    while True:
        gains = {}
        for length in sorted({int(n) for n in _up(needed, _COMPILED_LENGTHS)} - set(chosen)):
            gain = np.where(needed <= length, costs - seconds(length), 0.0).clip(min=0.0)
            gains[length] = float(gain.sum())
        best = max(gains, key=lambda n: gains[n], default=0)
        if not gains or gains[best] <= worth:
            return chosen
        chosen.append(best)
        costs = np.where(needed <= best, np.minimum(costs, seconds(best)), costs)


def _up(lengths: Rows, allowed: tuple[int, ...]) -> Rows:
    """The shortest allowed length that is enough, if there is one."""
    above = np.append(allowed, 0)[np.searchsorted(allowed, lengths)]
    return np.where(above, above, lengths)
