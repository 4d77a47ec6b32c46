"""What can be done to the pretrained weights before finetuning. Layers and heads are counted from 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, field_validator

from palimpsest.specs.base import Spec

LayerNumber = Annotated[int, Field(ge=1, strict=True)]


class Reinitialize(Spec):
    """All parameters of these layers are replaced, by the law of the protocol's initialiser."""

    kind: Literal["reinitialize"] = "reinitialize"
    layers: tuple[LayerNumber, ...] = Field(min_length=1, description="Layers to re-initialise, counted from 1.")

    @field_validator("layers")
    @classmethod
    def _sorted_set(cls, layers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(layers)))


class ReinitializeHeads(Spec):
    """The rows of query, key and value and the columns of the output projection that belong to these heads."""

    kind: Literal["reinitialize-heads"] = "reinitialize-heads"
    heads: tuple[tuple[LayerNumber, LayerNumber], ...] = Field(
        min_length=1, description="Pairs of layer and head, both counted from 1."
    )

    @field_validator("heads")
    @classmethod
    def _sorted_set(cls, heads: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(set(heads)))


class PermuteLayers(Spec):
    """The pretrained layers in another order: position i gets the layer ``order[i - 1]``."""

    kind: Literal["permute"] = "permute"
    order: tuple[LayerNumber, ...] = Field(min_length=1, description="A permutation of 1..L.")

    @field_validator("order")
    @classmethod
    def _is_permutation(cls, order: tuple[int, ...]) -> tuple[int, ...]:
        if sorted(order) != list(range(1, len(order) + 1)):
            raise ValueError(f"{list(order)} is not a permutation of 1..{len(order)}")
        return order


class DeleteLayers(Spec):
    """These layers are taken out, and the others move up: the only intervention that changes the architecture.

    Interventions that come after it count the layers that are left.
    """

    kind: Literal["delete"] = "delete"
    layers: tuple[LayerNumber, ...] = Field(min_length=1, description="Layers to take out, counted from 1.")

    @field_validator("layers")
    @classmethod
    def _sorted_set(cls, layers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(layers)))


Intervention = Annotated[Reinitialize | ReinitializeHeads | PermuteLayers | DeleteLayers, Field(discriminator="kind")]


def deleted(interventions: Iterable[Intervention]) -> int:
    """How many layers these interventions take out."""
    return sum(len(i.layers) for i in interventions if isinstance(i, DeleteLayers))
