"""What the scores might have been: validation examples and trials drawn again, together.

All trials of a task are judged on the same examples, so a replicate draws the examples once for all of them, and trials
of the same indices (which share subsamples and seeds) are drawn together: differences between points are paired.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """Mean scores as measured (`mean`) and in every replicate (`draws`, one row each), by their place in the grid.

    The replicates are spread as Student's t would have it with so few trials; `plain` ones as their standard error is.
    """

    places: dict[tuple[Any, ...], int]
    mean: Floats
    draws: Floats
    plain: Floats
    trials: npt.NDArray[np.int64]

    def at(self, *place: Any) -> tuple[float, Floats]:
        """The mean at a place and its replicates."""
        column = self.places[place]
        return float(self.mean[column]), self.draws[:, column]

    def plainly(self) -> Points:
        """The same with the plain replicates."""
        return replace(self, draws=self.plain)

    def fewest(self, *lead: Any) -> int:
        """The smallest number of trials behind a point, of those whose place begins like this."""
        return min((int(self.trials[n]) for place, n in self.places.items() if place[: len(lead)] == lead), default=0)


def resample(
    rows: pd.DataFrame,
    by: Sequence[str],
    known: Evidence,
    resamples: int = 1000,
    seed: int = 0,
    at_once: int = 1,
    unit: str = "trial",
) -> Points:
    """The points of finished rows (grouped by task and `by`), and what they might have been.

    `at_once` numbers will be compared with bands that hold for all of them. What is drawn again is the `unit`: trials
    that have the same one are averaged first.
    """
    places: dict[tuple[Any, ...], int] = {}
    means: list[float] = []
    draws: list[tuple[Floats, Floats]] = []
    counts: list[int] = []
    for task, of_task in rows.groupby("task", sort=False):
        trials = of_task.drop_duplicates("id")
        column = {id: i for i, id in enumerate(trials["id"])}
        scores = _scores(str(task), trials, known, resamples, seed)
        for key, point in of_task.drop_duplicates([*by, "id"]).groupby(list(by), sort=False):
            places[(str(task), *_plain(key))] = len(means)
            units = point.groupby(unit, sort=True)
            mine = np.stack([scores[:, [column[id] for id in one["id"]]].mean(axis=1) for _, one in units], axis=1)
            observed = units["score"].mean()
            means.append(float(observed.mean()))
            draws.append(_redrawn(mine, observed, str(task), seed, at_once))
            counts.append(len(observed))
    table, plain = (
        (np.stack(part, axis=1) for part in zip(*draws, strict=True)) if draws else np.zeros((2, resamples, 0))
    )
    return Points(places, np.array(means), table, plain, np.array(counts, dtype=np.int64))


def widening(n: int, at_once: int = 1) -> float:
    """By how much the standard error from n trials is too small for a 95 % interval like Student's t.

    Of many intervals that shall hold `at_once` those that matter are far out, where few trials have heavier tails.
    """
    far = 1 - 0.025 / at_once
    return float(stats.t.ppf(far, n - 1)) / float(stats.norm.ppf(far))


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


def _redrawn(scores: Floats, observed: pd.Series[float], task: str, seed: int, at_once: int) -> tuple[Floats, Floats]:
    """The mean over trials in each replicate, spread like Student's t and plainly.

    From the trials' scores on the examples of every replicate [resamples, trials], in which examples vary, and from
    those observed, in which trials do.
    """
    mean: Floats = scores.mean(axis=1)
    count = len(observed)
    if count < 2:
        return mean, mean
    picked = _stream(seed, task, *(int(i) for i in observed.index)).integers(count, size=scores.shape)
    values = observed.to_numpy(dtype=np.float64)
    strayed = math.sqrt(count / (count - 1)) * (values[picked].mean(axis=1) - values.mean())
    return mean + widening(count, at_once) * strayed, mean + strayed


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
