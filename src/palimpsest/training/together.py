"""Several tasks at once: whose batch comes when, and what has to be put side by side for it. See interleaved.py."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from palimpsest import streams
from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.batches import Rows
from palimpsest.training.data import Data
from palimpsest.training.preparation import Prepared


def everyone(prepared: Prepared, data: Data) -> list[Prepared]:
    """A trial and, as trials, the tasks beside its own: examples are drawn, and heads made, as they would be alone."""
    return [prepared, *(_companion(prepared, number, other) for number, other in enumerate(data.beside))]


def _companion(prepared: Prepared, number: int, data: Data) -> Prepared:
    beside = prepared.trial.alongside[number]
    changes = {"task": beside.task, "data": beside.data, "size": beside.size, "alongside": ()}
    return replace(prepared, trial=prepared.trial.model_copy(update=changes), task=data.task, keep=None)


def schedule(prepared: Prepared, data: Data) -> list[tuple[int, Rows]]:
    """For every step the number of the task (0 is the trial's own), and the rows of its batch.

    An epoch is one pass over the examples of every task; their batches come in an order drawn with the order seed.
    """
    epochs, seed = prepared.protocol.epochs, prepared.trial.seeds.order
    tasks = zip(everyone(prepared, data), (data, *data.beside), strict=True)
    batches = [np.split(p.training_rows(own.window_owners), epochs) for p, own in tasks]
    steps: list[tuple[int, Rows]] = []
    for epoch in range(epochs):
        due = [(number, rows) for number, own in enumerate(batches) for rows in own[epoch]]
        steps += [due[i] for i in streams.permutation(len(due), "interleaving", seed, epoch)]
    return steps


def can_be_stacked(data: Data) -> bool:
    """Whether all tasks have one label for each example: spans need another network."""
    return not data.beside or all(own.task.kind != "spans" for own in (data, *data.beside))


@lru_cache(maxsize=8)
def united(data: Data) -> Data:
    """All tasks' training examples end to end, the trial's own first; labels and numbers are both floats then."""
    splits = [own.train for own in (data, *data.beside)]
    train = Encoded(
        np.concatenate([split.ids for split in splits]),
        np.concatenate([split.types for split in splits]),
        np.append(0, np.cumsum(np.concatenate([split.lengths for split in splits]))),
        np.concatenate([split.targets.astype(np.float32) for split in splits]),
    )
    return replace(data, train=train, beside=())


def united_schedule(prepared: Prepared, data: Data) -> tuple[Rows, npt.NDArray[np.int64]]:
    """:func:`schedule` with the rows of :func:`united` data: rows [steps, batch], and the tasks' numbers [steps]."""
    begins = np.cumsum([0, *(len(own.train) for own in (data, *data.beside))])
    steps = schedule(prepared, data)
    rows = np.stack([np.where(rows >= 0, rows + begins[number], -1) for number, rows in steps])
    return rows, np.array([number for number, _ in steps])


def other_heads(prepared: Prepared, data: Data) -> dict[str, torch.Tensor]:
    """The heads of the tasks beside a trial's own before the first step, under the names of :class:`Network`."""
    return {
        name.replace("head", f"others.{number}", 1): weight
        for number, other in enumerate(everyone(prepared, data)[1:])
        for name, weight in other.head_state().items()
        if name.startswith("head.")
    }
