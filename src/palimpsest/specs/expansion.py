"""From a study to its trials: every experiment's grid, walked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from palimpsest.errors import SpecError
from palimpsest.specs.experiment import (
    Custom,
    Experiment,
    Heads,
    Incremental,
    Interleaved,
    Localized,
    Permutation,
    Probing,
    SeedName,
    Sequential,
)
from palimpsest.specs.intervention import (
    DeleteLayers,
    Intervention,
    PermuteLayers,
    Reinitialize,
    ReinitializeHeads,
    deleted,
)
from palimpsest.specs.protocol import Initialiser, Protocol
from palimpsest.specs.size import Size, size_label
from palimpsest.specs.study import Study
from palimpsest.specs.trial import Companion, Probe, Seeds, Trial
from palimpsest.tasks.sampling import count

DIRECT = "direct"
"""The chain of a trial that has no other task before it or beside it."""

MOST_CELLS = 5_000_000


@dataclass(frozen=True)
class EncoderIdentity:
    """What of an encoder goes into a trial's identity, and what the grids depend on."""

    name: str
    weights: str | None
    depth: int
    heads: int


@dataclass(frozen=True)
class TaskIdentity:
    """What of a task goes into a trial's identity, and how many training examples there are to draw from."""

    name: str
    data: str | None
    train_rows: int


@dataclass(frozen=True)
class Cell:
    """A trial, and where in the study's grid it stands. Two cells may hold the same trial."""

    trial: Trial
    at: dict[str, Any]


@dataclass(frozen=True)
class _Point:
    """One place on an experiment's own axis."""

    at: dict[str, Any]
    interventions: tuple[Intervention, ...] = ()
    probe: int | None = None
    first_index: int = 0
    after: tuple[str, ...] = ()  # tasks that come before the final one
    together: tuple[str, ...] = ()  # tasks that are learnt at once

    @property
    def reinitializes(self) -> bool:
        return any(isinstance(i, Reinitialize | ReinitializeHeads) for i in self.interventions)

    def concerns(self, task: str) -> bool:
        """Whether this task stands here: one that follows upon itself, or is not of the group, does not."""
        return (not self.after or self.after[-1] != task) and (not self.together or task in self.together)


def expand(study: Study, encoder: EncoderIdentity, tasks: Mapping[str, TaskIdentity]) -> list[Cell]:
    """All cells of a study on this encoder, experiment by experiment."""
    walks = []
    for number, e in enumerate(study.experiments):
        try:
            walks.append(_Walk(study, number, e, encoder, tasks))
        except SpecError as error:
            if len(study.experiments) > 1:  # which of them it is
                error.args = (f"{study.name}, experiment {number + 1} ({e.label or kind_of(e)}): {error}",)
            raise
    if (total := sum(walk.count() for walk in walks)) > MOST_CELLS:
        raise SpecError(f"the study {study.name} names {total} trials; more than {MOST_CELLS} are taken for a slip")
    cells = [cell for walk in walks for cell in walk.cells()]
    if not cells:
        raise SpecError(f"nothing is left of the study {study.name}: {'; '.join(left_out(study, tasks))}")
    return cells


def kind_of(e: Experiment) -> str:
    return str(getattr(e, "kind"))  # noqa: B009 (every kind of experiment has one; the base class does not)


def left_out(study: Study, tasks: Mapping[str, TaskIdentity]) -> list[str]:
    """In words: the sizes that the study's experiments skip, because a task has not that many examples."""
    found = {
        f"{name} at {size_label(size)}: there are only {tasks[name].train_rows:,} training examples"
        for e in study.experiments
        for name in e.tasks or study.task_names
        for size in e.sizes
        if size not in _available(tasks[name], e)
    }
    return sorted(found)


def _available(task: TaskIdentity, e: Experiment) -> list[Size]:
    """The experiment's sizes that the task has enough examples for; others are an error unless they may be skipped."""
    sizes = []
    for size in e.sizes:
        if e.unavailable == "skip" and isinstance(size, int) and size > task.train_rows:
            continue
        count(task.train_rows, size, task.name)
        sizes.append(size)
    return sizes


def _without_law(protocol: Protocol) -> Protocol:
    """The protocol of trials that re-initialise nothing: how they would have done it must not tell them apart.

    So the intact baseline is one trial, whatever law it is held against.
    """
    return protocol.model_copy(update={"initialiser": Initialiser(), "reinitialized_rate": 1.0})


class _Walk:
    """One experiment's grid, on an encoder: tasks × sizes × its own axis × trials."""

    def __init__(
        self, study: Study, number: int, e: Experiment, encoder: EncoderIdentity, tasks: Mapping[str, TaskIdentity]
    ) -> None:
        self._study, self._number, self._e, self._encoder = study, number, e, encoder
        self._tasks = {name: tasks[name] for name in e.tasks or study.task_names}
        self._protocol = e.protocol or study.protocol
        if e.converge is not None:
            self._protocol = self._protocol.model_copy(update={"converge": e.converge})
        self._known = {name: tasks[name] for name in study.task_names}
        self._points = list(_points(e, encoder, tuple(self._tasks), study.task_names))
        for layer, point in itertools.product(self._protocol.frozen_layers, self._points):
            left = encoder.depth - deleted(point.interventions)
            if not 1 <= abs(layer) <= left:
                what = encoder.name if left == encoder.depth else f"the variant {point.at['variant']!r}"
                raise SpecError(f"frozen layer {layer} is out of range: {what} has {left} layers")
        named = {name for point in self._points for name in (*point.after, *point.together)}
        self._sizes = {name: _available(task, e) for name, task in self._tasks.items()}
        for task in (tasks[name] for name in sorted(named)):
            for size in e.sizes:
                count(task.train_rows, size, task.name)

    def count(self) -> int:
        return sum(
            sum(point.concerns(name) for point in self._points) * sum(self._e.at_size(self._e.trials, s) for s in sizes)
            for name, sizes in self._sizes.items()
        )

    def cells(self) -> Iterator[Cell]:
        e, protocol = self._e, self._protocol
        kind = kind_of(e)
        for name, size in ((name, size) for name, sizes in self._sizes.items() for size in sizes):
            epochs = e.at_size(e.epochs, size) if e.epochs else protocol.epochs
            trained = protocol
            if epochs != protocol.epochs and not isinstance(e, Probing):
                trained = protocol.model_copy(update={"epochs": epochs})
            if isinstance(e, Probing) or epochs == 1 or protocol.converge:
                trained = trained.model_copy(update={"evaluate": "end"})  # saying epoch makes no difference to these
            lawless = _without_law(trained)
            at = {"study": self._study.name, "experiment": e.label or kind, "kind": kind, "part": self._number,
                  "task": name, "size": size_label(size), "protocol": protocol.name}  # fmt: skip
            for point in self._points:
                if not point.concerns(name):
                    continue
                probe = None
                if point.probe is not None and isinstance(e, Probing):
                    probe = Probe(layer=point.probe, epochs=epochs, patience=e.patience)
                for index in range(point.first_index, point.first_index + e.at_size(e.trials, size)):
                    trial = None
                    for own in (*point.after, name):
                        chosen = trained if point.reinitializes else lawless
                        trial = self._trial(own, size, point, chosen, _seeds(index, e.hold), probe, trial)
                    assert trial is not None
                    yield Cell(trial, {**at, "trial": index, **point.at})

    def _trial(
        self, name: str, size: Size, point: _Point, protocol: Protocol, seeds: Seeds, probe: Probe | None,
        after: Trial | None,
    ) -> Trial:  # fmt: skip
        task = self._known[name]
        others = (self._known[other] for other in point.together if other != name)
        return Trial(
            encoder=self._encoder.name, weights=self._encoder.weights, task=task.name, data=task.data, size=size,
            interventions=point.interventions, protocol=protocol, seeds=seeds, probe=probe, measure=self._e.measure,
            after=after, alongside=tuple(Companion(task=o.name, data=o.data, size=size) for o in others),
        )  # fmt: skip


@cache
def _seeds(index: int, hold: tuple[SeedName, ...]) -> Seeds:
    seeds = Seeds.of(index)
    return seeds.model_copy(update=dict.fromkeys(hold, 0)) if hold else seeds


def _points(
    e: Experiment, encoder: EncoderIdentity, tasks: tuple[str, ...], all_tasks: tuple[str, ...]
) -> Iterator[_Point]:
    depth = encoder.depth
    everything = range(1, depth + 1)
    match e:
        case Incremental():
            for k in _layers(e.preserved, depth, lowest=0):
                yield _Point({"preserved": k}, _reinitialized(range(k + 1, depth + 1)))
        case Localized():
            if e.block_size > depth:
                raise SpecError(f"a block of {e.block_size} layers does not fit an encoder of {depth}")
            for mode in e.mode:
                for first in range(1, depth - e.block_size + 2):
                    block = range(first, first + e.block_size)
                    touched = block if mode == "reinitialized" else [i for i in everything if i not in block]
                    yield _Point({"mode": mode, "first": first, "block_size": e.block_size}, _reinitialized(touched))
        case Permutation():
            for n in range(1, e.permutations + 1):
                order = tuple(int(i) + 1 for i in np.random.RandomState(n).permutation(depth))
                yield _Point({"permutation": n}, (PermuteLayers(order=order),), first_index=n)
        case Probing():
            for layer in _layers(e.layers, depth, lowest=0):
                yield _Point({"layer": layer}, probe=layer)
        case Heads():
            for layer in _layers(e.layers, depth, lowest=1):
                heads = range(1, encoder.heads + 1) if e.heads == "all" else e.heads
                for head in heads:
                    if head > encoder.heads:
                        raise SpecError(
                            f"head {head} is out of range: {encoder.name} has {encoder.heads} heads a layer"
                        )
                    yield _Point({"layer": layer, "head": head}, (ReinitializeHeads(heads=((layer, head),)),))
        case Custom():
            for name, interventions in e.variants.items():
                left = encoder
                for intervention in interventions:
                    left = _check(intervention, left, f"variant {name!r}")
                yield _Point({"variant": name}, interventions)
        case Sequential():
            single = all_tasks if e.intermediate is None else e.intermediate
            chains = dict.fromkeys([*((name,) for name in single), *e.chains])
            if e.direct:
                yield _Point({"chain": DIRECT})
            for chain in chains:
                yield _Point({"chain": _chain(chain)}, after=chain)
        case Interleaved():
            if e.direct:
                yield _Point({"chain": DIRECT})
            for group in e.together or (tasks,):
                if len(set(group)) < len(group):
                    raise SpecError(f"a task is named twice among those learnt together: {', '.join(group)}")
                if len(group) < 2:
                    raise SpecError(
                        f"tasks are interleaved with others, but there is only {group[0]}; name two or more"
                    )
                yield _Point({"chain": f"with {_chain(group)}"}, together=group)
        case _:
            raise SpecError(f"experiments of type {type(e).__name__} cannot be expanded")


def _chain(names: tuple[str, ...]) -> str:
    """Names of tasks in a row, as tables and figures take them apart again."""
    for name in names:
        if name == DIRECT or name.startswith("with ") or ", " in name:
            raise SpecError(
                f"the task {name!r} must have another name to stand in a sequence or be interleaved: not {DIRECT!r}, "
                "nothing that begins with 'with ', and no comma"
            )
    return ", ".join(names)


def _check(intervention: Intervention, encoder: EncoderIdentity, where: str) -> EncoderIdentity:
    """Refuse, before anything runs, what the encoder does not have; returns what is left of it."""
    depth, heads = encoder.depth, encoder.heads
    match intervention:
        case Reinitialize() | DeleteLayers():
            bad = [f"layer {layer}" for layer in intervention.layers if layer > depth]
        case ReinitializeHeads():
            bad = [
                f"head {head} of layer {layer}" for layer, head in intervention.heads if layer > depth or head > heads
            ]
        case PermuteLayers():
            bad = [f"a permutation of {len(intervention.order)} layers"] if len(intervention.order) != depth else []
    if bad:
        raise SpecError(f"{where}: {bad[0]} does not fit {encoder.name}, which has {depth} layers of {heads} heads")
    if isinstance(intervention, DeleteLayers):
        if len(intervention.layers) == depth:
            raise SpecError(f"{where}: nothing is left of {encoder.name} when all of its layers are deleted")
        return replace(encoder, depth=depth - len(intervention.layers))
    return encoder


def _reinitialized(layers: Any) -> tuple[Intervention, ...]:
    layers = tuple(layers)
    return (Reinitialize(layers=layers),) if layers else ()


def _layers(refs: Any, depth: int, lowest: int) -> list[int]:
    if refs == "all":
        return list(range(lowest, depth + 1))
    layers = [depth if r == "L" else depth // 2 if r == "L/2" else int(r) for r in refs]
    for layer in layers:
        if not lowest <= layer <= depth:
            raise SpecError(f"layer {layer} is out of range: this encoder has {depth} layers ({lowest}..{depth})")
    return list(dict.fromkeys(layers))
