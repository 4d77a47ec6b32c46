"""The network of a trial: an unmodified Hugging Face encoder, pooling, and a task head."""

from __future__ import annotations

from collections.abc import Sequence
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


class Shared(NamedTuple):
    """Where the examples of a batch are when they share its lines: see training/sharing.py."""

    owner: torch.Tensor  # int32 [lines, L]: the example that a token belongs to, -1 for padding
    position: torch.Tensor  # int32 [lines, L]: the token's place in its example
    starts: torch.Tensor  # int [B]: the slot of each example's first token, counted through the lines


class Batch(NamedTuple):
    """Examples, padded: a line for each, or fewer that they share. `present` is 0 for those that only fill it up."""

    ids: torch.Tensor  # int [lines, L]
    types: torch.Tensor  # int [lines, L]
    mask: torch.Tensor  # bool [lines, L]: real tokens
    targets: torch.Tensor  # int [B], float [B], or int [B, 2] (first and last token of the answer)
    present: torch.Tensor  # float [B]
    shared: Shared | tuple[()] = ()  # empty, and not None, because vmap goes through it
    task: torch.Tensor | tuple[()] = ()  # int []: the number of the task, where there are several


class Network(nn.Module):
    """Encoder → pooling → linear. The encoder's own pooler is kept outside of it, so that all families look alike."""

    def __init__(
        self, encoder: Encoder, kind: Kind, outputs: int, protocol: Protocol, others: Sequence[tuple[Kind, int]] = ()
    ) -> None:
        """`others` are the kinds and outputs of tasks that are learnt in between, each with a head of its own."""
        super().__init__()
        self.kind = kind
        self.tasks = ((kind, outputs), *others)
        self.pooling = protocol.pooling
        self.stream = Stream()
        self.token_types = encoder.anatomy.family.token_types
        self.position_offset = encoder.position_offset
        self.encoder = encoder.network()
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None
        hidden = encoder.anatomy.hidden
        self.pooler = _empty(hidden, hidden) if self.pooling == "pooler" and kind != "spans" else None
        self.head = _empty(hidden, outputs)
        self.others = nn.ModuleList(_empty(hidden, own) for _, own in others)
        if not protocol.dropout:
            for module in self.encoder.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
        layers = encoder.anatomy.layer_modules
        install(self.encoder, self.stream, [self.encoder.get_submodule(name) for name in layers])
        self.parts = Parts(self.encoder, layers, self.stream)
        self.head_dropout = StreamDropout(protocol.head_dropout, self.stream, HEAD_SITE)

    def hidden_states(
        self,
        ids: torch.Tensor,
        types: torch.Tensor,
        mask: torch.Tensor,
        every_layer: bool = False,
        shared: Shared | tuple[()] = (),
    ) -> tuple[torch.Tensor, ...]:
        """The last layer's hidden states, or those of all layers 0..L."""
        dtype = self.encoder.get_input_embeddings().weight.dtype if self.parts.fold is None else self.parts.fold.dtype
        # A ready-made additive mask: given a plain one, transformers would look at its values, which vmap refuses.
        extra = {"token_type_ids": types} if self.token_types else {}
        if shared:  # an example attends to itself alone
            strange = (shared.owner[:, :, None] != shared.owner[:, None, :])[:, None]
            extra["position_ids"] = shared.position.long() + self.position_offset
        else:
            strange = ~mask[:, None, None, :]
        additive = strange.to(dtype) * torch.finfo(dtype).min
        out = self.encoder(input_ids=ids, attention_mask=additive, output_hidden_states=every_layer, **extra)
        return tuple(out.hidden_states) if every_layer else (out.last_hidden_state,)

    def forward(
        self,
        ids: torch.Tensor,
        types: torch.Tensor,
        mask: torch.Tensor,
        key: torch.Tensor | None = None,
        hidden: torch.Tensor | None = None,
        shared: Shared | tuple[()] = (),
    ) -> torch.Tensor:
        """Logits: [B, outputs], or [B, L, 2] for spans. In training the outputs of all tasks, one after the other.

        `key` is the dropout stream of this step; `hidden`, the last hidden states, if they are already known.
        """
        self.stream.key, self.stream.shared = key, shared or None
        try:
            if hidden is None:
                hidden = self.hidden_states(ids, types, mask, shared=shared)[0]
            return self._logits(hidden, mask, shared)
        finally:
            self.stream.key = self.stream.shared = None  # nothing of a vmapped or compiled pass may outlive it

    def _logits(self, hidden: torch.Tensor, mask: torch.Tensor, shared: Shared | tuple[()]) -> torch.Tensor:
        if self.kind != "spans":
            hidden = pool_shared(hidden, shared, self.pooling) if shared else pool(hidden, mask, self.pooling)
            if self.pooler is not None:
                hidden = torch.tanh(self.pooler(hidden))
        hidden = self.head_dropout(hidden)
        logits: torch.Tensor = self.head(hidden).float()
        if self.training and self.others:
            logits = torch.cat([logits, *(head(hidden).float() for head in self.others)], dim=-1)
        if self.kind == "spans":
            logits = logits.masked_fill(~mask[..., None], -1e4)
        return logits

    def loss(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The mean loss over the examples that are present, by the task that they belong to."""
        if not self.others:
            return batch_loss(logits, batch, self.kind)
        each, begin = [], 0
        for kind, outputs in self.tasks:
            # The labels of another task may be no labels of this one; what comes of them is not used.
            targets = batch.targets.long().clamp(0, outputs - 1) if kind == "classification" else batch.targets
            own = logits[..., begin : begin + outputs]
            each.append(batch_loss(own, batch._replace(targets=targets), kind))
            begin += outputs
        assert isinstance(batch.task, torch.Tensor)
        chosen: torch.Tensor = torch.arange(len(each), device=logits.device) == batch.task
        return torch.where(chosen, torch.stack(each), 0.0).sum()


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


def pool_shared(hidden: torch.Tensor, shared: Shared, pooling: str) -> torch.Tensor:
    """The same for examples that share lines."""
    slots = hidden.flatten(0, 1)
    if pooling != "mean":
        return slots[shared.starts]
    number = torch.arange(len(shared.starts), dtype=torch.int32, device=hidden.device)
    weight = (shared.owner.flatten() == number[:, None]).to(torch.float32)
    mean = (weight @ slots.float()) / weight.sum(1, keepdim=True).clamp(min=1.0)
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
