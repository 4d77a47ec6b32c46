"""Interventions as pure functions on named weights: state → state. The given state is never written to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from palimpsest.encoders.anatomy import Anatomy, Role
from palimpsest.encoders.loading import State
from palimpsest.errors import SurgeryError
from palimpsest.specs.intervention import (
    DeleteLayers,
    Intervention,
    PermuteLayers,
    Reinitialize,
    ReinitializeHeads,
)
from palimpsest.specs.protocol import Initialiser
from palimpsest.surgery.initialisers import draw

Drawn = dict[tuple[str, int, float, float | None], torch.Tensor]
"""New values by the name of their weight, the seed and the law that they were drawn from."""


def operate(
    state: State,
    interventions: Iterable[Intervention],
    anatomy: Anatomy,
    law: Initialiser,
    seed: int,
    drawn: Drawn | None = None,
) -> dict[str, torch.Tensor]:
    """Carry out interventions one after the other; each counts the layers that those before it have left.

    What is drawn goes into `drawn`, if that is given, and is taken from there if it is in there.
    """
    result = dict(state)
    for intervention in interventions:
        match intervention:
            case Reinitialize():
                result = reinitialize_layers(result, anatomy, intervention.layers, law, seed, drawn)
            case ReinitializeHeads():
                result = reinitialize_heads(result, anatomy, intervention.heads, law, seed, drawn)
            case PermuteLayers():
                result = permute(result, anatomy, intervention.order)
            case DeleteLayers():
                result = delete(result, anatomy, intervention.layers)
                anatomy = replace(anatomy, depth=anatomy.depth - len(intervention.layers))
    return result


def reinitialize_layers(
    state: State, anatomy: Anatomy, layers: Iterable[int], law: Initialiser, seed: int, drawn: Drawn | None = None
) -> dict[str, torch.Tensor]:
    """Replace all parameters of these layers, layer norms and biases as the law says."""
    layers = set(layers)
    anatomy.check_layers(layers)
    result = dict(state)
    for name, weight in state.items():
        if anatomy.layer_of(name) in layers:
            result[name] = _fresh(name, weight, anatomy, law, seed, drawn)
    return result


def _fresh(
    name: str, weight: torch.Tensor, anatomy: Anatomy, law: Initialiser, seed: int, drawn: Drawn | None
) -> torch.Tensor:
    bias = name.endswith(".bias")
    if anatomy.layer_norm_of(name):
        if law.layer_norm == "keep":
            return weight
        return torch.zeros_like(weight) if bias else torch.ones_like(weight)
    if bias and law.biases == "keep":
        return weight
    if bias and law.biases == "zero":
        return torch.zeros_like(weight)
    key = (name, seed, law.std, law.cut)
    values = drawn.get(key) if drawn is not None else None
    if values is None:
        values = draw(tuple(weight.shape), law, "reinit", seed, name, device=weight.device).to(weight.dtype)
    if drawn is not None:
        drawn[key] = values
    return values


def reinitialize_heads(
    state: State,
    anatomy: Anatomy,
    heads: Iterable[tuple[int, int]],
    law: Initialiser,
    seed: int,
    drawn: Drawn | None = None,
) -> dict[str, torch.Tensor]:
    """Replace what belongs to these heads: rows of query, key and value, and columns of the output projection.

    The output projection's bias belongs to no head and is kept. Redoing all heads of a layer gives the same values as
    redoing that layer's four projections: a weight's stream does not depend on which part of it is replaced.
    """
    heads = sorted(set(heads))
    anatomy.check_heads(heads)
    result = dict(state)
    for layer, head in heads:
        part = slice((head - 1) * anatomy.head_size, head * anatomy.head_size)
        rows: tuple[Role, ...] = ("query", "key", "value")
        for role in rows:
            for kind in ("weight", "bias"):
                _replace(result, state, anatomy.weight(layer, role, kind), (part,), anatomy, law, seed, drawn)
        _replace(
            result, state, anatomy.weight(layer, "attention_output"), (slice(None), part), anatomy, law, seed, drawn
        )
    return result


def _replace(
    result: dict[str, torch.Tensor],
    state: State,
    name: str,
    part: tuple[slice, ...],
    anatomy: Anatomy,
    law: Initialiser,
    seed: int,
    drawn: Drawn | None,
) -> None:
    if result[name] is state[name]:
        result[name] = state[name].clone()
    result[name][part] = _fresh(name, state[name], anatomy, law, seed, drawn)[part]


def permute(state: State, anatomy: Anatomy, order: Sequence[int]) -> dict[str, torch.Tensor]:
    """Put layer ``order[i - 1]`` at position i."""
    if sorted(order) != list(range(1, anatomy.depth + 1)):
        raise SurgeryError(
            f"{','.join(map(str, order))} is not a permutation of this encoder's layers 1 to {anatomy.depth}"
        )
    result = dict(state)
    for name in state:
        position = anatomy.layer_of(name)
        if position is not None:
            source = anatomy.prefix(order[position - 1]) + name.removeprefix(anatomy.prefix(position))
            result[name] = state[source]
    return result


def delete(state: State, anatomy: Anatomy, layers: Iterable[int]) -> dict[str, torch.Tensor]:
    """Take these layers out; the others move up, and their weights are renamed accordingly."""
    gone = set(layers)
    anatomy.check_layers(gone)
    left = [layer for layer in range(1, anatomy.depth + 1) if layer not in gone]
    if not left:
        raise SurgeryError(f"all {anatomy.depth} layers would be deleted: nothing is left of this encoder")
    position = {layer: i for i, layer in enumerate(left, 1)}
    result: dict[str, torch.Tensor] = {}
    for name, weight in state.items():
        layer = anatomy.layer_of(name)
        if layer is None:
            result[name] = weight
        elif layer in position:
            result[anatomy.prefix(position[layer]) + name.removeprefix(anatomy.prefix(layer))] = weight
    return result
