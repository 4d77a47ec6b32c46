"""The method for people with a training script of their own: surgery on any supported Hugging Face model, in place."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from palimpsest.encoders.anatomy import Anatomy
from palimpsest.encoders.identity import anatomy_of
from palimpsest.encoders.loading import take_out
from palimpsest.errors import SurgeryError
from palimpsest.specs.protocol import Initialiser
from palimpsest.surgery.operations import permute, reinitialize_heads, reinitialize_layers

Model = TypeVar("Model", bound=nn.Module)


def reinitialize(
    model: Model,
    layers: Iterable[int] = (),
    heads: Iterable[tuple[int, int]] = (),
    initialiser: Initialiser | None = None,
    seed: int = 0,
) -> Model:
    """Re-initialise layers (counted from 1) and heads (pairs of layer and head) of a Hugging Face model, in place.

    Works on the bare encoder and on any model with a head on it (``BertForSequenceClassification``, …): only the
    encoder's layers are touched, never embeddings, pooler or head. Returns the model.
    """
    body, anatomy = _body(model)
    law = initialiser or Initialiser()
    layers, heads = _numbers(layers), tuple(heads)
    if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in heads):
        raise SurgeryError(f"heads are pairs of layer and head, like [(1, 4), (1, 9)], not {heads!r}")
    if not layers and not heads:
        raise SurgeryError("nothing to re-initialise: name layers or heads")
    state = _parameters(body)
    if layers:
        state = reinitialize_layers(state, anatomy, layers, law, seed)
    if heads:
        state = reinitialize_heads(state, anatomy, heads, law, seed)
    _write(body, state)
    return model


def permute_layers(model: Model, order: Sequence[int]) -> Model:
    """Put layer ``order[i - 1]`` of a Hugging Face model at position i, in place. Returns the model."""
    body, anatomy = _body(model)
    _write(body, permute(_parameters(body), anatomy, order))
    return model


def delete_layers(model: Model, layers: Iterable[int]) -> Model:
    """Take layers (counted from 1) out of a Hugging Face model, in place; the others move up. Returns the model.

    Its config says how many are left, so that it can be saved and loaded; an optimiser made before still holds the
    weights that are gone.
    """
    body, anatomy = _body(model)
    layers = _numbers(layers)
    if not layers:
        raise SurgeryError("nothing to delete: name layers")
    _own_config(model)
    take_out(body, anatomy, layers)
    return model


def _body(model: nn.Module) -> tuple[nn.Module, Anatomy]:
    config: Any = getattr(model, "config", None)
    if config is None or not hasattr(config, "model_type"):
        raise SurgeryError(f"{type(model).__name__} is not a Hugging Face model: it has no config")
    body: nn.Module = getattr(model, "base_model", model)
    anatomy = anatomy_of(config.to_dict(), type(model).__name__)
    stem, _, _ = anatomy.layer_modules[0].rpartition(".")
    there = sum(1 for _ in body.get_submodule(stem).children())
    if there != anatomy.depth:
        raise SurgeryError(f"the config says that there are {anatomy.depth} layers, but the model has {there}: mend it")
    return body, anatomy


def _own_config(model: nn.Module) -> None:
    """Give a model and its parts a copy of their config: other models may have been made from it."""
    shared: Any = model.config
    own: Any = copy.deepcopy(shared)
    for module in model.modules():
        if getattr(module, "config", None) is shared:
            module.config = own


def _numbers(layers: Iterable[int]) -> tuple[int, ...]:
    if isinstance(layers, int | str):
        raise SurgeryError(f"layers are a list of numbers, like [9, 10] or range(9, 13), not {layers!r}")
    return tuple(layers)


def _parameters(body: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in body.named_parameters()}


def _write(body: nn.Module, state: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in body.named_parameters():
            parameter.copy_(state[name])
