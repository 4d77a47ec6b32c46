"""The trial: one finetuning (or probing) run, fully described."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Field, field_validator

from palimpsest.specs.base import Spec
from palimpsest.specs.intervention import Intervention
from palimpsest.specs.protocol import Count, Number, Protocol

Seed = Annotated[int, Field(ge=0, strict=True)]
Share = Annotated[float, Field(gt=0, lt=1, strict=True)]


class Seeds(Spec):
    """One seed per source of variance, so that each can be held fixed while the others vary."""

    subsample: Seed = Field(0, description="Which training examples are drawn.")
    classifier: Seed = Field(0, description="The task head's initial weights.")
    reinit: Seed = Field(0, description="The values of re-initialised weights.")
    order: Seed = Field(0, description="The order of the examples in every epoch.")
    dropout: Seed = Field(0, description="The dropout masks.")

    @staticmethod
    @cache
    def of(index: int) -> Seeds:
        """All seeds from a trial's index: the papers' way."""
        return Seeds(subsample=index, classifier=index, reinit=index, order=index, dropout=index)


class Probe(Spec):
    """The encoder stays frozen; only a linear classifier on one layer's pooled hidden states is trained."""

    layer: Annotated[int, Field(ge=0, strict=True)] = Field(description="0 is the embeddings, L the last layer.")
    epochs: Count = Field(40, description="At most this many epochs.")
    patience: Count = Field(3, description="Stop after this many epochs without a better held-out loss.")
    held_out: Annotated[Number, Field(gt=0, lt=1)] = Field(
        0.1, description="The part of the training examples that early stopping looks at."
    )


Measure = Literal["drift", "cka"]


class Companion(Spec):
    """A task that a trial learns besides its own: in batches between its own, with a head of its own."""

    task: str
    data: str | None = None
    size: Count | Share | None = None


class Trial(Spec):
    """A value. Device, precision, pack size and library versions are provenance, not identity."""

    encoder: str = Field(description="A hub name, the name of a built-in encoder, or a local directory's own name.")
    weights: str | None = Field(None, description="A local directory's fingerprint, or the commit of a hub encoder.")
    task: str
    data: str | None = Field(
        None, description="Fingerprint of the data when they are not the complete official splits of a known task."
    )
    size: Count | Share | None = Field(None, description="Number of training examples, a fraction, or null for all.")
    interventions: tuple[Intervention, ...] = ()
    protocol: Protocol = Protocol()
    seeds: Seeds = Seeds()
    probe: Probe | None = None
    measure: tuple[Measure, ...] = Field(
        (),
        description="What is measured at the end besides the metrics: how far the weights drifted, and how like the "
        "pretrained encoder's the hidden states still are (CKA).",
    )
    after: Trial | None = Field(
        None, description="The trial whose final encoder this one starts from, instead of the pretrained one."
    )
    alongside: tuple[Companion, ...] = Field(
        (), description="Tasks whose batches are interleaved with the trial's own."
    )

    @field_validator("measure")
    @classmethod
    def _sorted_set(cls, measure: tuple[Measure, ...]) -> tuple[Measure, ...]:
        return tuple(sorted(set(measure)))

    @property
    def ancestors(self) -> tuple[Trial, ...]:
        """The trials that come before this one, the first first."""
        return () if self.after is None else (*self.after.ancestors, self.after)

    @property
    def method(self) -> Literal["finetuning", "probing"]:
        return "finetuning" if self.probe is None else "probing"
