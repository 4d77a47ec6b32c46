"""The shapes that a pack's batches have on a GPU: few, because each is a CUDA graph, and some are worth compiling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
_STARTING = 4e-4  # and for each step and layer, however many trials there are: more and smaller kernels
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
    batch = pack.rows.shape[2]
    rules = _Rules(stack)
    chosen = rules.worth_compiling(compiled, ahead)
    pairs = zip(rules.needed, rules.alone, strict=True)
    usual = np.array([min((c for c in chosen if c >= needed), default=alone) for needed, alone in pairs])
    starts, used = np.zeros_like(pack.rows), np.full(pack.rows.shape[:2], batch)
    if stack.shares:
        starts, used = arrange(stack.lengths, np.maximum(usual, rules.needed))
    at = [
        shape if shape[0] == batch or lines <= shape[0] else (batch, int(alone))
        for shape, lines, alone in zip(map(rules.shape, usual.tolist()), used.max(axis=0), rules.alone, strict=True)
    ]
    return Shapes(at, frozenset(rules.shape(length) for length in chosen), starts, batch)


def worth_compiling(stack: Stack, ahead: int) -> bool:
    """Whether any of a pack's shapes is worth a compiled program."""
    return bool(_Rules(stack).worth_compiling(None, ahead))


def places_made(stack: Stack) -> set[int]:
    """With how many trials there are programs already that a pack could run, if it had so many places."""
    rules = _Rules(stack)
    usable = {rules.shape(length) for length in rules.candidates()}
    return {places for places, shape in stack.network.parts.made if shape in usable}


class _Rules:
    """What is known of a pack before its examples are laid into lines."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.needed = stack.lengths.max(axis=(0, 2))
        # The length where each example has a line.
        self.alone = np.minimum(_up(self.needed, _LENGTHS), stack.training.ids.shape[1])
        self._shapes: dict[int, Shape] = {}

    def shape(self, length: int) -> Shape:
        """The shape that batches are laid into, if they are laid into lines of this length."""
        if length not in self._shapes:
            training, batch = self._stack.training, self._stack.pack.rows.shape[2]
            lines = lines_for(training.host_lengths[:-1], batch, length) if self._stack.shares else batch
            self._shapes[length] = (lines, length if lines < batch else min(length, training.ids.shape[1]))
        return self._shapes[length]

    def candidates(self) -> list[int]:
        """The lengths that a program may be made for."""
        return sorted({int(n) for n in _up(self.needed, _COMPILED_LENGTHS)})

    def worth_compiling(self, compiled: bool | None, ahead: int) -> list[int]:
        """The lengths that get a compiled program: as long as another one saves more than it takes to make it."""
        pack = self._stack.pack
        if compiled is False or not self._stack.network.parts.foldable:
            return []
        times = len(pack.trials) * (1 + ahead / sum(pack.lengths))
        worth = 0.0 if compiled else _COMPILING / times
        starting = _STARTING * pack.trials[0].body.anatomy.depth / len(pack.trials)
        costs = np.array([self._seconds(n, _SAVED) + starting for n in self.alone.tolist()])
        chosen: list[int] = []
        while True:
            gains = {}
            for length in set(self.candidates()) - set(chosen):
                faster = np.minimum(costs, self._seconds(length))
                made = (pack.places, self.shape(length)) in self._stack.network.parts.made
                gains[length] = float((costs - faster)[self.needed <= length].sum()) - (0.0 if made else worth)
            best = max(sorted(gains), key=lambda n: gains[n], default=0)
            if not gains or gains[best] <= 0.0:
                return chosen
            chosen.append(best)
            costs = np.where(self.needed <= best, np.minimum(costs, self._seconds(best)), costs)

    def _seconds(self, length: int, extra: float = 0.0) -> float:
        """What a step of a trial takes beyond what it takes without any tokens."""
        anatomy = self._stack.pack.trials[0].body.anatomy
        lines, length = self.shape(length)
        each = _COMPILED * (1 + length / (_LONGER * anatomy.head_size)) + extra
        return lines * length * anatomy.hidden * anatomy.depth * each


def _up(lengths: Rows, allowed: tuple[int, ...]) -> Rows:
    """The shortest allowed length that is enough, if there is one."""
    above = np.append(allowed, 0)[np.searchsorted(allowed, lengths)]
    return np.where(above, above, lengths)
