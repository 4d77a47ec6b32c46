"""What the scores might have been: validation examples and trials drawn again, together.

All trials of a task are judged on the same examples, so a replicate draws the examples once for all of them, and trials
of the same indices (which share subsamples and seeds) are drawn together: differences between points are paired.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from palimpsest.specs.expansion import Cell
from palimpsest.store import Store
from palimpsest.training.predictions import unpack

Floats = npt.NDArray[np.float64]
_CHUNK = 1 << 24  # numbers held at a time


@dataclass(frozen=True)
class Evidence:
    """Per-example predictions, by a trial's identity, and the right answers, by a task's name.

    Where either is missing, or the metric is none that can be had from class numbers, only trials are drawn again.
    """

    predictions: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    targets: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


def evidence(cells: Sequence[Cell], store: Store | None, targets: Mapping[str, npt.NDArray[Any]]) -> Evidence:
    """The stored predictions of these cells' finished trials on tasks whose answers are given."""
    wanted = {cell.trial.identity for cell in cells if cell.trial.task in targets}
    found = {}
    for record in store.records(wanted) if store is not None else ():
        if record.outcome.predictions:
            values = unpack(record.outcome.predictions)
            if isinstance(values, np.ndarray) and values.dtype.kind == "u":
                found[record.id] = values
    return Evidence(found, targets)


@dataclass(frozen=True)
class Points:
    """Mean scores as measured (`mean`) and in every replicate (`draws`, one row each), by their place in the grid."""

    places: dict[tuple[Any, ...], int]
    mean: Floats
    draws: Floats
    trials: npt.NDArray[np.int64]

    def at(self, *place: Any) -> tuple[float, Floats]:
        """The mean at a place and its replicates."""
        column = self.places[place]
        return float(self.mean[column]), self.draws[:, column]

    def fewest(self, *lead: Any) -> int:
        """The smallest number of trials behind a point, of those whose place begins like this."""
        return min((int(self.trials[n]) for place, n in self.places.items() if place[: len(lead)] == lead), default=0)


def resample(rows: pd.DataFrame, by: Sequence[str], known: Evidence, resamples: int = 1000, seed: int = 0) -> Points:
    """The points of finished rows (grouped by task and `by`), and what they might have been."""
    places: dict[tuple[Any, ...], int] = {}
    means: list[float] = []
    draws: list[Floats] = []
    counts: list[int] = []
    for task, of_task in rows.groupby("task", sort=False):
        trials = of_task.drop_duplicates("id")
        column = {id: i for i, id in enumerate(trials["id"])}
        scores = _scores(str(task), trials, known, resamples, seed)
        for key, point in of_task.drop_duplicates([*by, "id"]).groupby(list(by), sort=False):
            places[(str(task), *_plain(key))] = len(means)
            mine = scores[:, [column[id] for id in point["id"]]]
            means.append(float(point["score"].mean()))
            draws.append(_redrawn(mine, str(task), [int(t) for t in point["trial"]], seed))
            counts.append(len(point))
    table = np.stack(draws, axis=1) if draws else np.zeros((resamples, 0))
    return Points(places, np.array(means), table, np.array(counts, dtype=np.int64))


def widening(n: int) -> float:
    """By how much the spread of resampled means of n trials is too small for a 95 % interval like Student's t.

    Resampling few trials gives intervals that are too short twice over: the standard deviation with divisor n, and the
    quantile of a normal distribution.
    """
    return math.sqrt(n / (n - 1)) * float(stats.t.ppf(0.975, n - 1)) / float(stats.norm.ppf(0.975))


def percentile(draws: Floats) -> tuple[float, float]:
    """The 95 % interval of replicates of one number."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def simultaneous(means: Floats, draws: Floats) -> tuple[Floats, Floats]:
    """95 % bands that hold for all numbers at once: by the largest deviation, in standard errors, of each replicate."""
    deviations = draws - draws.mean(axis=0)
    errors = np.maximum(deviations.std(axis=0), 1e-12)
    reach = np.quantile(np.abs(deviations / errors).max(axis=1), 0.95)
    half: Floats = reach * errors
    return means - half, means + half


def _redrawn(scores: Floats, task: str, indices: list[int], seed: int) -> Floats:
    """The mean over trials in each replicate [resamples], from their scores [resamples, trials]."""
    mean: Floats = scores.mean(axis=1)
    count = len(indices)
    if count < 2:
        return mean
    order = np.argsort(indices, kind="stable")
    picked = _stream(seed, task, *sorted(indices)).integers(count, size=scores.shape)
    drawn = np.take_along_axis(scores[:, order], picked, axis=1).mean(axis=1)
    return np.asarray(mean + widening(count) * (drawn - mean))


def _scores(task: str, trials: pd.DataFrame, known: Evidence, resamples: int, seed: int) -> Floats:
    """Each trial's score in each replicate of the examples: [resamples, trials]."""
    scores = np.tile(trials["score"].to_numpy(dtype=np.float64), (resamples, 1))
    right = known.targets.get(task)
    if right is None:
        return scores
    found = [known.predictions.get(id) for id in trials["id"]]
    metrics = list(trials["metric"])
    usable = [
        i for i, p in enumerate(found)
        if p is not None and len(p) == len(right)
        and (metrics[i] == "accuracy" or (metrics[i] == "mcc" and max(p.max(), right.max()) <= 1))
    ]  # fmt: skip
    if not usable:
        return scores
    guesses = np.stack([np.asarray(found[i]) for i in usable])
    stream = _stream(seed, task)
    step = max(1, _CHUNK // len(right))
    for begin in range(0, resamples, step):
        part = slice(begin, min(begin + step, resamples))
        weights = np.stack(
            [np.bincount(stream.integers(len(right), size=len(right)), minlength=len(right)) for _ in scores[part]]
        ).astype(np.float32)
        judge = _accuracy if metrics[usable[0]] == "accuracy" else _mcc
        scores[part, usable] = judge(weights, guesses, right)
    return scores


def _accuracy(weights: npt.NDArray[np.float32], guesses: npt.NDArray[Any], right: npt.NDArray[Any]) -> Floats:
    return np.asarray(weights @ (guesses == right).T.astype(np.float32) / len(right), dtype=np.float64)


def _mcc(weights: npt.NDArray[np.float32], guesses: npt.NDArray[Any], right: npt.NDArray[Any]) -> Floats:
    count = float(len(right))
    yes = (weights @ right.astype(np.float32)).astype(np.float64)[:, None]
    said = (weights @ guesses.T.astype(np.float32)).astype(np.float64)
    both = (weights @ (guesses * right).T.astype(np.float32)).astype(np.float64)
    below = np.sqrt(said * (count - said) * yes * (count - yes))
    return np.asarray(np.where(below > 0, (count * both - said * yes) / np.where(below > 0, below, 1), 0.0))


def _stream(seed: int, task: str, *indices: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(task.encode()), *indices])


def _plain(key: Any) -> tuple[Any, ...]:
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(int(part) if isinstance(part, int | np.integer) else str(part) for part in parts)
