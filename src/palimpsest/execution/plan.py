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
from palimpsest.encoders.identity import is_here, pinned
from palimpsest.errors import DataError, EncoderError, SpecError
from palimpsest.specs.expansion import Cell, EncoderIdentity, TaskIdentity, expand, left_out
from palimpsest.specs.study import Study
from palimpsest.specs.task_file import TaskFile
from palimpsest.specs.trial import Trial
from palimpsest.store import Status, Store
from palimpsest.store.facts import Facts, Key, TaskFacts
from palimpsest.tasks.known import find
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

    encoders: dict[Key, str]
    tasks: dict[Key, str | TaskFile]
    data: Path | None = None
    known: Mapping[Key, TaskFacts] = field(default_factory=dict)  # tasks that are not here, but known from an archive

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
    rows: dict[Key, int]  # training examples of each task
    statuses: dict[str, Status]
    left_out: tuple[str, ...] = ()  # in words: sizes that a task has not enough examples for
    depths: Mapping[str, int] = field(default_factory=dict)  # layers of each study's encoder

    @cached_property
    def trials(self) -> dict[str, Trial]:
        """The distinct trials, by identity, in the order of the studies; before each, those that it comes after."""
        return {t.identity: t for cell in self.cells for t in (*cell.trial.ancestors, cell.trial)}

    def missing(self, retry_failed: bool = False, shard: Shard | None = None, first: int | None = None) -> list[Trial]:
        """The trials that have to be run (by this shard; the `first` so many of every point of the grids).

        In rounds, the first trial of every point before the second of any: whenever a run is stopped, the points have
        nearly as many trials each.
        """
        done = {"finished"} if retry_failed else {"finished", "failed"}
        wanted = [id for id in self.trials if first is None or self._rounds[id] < first]
        mine = [
            id
            for number, id in enumerate(wanted)
            if self.statuses.get(id) not in done and (shard is None or number % shard.of == shard.number - 1)
        ]
        return [self.trials[id] for id in sorted(mine, key=self._rounds.__getitem__)]

    @cached_property
    def _rounds(self) -> dict[str, int]:
        """How many trials of the same point come before each; those that others come after are as early as they."""
        rounds: dict[str, int] = {}
        seen: Counter[tuple[Any, ...]] = Counter()
        for cell in self.cells:
            point = tuple(value for key, value in cell.at.items() if key != "trial")
            for trial in (*cell.trial.ancestors, cell.trial):
                rounds[trial.identity] = min(seen[point], rounds.get(trial.identity, seen[point]))
            seen[point] += 1
        return rounds

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


def make_plan(
    studies: Sequence[Study], store: Store | None, data: Path | None = None, facts: Facts | None = None
) -> Plan:
    """Expand studies on their encoders and look up what is finished.

    What is not on this machine is taken from `facts`, which is enough to look at results but not to run anything.
    """
    if data is not None and not data.is_dir():
        raise DataError(f"{data}: no such directory. --data names the one that holds GLUE's folders or SQuAD's.")
    facts = facts or Facts()
    cells: list[Cell] = []
    encoders: dict[Key, str] = {}
    tasks: dict[Key, str | TaskFile] = {}
    rows: dict[Key, int] = {}
    remembered: dict[Key, TaskFacts] = {}
    known: dict[str, EncoderIdentity] = {}
    seen: dict[str, TaskIdentity] = {}  # fingerprints of files are taken once for all studies
    skipped: dict[str, None] = {}
    for study in studies:
        if study.encoder not in known:
            known[study.encoder], name = _encoder(study.encoder, facts)
            encoders[known[study.encoder].name, known[study.encoder].weights] = name
        encoder = known[study.encoder]
        identities: dict[str, TaskIdentity] = {}
        for ref, name in zip(study.tasks, study.task_names, strict=True):
            if isinstance(ref, str) and ref in seen:
                task = seen[ref]
            elif (found := _remembered(ref, name, data, facts)) is not None:
                task = found.identity
                remembered[task.name, task.data] = found
            else:
                task = identify_task(ref, data)
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
    resources = Resources(encoders, tasks, data, remembered)
    return Plan(tuple(studies), cells, resources, rows, statuses, tuple(skipped), depths)


def _encoder(ref: str, facts: Facts) -> tuple[EncoderIdentity, str]:
    """Which encoder is meant, and under what name it stays that one.

    A name that no directory here has means what it meant in the archive, whatever a hub says today.
    """
    if not is_here(ref) and (known := facts.encoder(ref)) is not None:
        return known, ref
    try:
        identity = identify_encoder(ref)
    except EncoderError as error:
        if not facts.encoders:
            raise
        raise EncoderError(f"{error} The archive has trials of {facts.says()}; choose with --model.") from error
    return identity, pinned(ref, identity)


def _remembered(ref: str | TaskFile, name: str, data: Path | None, facts: Facts) -> TaskFacts | None:
    """What is known of a task whose data are not given or not here."""
    if isinstance(ref, TaskFile):
        return None if ref.train.is_file() and ref.validation.is_file() else facts.task(name)
    known = find(ref)
    return facts.task(known.name) if known is not None and data is None else None
