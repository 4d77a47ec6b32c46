"""What a study asks for, what is already there, and what is left to do. Imports nothing heavy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from palimpsest.encoders.identity import identify as identify_encoder
from palimpsest.encoders.identity import pinned
from palimpsest.errors import DataError, SpecError
from palimpsest.specs.expansion import Cell, EncoderIdentity, TaskIdentity, expand, left_out
from palimpsest.specs.study import Study
from palimpsest.specs.task_file import TaskFile
from palimpsest.specs.trial import Trial
from palimpsest.store import Status, Store
from palimpsest.tasks.registry import identify as identify_task
from palimpsest.tasks.sampling import count


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of the trials of a study, cut into `of` parts by their place in it.

    What is finished does not matter, so the parts are disjoint and complete whenever each of them is begun.
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise SpecError(f"--shard {text!r} is not of the form i/n, with i from 1 to n: 1/8, 2/8, … 8/8")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class Resources:
    """Where the encoders and tasks that trials name are to be found on this machine."""

    encoders: dict[tuple[str, str | None], str]
    tasks: dict[tuple[str, str | None], str | TaskFile]
    data: Path | None = None

    def encoder_of(self, trial: Trial) -> str:
        return self.encoders[trial.encoder, trial.weights]

    def task_of(self, trial: Trial) -> str | TaskFile:
        return self.tasks[trial.task, trial.data]


@dataclass(frozen=True, eq=False)
class Plan:
    """The cells of some studies, and the state of their trials in a store."""

    studies: tuple[Study, ...]
    cells: list[Cell]
    resources: Resources
    rows: dict[tuple[str, str | None], int]  # training examples of each task
    statuses: dict[str, Status]
    left_out: tuple[str, ...] = ()  # in words: sizes that a task has not enough examples for
    depths: Mapping[str, int] = field(default_factory=dict)  # layers of each study's encoder

    @cached_property
    def trials(self) -> dict[str, Trial]:
        """The distinct trials, by identity, in the order of the studies; before each, those that it comes after."""
        return {t.identity: t for cell in self.cells for t in (*cell.trial.ancestors, cell.trial)}

    def missing(self, retry_failed: bool = False, shard: Shard | None = None, first: int | None = None) -> list[Trial]:
        """The trials that have to be run (by this shard; the `first` so many of every point of the grids)."""
        done = {"finished"} if retry_failed else {"finished", "failed"}
        wanted = self.trials if first is None else self._first(first)
        return [
            trial
            for number, (id, trial) in enumerate(self.trials.items())
            if self.statuses.get(id) not in done
            and id in wanted
            and (shard is None or number % shard.of == shard.number - 1)
        ]

    def _first(self, most: int) -> set[str]:
        """The identities of the first so many trials of every point, and of those that they come after."""
        wanted: set[str] = set()
        seen: Counter[tuple[Any, ...]] = Counter()
        for cell in self.cells:
            point = tuple(value for key, value in cell.at.items() if key != "trial")
            seen[point] += 1
            if seen[point] <= most:
                wanted |= {t.identity for t in (*cell.trial.ancestors, cell.trial)}
        return wanted

    def steps(self, trials: Sequence[Trial]) -> int:
        """Optimiser steps of these trials; for probes, which may stop early, the most that they can take."""
        return sum(steps_of(t, self.rows[t.task, t.data]) + self._beside(t) for t in trials)

    def _beside(self, trial: Trial) -> int:
        """Steps on the batches of interleaved tasks."""
        others = (trial.model_copy(update={"task": c.task, "data": c.data, "size": c.size}) for c in trial.alongside)
        return sum(steps_of(t, self.rows[t.task, t.data]) for t in others)

    def count(self, status: Status) -> int:
        return sum(s == status for s in self.statuses.values())


def steps_of(trial: Trial, rows: int) -> int:
    """How many optimiser steps a trial takes (at most)."""
    examples = count(rows, trial.size, trial.task)
    epochs = trial.protocol.epochs
    if trial.probe is not None:
        examples -= round(examples * trial.probe.held_out)
        epochs = trial.probe.epochs
    return -(-examples // trial.protocol.batch_size) * epochs


def make_plan(studies: Sequence[Study], store: Store | None, data: Path | None = None) -> Plan:
    """Expand studies on their encoders and look up what is finished."""
    if data is not None and not data.is_dir():
        raise DataError(f"{data}: no such directory. --data names the one that holds GLUE's folders or SQuAD's.")
    cells: list[Cell] = []
    encoders: dict[tuple[str, str | None], str] = {}
    tasks: dict[tuple[str, str | None], str | TaskFile] = {}
    rows: dict[tuple[str, str | None], int] = {}
    known: dict[str, EncoderIdentity] = {}
    seen: dict[str, TaskIdentity] = {}  # fingerprints of files are taken once for all studies
    skipped: dict[str, None] = {}
    for study in studies:
        if study.encoder not in known:
            known[study.encoder] = identify_encoder(study.encoder)
        encoder = known[study.encoder]
        encoders[encoder.name, encoder.weights] = pinned(study.encoder, encoder)
        identities: dict[str, TaskIdentity] = {}
        for ref, name in zip(study.tasks, study.task_names, strict=True):
            task = seen[ref] if isinstance(ref, str) and ref in seen else identify_task(ref, data)
            identities[name] = task
            if isinstance(ref, str):
                seen[ref] = task
            tasks[task.name, task.data] = ref
            rows[task.name, task.data] = task.train_rows
        cells += expand(study, encoder, identities)
        skipped |= dict.fromkeys(left_out(study, identities))
    for cell in cells:  # a size that cannot be had is said now, not after hours of work
        count(rows[cell.trial.task, cell.trial.data], cell.trial.size, cell.trial.task)
    ids = {t.identity for cell in cells for t in (*cell.trial.ancestors, cell.trial)}
    statuses = store.statuses(ids) if store is not None else {}
    depths = {ref: encoder.depth for ref, encoder in known.items()}
    return Plan(tuple(studies), cells, Resources(encoders, tasks, data), rows, statuses, tuple(skipped), depths)


def dataset_rows(study: Study, data: Path | None) -> list[tuple[str, int, int, str, str, str]]:
    """The study's data sets for a table: task, training and validation examples, input, labels, metric."""
    from palimpsest.tasks.registry import load

    rows = []
    for ref in study.tasks:
        task = load(ref, data)
        pair = "sentence pair" if task.train.second is not None else "sentence"
        labels = ", ".join(task.labels) if task.labels else {"regression": "a number", "spans": "an answer"}[task.kind]
        rows.append((task.name, len(task.train), len(task.validation), pair, labels, task.metrics[0]))
    return rows
