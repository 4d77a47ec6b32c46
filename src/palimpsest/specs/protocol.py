"""Protocols: named, complete sets of the choices that a finetuning result depends on.

The defaults of the fields are the protocol ``paper``: Tamkin et al. 2020 as written. What other sources did
differently is another protocol, so that a result always says which choices it was obtained under.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from palimpsest.errors import SpecError, UnknownName
from palimpsest.specs.base import Spec, not_truth

Number = Annotated[float, BeforeValidator(not_truth)]
Positive = Annotated[Number, Field(gt=0)]
Fraction = Annotated[Number, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, strict=True)]


class Initialiser(Spec):
    """The law that re-initialised parameters are drawn from."""

    std: Positive = Field(0.02, description="σ of the normal distribution, before it is cut.")
    cut: Positive | None = Field(
        0.04, description="Draws lie within ±cut (absolute, not in units of σ); null for a normal that is not cut."
    )
    biases: Literal["sample", "zero", "keep"] = Field(
        "sample", description="Biases of re-initialised layers: drawn like weights, set to zero, or left pretrained."
    )
    layer_norm: Literal["reset", "keep"] = Field(
        "reset", description="Layer norm of re-initialised layers: γ=1, β=0, or left pretrained."
    )


class Protocol(Spec):
    """How a trial is initialised, pooled, optimised and measured."""

    NOT_IDENTITY: ClassVar[frozenset[str]] = frozenset({"name", "summary"})

    name: str = Field("paper", description="For labels; does not count in a trial's identity.")
    summary: str = Field("", description="One line on where these choices come from.")

    initialiser: Initialiser = Field(Initialiser(), description="The law of re-initialised layers and heads.")
    pooling: Literal["mean", "cls", "pooler"] = Field(
        "mean",
        description="What the classifier sees: the mean of the last hidden states over real tokens, the first token's "
        "hidden state, or the encoder's own pooler (first token, dense, tanh).",
    )
    pooler: Literal["keep", "reset"] = Field("keep", description="With pooling=pooler: pretrained, or re-initialised.")
    head_dropout: Fraction = Field(0.0, description="Dropout between pooling and the classifier.")
    dropout: bool = Field(True, description="Whether the encoder's own dropout (see its config) is active in training.")

    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: Positive = 2e-5
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    epsilon: Positive = 1e-8
    weight_decay: Annotated[Number, Field(ge=0)] = 0.0
    schedule: Literal["constant", "linear"] = Field("constant", description="linear: decays to zero at the last step.")
    warmup: Fraction = Field(0.0, description="Fraction of the steps over which the learning rate rises from zero.")
    clip: Positive | None = Field(None, description="Gradients are scaled down to this global norm; null for never.")
    reinitialized_rate: Positive = Field(
        1.0, description="Factor on the learning rate of re-initialised layers (Figure 7: 5)."
    )
    frozen_layers: tuple[Annotated[int, Field(strict=True)], ...] = Field(
        (),
        description="Layers left out of the optimiser, counted from 1, or from the top when negative (-1: the last).",
    )

    batch_size: Count = 8
    epochs: Count = 3
    max_length: Annotated[int, Field(ge=8, strict=True)] = Field(
        128, description="Longer inputs are truncated to this many tokens."
    )
    padding: Literal["dynamic", "max"] = Field(
        "dynamic", description="Pad to the longest of the batch, or always to max_length."
    )
    doc_stride: Count = Field(128, description="Overlap of the windows over long contexts (questions with spans).")

    @model_validator(mode="after")
    def _consistent(self) -> Protocol:
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError("weight_decay needs optimizer: adamw")
        return self


PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in [
        Protocol(name="paper", summary="Tamkin et al. 2020, as written in the paper and its appendix."),
        Protocol(
            name="pocket",
            summary="For the built-in pocket BERT: a small network wants a higher learning rate and fewer, larger steps.",
            learning_rate=3e-4,
            schedule="linear",
            warmup=0.1,
            batch_size=16,
            epochs=5,
            max_length=64,
        ),
    ]
}


def resolve(ref: str | dict[str, Any] | Protocol, where: str = "protocol") -> Protocol:
    """A protocol by name, or ``{extends: NAME, field: value, …}``, or one already resolved."""
    if isinstance(ref, Protocol):
        return ref
    if isinstance(ref, str):
        if ref not in PROTOCOLS:
            raise UnknownName("protocol", ref, PROTOCOLS)
        return PROTOCOLS[ref]
    if not isinstance(ref, dict):
        raise SpecError(f"{where}: a protocol is a name or a mapping, not {type(ref).__name__}")
    changes = dict(ref)
    base = resolve(changes.pop("extends", "paper"), where)
    fields = base.model_dump()
    if isinstance(changes.get("initialiser"), dict):
        changes["initialiser"] = fields["initialiser"] | changes["initialiser"]
    changes.setdefault("name", f"{base.name}+" if changes else base.name)
    return Protocol.parse(fields | changes, where)
