"""Where an encoder's layers, heads and layer norms are, told in names of weights.

Surgery, per-layer learning rates and drift are written once, against this; a family of encoders is one entry below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from palimpsest.errors import EncoderError, SurgeryError, UnknownName

Role = Literal["query", "key", "value", "attention_output", "intermediate", "output"]


@dataclass(frozen=True)
class Family:
    """The naming scheme of a model type. Everything outside of `layers` belongs to no layer and is never touched."""

    layers: str  # prefix of a layer's weights, with {i} counted from 0
    roles: dict[Role, str]
    layer_norms: tuple[str, str]  # after attention, after the feed-forward part
    depth_key: str = "num_hidden_layers"
    heads_key: str = "num_attention_heads"
    pooler: str | None = "pooler.dense"
    word_embeddings: str = "embeddings.word_embeddings.weight"
    token_types: bool = True


_BERT = Family(
    layers="encoder.layer.{i}.",
    roles={
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "attention_output": "attention.output.dense",
        "intermediate": "intermediate.dense",
        "output": "output.dense",
    },
    layer_norms=("attention.output.LayerNorm", "output.LayerNorm"),
)

FAMILIES: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _BERT,
    "electra": Family(_BERT.layers, _BERT.roles, _BERT.layer_norms, pooler=None),
    "distilbert": Family(
        layers="transformer.layer.{i}.",
        roles={
            "query": "attention.q_lin",
            "key": "attention.k_lin",
            "value": "attention.v_lin",
            "attention_output": "attention.out_lin",
            "intermediate": "ffn.lin1",
            "output": "ffn.lin2",
        },
        layer_norms=("sa_layer_norm", "output_layer_norm"),
        depth_key="n_layers",
        heads_key="n_heads",
        pooler=None,
        token_types=False,
    ),
    # MPNet's relative-attention bias is one table for all layers (encoder.relative_attention_bias): part of none.
    "mpnet": Family(
        layers="encoder.layer.{i}.",
        roles={
            "query": "attention.attn.q",
            "key": "attention.attn.k",
            "value": "attention.attn.v",
            "attention_output": "attention.attn.o",
            "intermediate": "intermediate.dense",
            "output": "output.dense",
        },
        layer_norms=("attention.LayerNorm", "output.LayerNorm"),
        token_types=False,
    ),
}


def family_of(model_type: str, name: str) -> Family:
    """The family of a Hugging Face ``model_type``, or a refusal that says why."""
    if model_type == "albert":
        raise EncoderError(
            f"{name} is an ALBERT, whose layers all share one set of weights: re-initialising or moving a single layer "
            "has no meaning there. Use BERT, RoBERTa, ELECTRA, DistilBERT or MPNet."
        )
    try:
        return FAMILIES[model_type]
    except KeyError:
        raise UnknownName("encoder architecture", model_type, FAMILIES, hint=f"(encoder {name})") from None


@dataclass(frozen=True)
class Anatomy:
    """One encoder's layers, in names of weights. Layers and heads are counted from 1."""

    family: Family
    depth: int
    heads: int
    hidden: int

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    def prefix(self, layer: int) -> str:
        return self.family.layers.format(i=layer - 1)

    @property
    def layer_modules(self) -> list[str]:
        """The layers' places in the network."""
        return [self.prefix(layer).removesuffix(".") for layer in range(1, self.depth + 1)]

    def weight(self, layer: int, role: Role, part: Literal["weight", "bias"] = "weight") -> str:
        return f"{self.prefix(layer)}{self.family.roles[role]}.{part}"

    def layer_norm_of(self, name: str) -> bool:
        """Whether this weight, which belongs to a layer, is a layer norm's γ or β."""
        return any(f"{norm}." in name for norm in self.family.layer_norms)

    def layer_of(self, name: str) -> int | None:
        """The layer that a weight belongs to, or None: embeddings, poolers and shared biases belong to none."""
        pattern = re.escape(self.family.layers).replace(r"\{i\}", r"(\d+)")
        match = re.match(pattern, name)
        return int(match[1]) + 1 if match else None

    def check_layers(self, layers: Iterable[int]) -> None:
        for layer in layers:
            if not 1 <= layer <= self.depth:
                raise SurgeryError(f"layer {layer} is out of range: this encoder has layers 1 to {self.depth}")

    def check_heads(self, heads: Iterable[tuple[int, int]]) -> None:
        for layer, head in heads:
            self.check_layers([layer])
            if not 1 <= head <= self.heads:
                raise SurgeryError(f"head {head} of layer {layer} is out of range: heads are 1 to {self.heads}")
