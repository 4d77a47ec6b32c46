"""The kinds of experiments: what is done to an encoder, how often, and by which protocol."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from palimpsest.errors import SpecError
from palimpsest.specs.base import Spec
from palimpsest.specs.intervention import Intervention
from palimpsest.specs.protocol import Convergence, Count, Protocol, resolve, until_converged
from palimpsest.specs.size import BySize, Size, Sizes, size_label
from palimpsest.specs.spelling import distinct, listed, task_groups, task_names
from palimpsest.specs.trial import Measure


def _layer_refs(value: Any) -> Any:
    if value == "all":
        return value
    refs = value if isinstance(value, list | tuple) else [value]
    for ref in refs:
        if isinstance(ref, bool) or not (ref in ("L", "L/2") or (isinstance(ref, int) and ref >= 0)):
            raise ValueError(f"{ref!r} is not a layer: give numbers, L, L/2, or all")
    return tuple(dict.fromkeys(refs))


LayerRefs = Annotated[
    Literal["all"] | Annotated[tuple[int | Literal["L", "L/2"], ...], Field(min_length=1)], BeforeValidator(_layer_refs)
]
TaskGroups = Annotated[tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...], BeforeValidator(task_groups)]
SeedName = Literal["subsample", "classifier", "reinit", "order", "dropout"]


class Experiment(Spec):
    """What all experiments share; each kind adds the axis that it walks along."""

    label: str = Field("", description="How legends call it; by default its kind.")
    tasks: Annotated[
        Annotated[tuple[str, ...], Field(min_length=1)] | None, AfterValidator(distinct), BeforeValidator(task_names)
    ] = Field(None, description="Some of the study's tasks; by default all.")
    sizes: Sizes = Field((None,), min_length=1, description="Numbers of training examples: counts, fractions or all.")
    trials: BySize = Field(
        {"default": 3}, description="Trials per point: a number, or one per size, {500: 50, default: 3}."
    )
    epochs: BySize | None = Field(
        None,
        description="Epochs, likewise, or `converge`; by default the protocol's. With `converge`, the most epochs.",
    )
    converge: Convergence | None = Field(None, description="Train until the loss is flat by this criterion.")
    protocol: Protocol | None = Field(
        None,
        description="A protocol name or {extends: NAME, …}; by default, both as a whole and to extend, the study's.",
    )
    hold: tuple[SeedName, ...] = Field((), description="Seeds that stay 0 instead of following the trial's index.")
    unavailable: Literal["error", "skip"] = Field(
        "error", description="Sizes larger than a task's training set are refused, or left out for that task."
    )
    fixed: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        (), description="Keys that --set leaves alone here, unless it names the kind: probing.sizes=500."
    )
    measure: Annotated[tuple[Measure, ...], BeforeValidator(listed)] = Field(
        (), description="What is measured at the end of each trial besides its metrics: drift, cka."
    )

    @model_validator(mode="before")
    @classmethod
    def _until_converged(cls, data: Any) -> Any:
        return until_converged(data)

    @field_validator("protocol", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return None if value is None else resolve(value)

    def at_size(self, table: dict[str, int], size: Size) -> int:
        try:
            return table.get(size_label(size)) or table["default"]
        except KeyError:
            raise SpecError(f"nothing is said for size {size_label(size)}; add it or a default") from None


class Incremental(Experiment):
    """Re-initialise every layer after the kth."""

    kind: Literal["incremental"]
    preserved: LayerRefs = Field(
        "all", description="Values of k: all of 0..L, or a list; L and L/2 stand for the depth."
    )


class Localized(Experiment):
    """Re-initialise a block of consecutive layers, or preserve it while all others are re-initialised."""

    kind: Literal["localized"]
    block_size: Count = Field(3, description="How many layers a block has.")
    mode: Annotated[
        tuple[Literal["reinitialized", "preserved"], ...],
        Field(min_length=1),
        AfterValidator(distinct),
        BeforeValidator(listed),
    ] = Field(("reinitialized", "preserved"), description="What is done to the block: either, or both in turn.")


class Permutation(Experiment):
    """Shuffle the layers. The nth permutation is the same for every task; each is a trial index of its own."""

    kind: Literal["permutation"]
    permutations: Count = Field(10, description="How many orders of the layers are drawn.")
    trials: BySize = Field({"default": 1}, description="Trials of each permutation.")


class Probing(Experiment):
    """Train a linear classifier on a layer's pooled hidden states; the encoder is frozen."""

    kind: Literal["probing"]
    layers: LayerRefs = Field("all", description="Layers that are probed; 0 is the embeddings.")
    trials: BySize = Field({"default": 8}, description="Trials per layer.")
    patience: Count = Field(3, description="Stop after so many epochs without a better held-out loss.")
    epochs: BySize | None = Field({"default": 40}, description="The most epochs.")


class Heads(Experiment):
    """Re-initialise one attention head at a time."""

    kind: Literal["heads"]
    layers: LayerRefs = Field((1, 2, 11, 12), description="Layers whose heads are taken.")
    heads: Annotated[
        Literal["all"] | Annotated[tuple[Count, ...], Field(min_length=1)],
        AfterValidator(distinct),
        BeforeValidator(lambda value: value if value == "all" else listed(value)),
    ] = Field("all", description="Heads of each of these layers, counted from 1.")


class Custom(Experiment):
    """Named variants, each a list of interventions written out."""

    kind: Literal["custom"]
    variants: dict[str, tuple[Intervention, ...]] = Field(
        min_length=1, description="A name for each list of interventions; an empty list is the intact encoder."
    )


class Sequential(Experiment):
    """Finetune on one or several intermediate tasks, then on the final one; `tasks` are the final ones."""

    kind: Literal["sequential"]
    intermediate: Annotated[tuple[str, ...] | None, AfterValidator(distinct), BeforeValidator(task_names)] = Field(
        None, description="Tasks that come before each final task (other than itself), one at a time; by default all."
    )
    chains: TaskGroups = Field((), description="Several intermediate tasks in a row: [[mrpc, rte], …].")
    direct: bool = Field(True, description="Also finetune on the final task directly: the baseline.")


class Interleaved(Experiment):
    """Learn several tasks at once: batches of all of them in a random order, one encoder, a head for each."""

    kind: Literal["interleaved"]
    together: TaskGroups | None = Field(
        None, description="Groups of tasks; each trial is judged by one of its group's. By default all together."
    )
    direct: bool = Field(True, description="Also finetune on each task alone: the baseline.")


AnyExperiment = Annotated[
    Incremental | Localized | Permutation | Probing | Heads | Custom | Sequential | Interleaved,
    Field(discriminator="kind"),
]

KINDS: dict[str, type[Experiment]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in get_args(get_args(AnyExperiment)[0])
}
