"""Which trials run together. Only trials of one encoder, task and shape of program can be stacked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from palimpsest.execution.plan import Plan
from palimpsest.specs.intervention import DeleteLayers, deleted
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Trial

T = TypeVar("T")

# What all trials of a pack must share, because the program depends on it; everything else is each trial's own.
_SHARED = (
    "pooling", "head_dropout", "dropout", "optimizer", "beta1", "beta2", "epsilon", "weight_decay",
    "batch_size", "max_length", "doc_stride",
)  # fmt: skip
_EVEN = 8  # large packs are multiples of this: then few programs are needed, where each size is one
_PROBES = 1024  # probes are linear: many of them are still a small problem


@dataclass(frozen=True)
class Job:
    """Trials that are sent to a worker together, and the optimiser steps that they take."""

    trials: tuple[Trial, ...]
    steps: int
    ahead: int = 0  # trial-steps of the jobs of the same key and number of places that come later
    places: int = 0  # as many as the largest job of its group has trials: all can run its programs, some places idle
    keep: frozenset[str] = frozenset()  # trials whose final weights others start from
    again: frozenset[str] = frozenset()  # trials that are finished, but whose weights are needed

    @property
    def probing(self) -> bool:
        return self.trials[0].probe is not None


def even(trials: int, most: int) -> int:
    """How many trials go together, if `most` of them can: all parts nearly alike, rather than full ones and a rest."""
    each = -(-trials // -(-trials // most))
    return min(most, -(-each // _EVEN) * _EVEN) if each > _EVEN else each


def pack_key(trial: Trial) -> tuple[Any, ...]:
    """Trials with equal keys can be stacked."""
    protocol: Protocol = trial.protocol
    shared = tuple(getattr(protocol, field) for field in _SHARED)
    # Trials that lost the same number of layers have one architecture; what their ancestors lost, one encoder.
    lost = tuple(i.layers for a in trial.ancestors for i in a.interventions if isinstance(i, DeleteLayers))
    beside = tuple(companion.identity for companion in trial.alongside)
    architecture = (deleted(trial.interventions), lost, beside)
    return (trial.encoder, trial.weights, trial.task, trial.data, trial.method, *architecture, *shared)


def pack(plan: Plan, trials: Sequence[Trial], largest: int, workers: int = 1) -> list[Job]:
    """Cut trials into jobs of at most `largest`, alike in length, so that all `workers` have something to do.

    Long jobs come first: the last ones to finish should be short.
    """
    groups: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((*pack_key(trial), _steps(plan, trial)), []).append(trial)
    jobs = []
    share = -(-len(trials) // workers)
    for group in groups.values():
        size = _PROBES if group[0].probe else max(1, min(largest, share))
        each = even(len(group), size)
        for begin in range(0, len(group), each):
            part = tuple(group[begin : begin + each])
            jobs.append(Job(part, sum(_steps(plan, t) for t in part), places=min(each, len(group))))
    jobs.sort(key=lambda job: -job.steps)
    later: dict[tuple[Any, ...], int] = {}
    for i in reversed(range(len(jobs))):
        key = (*pack_key(jobs[i].trials[0]), jobs[i].places)
        jobs[i] = replace(jobs[i], ahead=later.get(key, 0))
        later[key] = later.get(key, 0) + jobs[i].steps
    return jobs


def reordered(jobs: Sequence[Job]) -> list[Job]:
    """The jobs in another order than most, but those that run the same programs still one after the other."""
    groups: dict[tuple[Any, ...], list[Job]] = {}
    for job in jobs:
        groups.setdefault(pack_key(job.trials[0]), []).append(job)
    return [job for group in _shuffled(list(groups.values())) for job in _shuffled(group)]


def next_job(waiting: Sequence[Job], last: Job | None, others: Sequence[Job]) -> int:
    """Which of the waiting jobs a process on a shared GPU goes on with.

    One like its last, because it has the programs; else one like nobody's, so that no two compile the same; else the
    first.
    """
    own = last and pack_key(last.trials[0])
    taken = {pack_key(job.trials[0]) for job in others}
    keys = [pack_key(job.trials[0]) for job in waiting]
    alike = (n for n, key in enumerate(keys) if key == own)
    alone = (n for n, key in enumerate(keys) if key not in taken)
    return next(alike, next(alone, 0))


def _shuffled(things: Sequence[T]) -> list[T]:
    return random.sample(things, len(things))


def _steps(plan: Plan, trial: Trial) -> int:
    return plan.steps([trial])
