"""From logits on the validation set to its loss, metrics and predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.specs.protocol import Protocol
from palimpsest.tasks.base import Task
from palimpsest.tasks.metrics import score
from palimpsest.tasks.spans import decode
from palimpsest.tasks.squad import best_thresholds, by_kind
from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.batches import Padded, Rows
from palimpsest.training.network import losses
from palimpsest.training.outcome import Epoch, Outcome
from palimpsest.training.predictions import pack

CURVE_POINTS = 200

OnLosses = Callable[[int, Callable[[], npt.NDArray[np.float64]]], None]
"""Told after each step: how many steps were made, and how to get the losses [trials, steps] so far, which may wait."""


@dataclass(frozen=True)
class Evaluation:
    loss: float
    metrics: dict[str, float]
    predictions: str


def chunks(padded: Padded, size: int, limit: int) -> Iterator[tuple[Rows, int]]:
    """All rows, sorted by length and cut into batches, each with the length to pad it to."""
    order = np.argsort(padded.host_lengths[:-1], kind="stable").astype(np.int64)
    for begin in range(0, len(order), size):
        rows = order[begin : begin + size]
        yield rows, padded.length(rows, limit)


def evaluate(task: Task, encoded: Encoded, logits: torch.Tensor, protocol: Protocol) -> Evaluation:
    """Judge the logits of all validation rows, in their own order: [n, outputs], or [n, longest, 2] for spans."""
    targets = torch.as_tensor(encoded.targets)
    loss = float(losses(logits, targets, task.kind).mean())
    values = logits.numpy()
    predictions: npt.NDArray[np.generic] | list[str]
    more: dict[str, float] = {}
    if task.kind == "classification":
        predictions = values.argmax(1)
    elif task.kind == "regression":
        predictions = values[:, 0].astype(np.float32)
    else:
        answers = task.validation.targets
        if encoded.windows is None or task.validation.second is None or isinstance(answers, np.ndarray):
            raise TypeError("spans are decoded from windows over paragraphs, and judged by Answers")
        decoded = decode(values[..., 0], values[..., 1], encoded.windows, task.validation.second)
        predictions = decoded.answers(protocol.no_answer_threshold)
        more = best_thresholds(decoded, answers) | by_kind(predictions, answers)
    return Evaluation(loss, score(task, predictions) | more, pack(predictions))


def epochs_of(train_losses: npt.NDArray[np.float64], evaluations: list[Evaluation], epochs: int) -> tuple[Epoch, ...]:
    """Per-epoch results, from the training loss at every step and the evaluations after the last of these epochs."""
    parts = np.split(train_losses, epochs)
    first = epochs - len(evaluations)
    return tuple(
        Epoch(n, float(part.mean()), e.loss, e.metrics)
        for n, (part, e) in enumerate(zip(parts[first:], evaluations, strict=True), first + 1)
    )


def failure(reason: str, metric: str, train_losses: npt.NDArray[np.float64]) -> Outcome:
    """A trial that could not be brought to its end."""
    return Outcome("failed", reason, metric, curve=curve(train_losses), steps=len(train_losses))


def ruined(loss: float, step: int) -> str:
    """Why a trial failed whose training losses were all numbers."""
    return f"the validation loss became {loss} after step {step}"


def curve(train_losses: npt.NDArray[np.float64]) -> tuple[tuple[int, float], ...]:
    """The training loss over the steps, averaged over stretches so that at most CURVE_POINTS remain."""
    if len(train_losses) == 0:
        return ()
    parts = np.array_split(np.arange(len(train_losses)), min(CURVE_POINTS, len(train_losses)))
    return tuple((int(part[-1]) + 1, round(float(train_losses[part].mean()), 6)) for part in parts)


def coarse_curves(losses: npt.NDArray[np.float64], points: int = 40) -> list[list[tuple[int, float | None]]]:
    """The losses [trials, steps] of unfinished trials, averaged over stretches; None where they are no numbers."""
    steps = losses.shape[1]
    edges = np.linspace(0, steps, min(points, steps) + 1).astype(np.int64)
    means = np.add.reduceat(losses, edges[:-1], axis=1) / np.diff(edges) if steps else losses
    ends = edges[1:].tolist()
    return [
        [(end, round(loss, 4) if math.isfinite(loss) else None) for end, loss in zip(ends, row, strict=True)]
        for row in means.tolist()
    ]
