"""Protocols: named, complete sets of the choices that a finetuning result depends on.

The defaults of the fields are the protocol ``paper``: Tamkin et al. 2020 as written. What other sources did
differently is another protocol, so that a result always says which choices it was obtained under.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from palimpsest.errors import SpecError, UnknownName
from palimpsest.specs.base import Spec, not_truth
from palimpsest.specs.differences import DIFFERENCES, merged

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


class Convergence(Spec):
    """When the training loss counts as flat.

    Training stops after `patience` epochs in a row of which none lowered the mean training loss of an epoch below the
    lowest before by at least `tolerance` times that of the first epoch.
    """

    tolerance: Annotated[Number, Field(gt=0, lt=1)] = 0.01
    patience: Count = 2


CONVERGENCE_CAP = 20
"""The most epochs of a training until convergence, where nothing else is said."""


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

    optimizer: Literal["adam", "adamw"] = Field("adam", description="As torch has them.")
    learning_rate: Positive = Field(2e-5, description="The highest of the schedule.")
    beta1: Fraction = Field(0.9, description="Adam's decay of the gradient's mean.")
    beta2: Fraction = Field(0.999, description="Adam's decay of the gradient's square.")
    epsilon: Positive = Field(1e-8, description="Adam's ε.")
    weight_decay: Annotated[Number, Field(ge=0)] = Field(0.0, description="For adamw only.")
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

    batch_size: Count = Field(8, description="Examples in a step.")
    epochs: Count = Field(3, description="Passes over the training examples.")
    converge: Convergence | None = Field(
        None,
        description="Train until the loss is flat, for at most `epochs` (over which the schedule of the learning rate "
        "runs). `epochs: converge` stands for this with its defaults and a cap of 20 epochs.",
    )
    evaluate: Literal["end", "epoch"] = Field(
        "end",
        description="Look at the validation set after the last epoch, or after every one (finetuning), as the figure "
        "`epochs` needs it. The results are the same. With `converge`, always after every one.",
    )
    max_length: Annotated[int, Field(ge=8, strict=True)] = Field(
        128, description="Longer inputs are truncated to this many tokens."
    )
    padding: Literal["dynamic", "max"] = Field(
        "dynamic",
        description="Pad to the longest of the batch, or always to max_length. Padding is masked, so it changes no "
        "result: the reference loop does it, the engine computes no more of it than it has to.",
    )
    doc_stride: Count = Field(128, description="Overlap of the windows over long contexts (questions with spans).")
    no_answer_threshold: Number = Field(
        0.0,
        description="How much the score of having no answer may exceed the best span's (in logits) for the span to be "
        "given all the same (questions with spans): the higher, the more is answered.",
    )

    @model_validator(mode="before")
    @classmethod
    def _until_converged(cls, data: Any) -> Any:
        return until_converged(data)

    @model_validator(mode="after")
    def _consistent(self) -> Protocol:
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError("weight_decay needs optimizer: adamw")
        return self


def until_converged(data: Any) -> Any:
    """``epochs: converge`` written out."""
    if isinstance(data, dict) and data.get("epochs") == "converge":
        return data | {"epochs": CONVERGENCE_CAP, "converge": data.get("converge") or Convergence()}
    return data


_BY_NAME = {d.name: d for d in DIFFERENCES}
_RELEASED = merged(*(d.fields for d in DIFFERENCES if d.released))

PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in [
        Protocol(name="paper", summary="Tamkin et al. 2020, as written in the paper and its appendix."),
        Protocol(
            name="released-code",
            summary="Tamkin et al. 2020, as the released scripts run: all differences of theirs at once.",
            **_RELEASED,
        ),
        Protocol(
            name="released-code-learning-rate",
            summary="The released scripts' learning-rate experiment (Figure 7).",
            **merged(_RELEASED, _BY_NAME["released-learning-rate"].fields),
        ),
        Protocol(
            name="bert-original",
            summary="As BERT itself was initialised: weights truncated at 2σ, biases zero, a new pooler.",
            initialiser=Initialiser(std=0.02, cut=0.04, biases="zero"),
            pooling="pooler",
            pooler="reset",
        ),
        *(Protocol(name=d.name, summary=d.summary, **d.fields) for d in DIFFERENCES),
        Protocol(
            name="cs224n-cased",
            summary="The CS224N report on pretraining's contribution to BERT-base cased, as run.",
            # scipy's truncnorm(-0.02, 0.02) has scale 1: next to uniform within the cuts.
            initialiser=Initialiser(std=1.0, cut=0.02),
            pooling="pooler",
            head_dropout=0.1,
            optimizer="adamw",
            schedule="linear",
            clip=1.0,
            batch_size=32,
        ),
        Protocol(
            name="pocket",
            summary="For the built-in pocket BERT: a warm-up, then a constant rate; short inputs, no dropout.",
            learning_rate=3e-5,
            warmup=0.1,
            dropout=False,
            batch_size=8,
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
    made = Protocol.parse(fields | changes, where)
    return made if "name" in changes else made.model_copy(update={"name": _telling_name(base, made)})


def _telling_name(base: Protocol, made: Protocol) -> str:
    """``paper, reinitialized_rate 5``: what a protocol without a name of its own changes of the results."""
    before, after = _flat(base.model_dump()), _flat(made.model_dump())
    changed = [f"{key} {_short(value)}" for key, value in after.items() if value != before[key]]
    return ", ".join([base.name, *changed])


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in fields.items() if key not in {*Protocol.NOT_IDENTITY, "evaluate"}}
    law: dict[str, Any] = kept.pop("initialiser")
    return kept | law


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
