"""What a pretraining run can be told: the shape of the network, its vocabulary, the objectives and the schedule."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from palimpsest.specs.base import Spec

Count = Annotated[int, Field(ge=1)]
Weight = Annotated[float, Field(ge=0)]


class PretrainSettings(Spec):
    """One pretraining run, apart from its corpus and its teacher. The defaults are the pocket BERT's."""

    layers: Count = 12
    hidden: Count = 160
    heads: Count = 4
    intermediate: Count | None = Field(None, description="Width of the feed-forward layers; null for 4 × hidden.")
    vocabulary: Annotated[int, Field(ge=8)] = Field(16_000, description="Entries of the WordPiece vocabulary.")
    max_length: Annotated[int, Field(ge=8)] = Field(
        128, description="Pieces in a training row, and positions of the network: longer inputs must be truncated."
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.1, description="Written into the configuration, for finetuning; pretraining itself uses none."
    )

    minutes: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Wall-clock budget: the learning rate reaches zero when it is spent."
    )
    steps: Count | None = Field(None, description="Budget in optimiser steps, instead of minutes.")
    batch_tokens: Count = Field(65_536, description="Pieces in a batch, padding included.")
    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    warmup_steps: Annotated[int, Field(ge=0)] = 300
    weight_decay: Weight = Field(0.01, description="On matrices; not on biases, layer norms and embeddings.")
    clip: Annotated[float, Field(gt=0)] = Field(1.0, description="Gradients are scaled down to this global norm.")

    distil_weight: Weight = Field(1.0, description="Weight of the teacher's hidden states in the loss.")
    mlm_weight: Weight | None = Field(
        None, description="Weight of masked language modelling; null for 0 with a teacher and 1 without."
    )
    mask_share: Annotated[float, Field(gt=0, lt=1)] = Field(0.15, description="Share of the pieces to be predicted.")

    held_out: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.005, description="Share of the paragraphs that is never trained on."
    )
    evaluate_minutes: Annotated[float, Field(gt=0)] = Field(1.0, description="Held-out losses are taken this often.")
    checkpoint_minutes: Annotated[float, Field(gt=0)] = Field(3.0, description="The state is saved this often.")
    compile: bool = Field(True, description="Compile the networks when training on a GPU.")
    seed: int = 0

    name: str = Field("", description="Title of the model card; empty for the name of the output directory.")
    corpus_note: str = Field("", description="What the corpus is and its terms, for the model card.")
    licence: str = Field("other", description="Licence of the weights, for the model card.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.minutes is None) == (self.steps is None):
            raise ValueError("give a budget: either minutes or steps (not both)")
        if self.hidden % self.heads:
            raise ValueError(f"hidden = {self.hidden} is not a multiple of heads = {self.heads}")
        if self.batch_tokens < self.max_length:
            raise ValueError(
                f"batch_tokens = {self.batch_tokens} is less than one row of max_length = {self.max_length}"
            )
        return self

    @property
    def rows(self) -> int:
        """Rows in a batch."""
        return self.batch_tokens // self.max_length

    @property
    def feed_forward(self) -> int:
        return self.intermediate or 4 * self.hidden

    def mlm(self, *, teacher: bool) -> float:
        """The weight of masked language modelling that is meant, with or without a teacher."""
        return self.mlm_weight if self.mlm_weight is not None else float(not teacher)
