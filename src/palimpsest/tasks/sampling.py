"""Which training examples a trial sees."""

from __future__ import annotations

import math
from fractions import Fraction

from palimpsest import streams
from palimpsest.errors import DataError


def count(n_rows: int, size: int | float | None, task: str) -> int:
    """How many examples `size` means: a number of them, a fraction (rounded half up, at least 1), or None for all."""
    if size is None:
        return n_rows
    if isinstance(size, float):
        if not 0 < size <= 1:
            raise DataError(f"{task}: a fraction of the training examples lies between 0 and 1, not at {size}.")
        # As the decimal that was written: 0.29 of 50 is 14.5 and not a little less.
        return max(1, math.floor(Fraction(str(size)) * n_rows + Fraction(1, 2)))
    if size < 1:
        raise DataError(f"{task}: cannot train on {size} examples.")
    if size > n_rows:
        raise DataError(
            f"{task}: {size} training examples are asked for, but there are only {n_rows}. Name another of the sizes, "
            "or `all`; with `unavailable: skip` an experiment leaves out what is not there."
        )
    return size


def subsample(n_rows: int, size: int | float | None, seed: int, task: str) -> streams.Ints:
    """The drawn rows, in random order. With one seed, a smaller sample is the beginning of every larger one."""
    k = count(n_rows, size, task)
    return streams.permutation(n_rows, "subsample", seed)[:k]
