"""From a study to its trials: every experiment's grid, walked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from palimpsest.errors import SpecError
from palimpsest.specs.intervention import Intervention, PermuteLayers, Reinitialize, ReinitializeHeads
from palimpsest.specs.study import (
    Custom,
    Experiment,
    Heads,
    Incremental,
    Localized,
    Permutation,
    Probing,
    Study,
    size_label,
)
from palimpsest.specs.trial import Probe, Seeds, Trial


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


def expand(study: Study, encoder: EncoderIdentity, tasks: Mapping[str, TaskIdentity]) -> list[Cell]:
    """All cells of a study on this encoder, experiment by experiment."""
    return [cell for number, e in enumerate(study.experiments) for cell in _walk(study, number, e, encoder, tasks)]


def _walk(
    study: Study, number: int, e: Experiment, encoder: EncoderIdentity, tasks: Mapping[str, TaskIdentity]
) -> Iterator[Cell]:
    points = list(_points(e, encoder))
    protocol = e.protocol or study.protocol
    kind = str(getattr(e, "kind"))  # noqa: B009 (every kind of experiment has one; the base class does not)
    for name in e.tasks or study.task_names:
        task = tasks[name]
        for size in e.sizes:
            epochs = e.at_size(e.epochs, size) if e.epochs else protocol.epochs
            trials = e.at_size(e.trials, size)
            trained = protocol if epochs == protocol.epochs else protocol.model_copy(update={"epochs": epochs})
            for point in points:
                probe = None
                if point.probe is not None and isinstance(e, Probing):
                    probe = Probe(layer=point.probe, epochs=epochs, patience=e.patience)
                    trained = protocol
                for i in range(trials):
                    index = point.first_index + i
                    seeds = Seeds.of(index)
                    if e.hold:
                        seeds = seeds.model_copy(update=dict.fromkeys(e.hold, 0))
                    trial = Trial(
                        encoder=encoder.name, weights=encoder.weights, task=task.name, data=task.data, size=size,
                        interventions=point.interventions, protocol=trained, seeds=seeds, probe=probe,
                    )  # fmt: skip
                    at = {"study": study.name, "experiment": e.label or kind, "kind": kind, "part": number,
                          "task": name, "size": size_label(size), "protocol": protocol.name, "trial": index}  # fmt: skip
                    yield Cell(trial, at | point.at)


def _points(e: Experiment, encoder: EncoderIdentity) -> Iterator[_Point]:
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
                        raise SpecError(f"head {head} is out of range: {encoder.name} has {encoder.heads} heads a layer")
                    yield _Point({"layer": layer, "head": head}, (ReinitializeHeads(heads=((layer, head),)),))
        case Custom():
            for name, interventions in e.variants.items():
                yield _Point({"variant": name}, interventions)
        case _:
            raise SpecError(f"experiments of type {type(e).__name__} cannot be expanded")


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
