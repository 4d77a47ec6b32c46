"""The network of a trial: an unmodified Hugging Face encoder, pooling, and a task head."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from palimpsest.encoders.loading import Encoder
from palimpsest.specs.protocol import Protocol
from palimpsest.training.dropout import Stream, StreamDropout, install
from palimpsest.training.layers import Parts

Kind = Literal["classification", "regression", "spans"]

HEAD_SITE = 10_000  # the number of the dropout before the head, among the places in the network that have one


class Batch(NamedTuple):
    """Examples, padded. `present` is 0 for rows that only fill up the batch."""

    ids: torch.Tensor  # int [B, L]
    types: torch.Tensor  # int [B, L]
    mask: torch.Tensor  # bool [B, L]: real tokens
    targets: torch.Tensor  # int [B], float [B], or int [B, 2] (first and last token of the answer)
    present: torch.Tensor  # float [B]


class Network(nn.Module):
    """Encoder → pooling → linear. The encoder's own pooler is kept outside of it, so that all families look alike."""

    def __init__(self, encoder: Encoder, kind: Kind, outputs: int, protocol: Protocol) -> None:
        super().__init__()
        self.kind = kind
        self.pooling = protocol.pooling
        self.stream = Stream()
        self.token_types = encoder.anatomy.family.token_types
        self.encoder = encoder.network()
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None
        hidden = encoder.anatomy.hidden
        self.pooler = _empty(hidden, hidden) if self.pooling == "pooler" and kind != "spans" else None
        self.head = _empty(hidden, outputs)
        if not protocol.dropout:
            for module in self.encoder.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
        layers = encoder.anatomy.layer_modules
        install(self.encoder, self.stream, [self.encoder.get_submodule(name) for name in layers])
        self.parts = Parts(self.encoder, layers, self.stream)
        self.head_dropout = StreamDropout(protocol.head_dropout, self.stream, HEAD_SITE)

    def hidden_states(
        self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor, every_layer: bool = False
    ) -> tuple[torch.Tensor, ...]:
        """The last layer's hidden states, or those of all layers 0..L."""
        dtype = self.encoder.get_input_embeddings().weight.dtype if self.parts.fold is None else self.parts.fold.dtype
        # A ready-made additive mask: given a plain one, transformers would look at its values, which vmap refuses.
        additive = (~mask).to(dtype)[:, None, None, :] * torch.finfo(dtype).min
        extra = {"token_type_ids": types} if self.token_types else {}
        out = self.encoder(input_ids=ids, attention_mask=additive, output_hidden_states=every_layer, **extra)
        return tuple(out.hidden_states) if every_layer else (out.last_hidden_state,)

    def forward(
        self,
        ids: torch.Tensor,
        types: torch.Tensor,
        mask: torch.Tensor,
        key: torch.Tensor | None = None,
        hidden: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits: [B, outputs], or [B, L, 2] for spans.

        `key` is the dropout stream of this step; `hidden`, the last hidden states, if they are already known.
        """
        self.stream.key = key
        try:
            return self._logits(self.hidden_states(ids, types, mask)[0] if hidden is None else hidden, mask)
        finally:
            self.stream.key = None  # nothing of a vmapped or compiled pass may outlive it

    def _logits(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.kind != "spans":
            hidden = pool(hidden, mask, self.pooling)
            if self.pooler is not None:
                hidden = torch.tanh(self.pooler(hidden))
        logits: torch.Tensor = self.head(self.head_dropout(hidden)).float()
        if self.kind == "spans":
            logits = logits.masked_fill(~mask[..., None], -1e4)
        return logits


def _empty(inputs: int, outputs: int) -> nn.Linear:
    """Every trial brings its own weights: nothing is drawn from the global generator."""
    return nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")


def pool(hidden: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """One vector per example: the mean over real tokens, or the first token's."""
    if pooling != "mean":
        return hidden[:, 0]
    weight = mask.to(torch.float32)[..., None]
    mean = (hidden.float() * weight).sum(1) / weight.sum(1).clamp(min=1.0)
    return mean.to(hidden.dtype)


def losses(logits: torch.Tensor, targets: torch.Tensor, kind: Kind) -> torch.Tensor:
    """The loss of each example, [B]."""
    if kind == "classification":
        return F.cross_entropy(logits, targets, reduction="none")
    if kind == "regression":
        return (logits[:, 0] - targets) ** 2
    start = F.cross_entropy(logits[..., 0], targets[:, 0], reduction="none")
    end = F.cross_entropy(logits[..., 1], targets[:, 1], reduction="none")
    return (start + end) / 2


def batch_loss(logits: torch.Tensor, batch: Batch, kind: Kind) -> torch.Tensor:
    """The mean loss over the examples that are present."""
    return (losses(logits, batch.targets, kind) * batch.present).sum() / batch.present.sum().clamp(min=1.0)
