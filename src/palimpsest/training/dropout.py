"""Dropout from the trial's own stream, put into an unmodified Hugging Face network.

The mask at an element is a function of (trial, step, place in the network, row of the batch, position, channel), not
of a global generator: so it is the same alone and in a pack, in the reference loop and stacked, on a CPU and a GPU, and
for any padded length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import nn

from palimpsest import streams

_ATTENTION = "palimpsest"
_ROW = 1 << 16  # positions are below this, so (row, position) pairs do not collide


class Places(Protocol):
    """Of every token [lines, L], which example it belongs to, and its position there (int32)."""

    @property
    def owner(self) -> torch.Tensor: ...

    @property
    def position(self) -> torch.Tensor: ...


class Stream:
    """The key of the current forward pass, None when dropout is off; and where examples that share lines are."""

    key: torch.Tensor | None = None  # int32 [2]
    shared: Places | None = None


class StreamDropout(nn.Module):
    """Stands where an ``nn.Dropout`` stood."""

    def __init__(self, p: float, stream: Stream, site: int) -> None:
        super().__init__()
        self.p = p
        self.stream = stream
        self.k0, self.k1 = streams.key("dropout site", site)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        key = self.stream.key
        if key is None or self.p == 0.0 or not self.training:
            return x
        # What has a line for each example again ([examples, channels]) shares nothing.
        shared = self.stream.shared if x.dim() > 2 else None
        return x * keep_mask(x, self.p, key[0] ^ self.k0, key[1] ^ self.k1, shared)


def keep_mask(
    x: torch.Tensor, p: float, k0: torch.Tensor, k1: torch.Tensor, shared: Places | None = None
) -> torch.Tensor:
    """0 with probability p, else 1/(1-p), for every element of x: [rows, …, positions, channels], [rows, channels].

    Of attention's weights [rows, heads, positions, positions] the channels are positions too.
    """
    row, channel = _own(x) if shared is None else _theirs(x, shared)
    row = streams.bits(row, k0, k1)
    word = streams.mix(row[..., None] ^ (channel * -1640531527)) & 0xFFFFFF  # the factor spreads neighbours apart
    return (word >= round(p * 2**24)).to(x.dtype) * (1.0 / (1.0 - p))


def _own(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers of (row, …, position) and of channels, where each example has a row."""
    *lead, channels = x.shape
    row = torch.zeros((), dtype=torch.int32, device=x.device)
    for n, size in enumerate(lead):
        stride = _ROW if n == len(lead) - 1 and len(lead) > 1 else size
        row = row[..., None] * stride + torch.arange(size, dtype=torch.int32, device=x.device)
    return row, torch.arange(channels, dtype=torch.int32, device=x.device)


def _theirs(x: torch.Tensor, shared: Places) -> tuple[torch.Tensor, torch.Tensor]:
    """The same numbers for examples that share lines: those that their tokens have in rows of their own."""
    if x.dim() == 3:
        row = shared.owner * _ROW + shared.position
        return row, torch.arange(x.shape[-1], dtype=torch.int32, device=x.device)
    heads = torch.arange(x.shape[1], dtype=torch.int32, device=x.device)[:, None]
    row = (shared.owner[:, None] * x.shape[1] + heads) * _ROW + shared.position[:, None]
    return row, shared.position[:, None, None]


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain attention whose dropout is the module's own (replaced) dropout; registered with transformers."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = torch.matmul(query, key.transpose(-1, -2)) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = module.dropout(torch.softmax(scores, dim=-1))
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def install(model: Any, stream: Stream, layers: Sequence[nn.Module]) -> None:
    """Let all dropout of this Hugging Face model come from the stream.

    Places are numbered within their layer, so that all layers are alike; each layer's stream has a key of its own.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(_ATTENTION, attention)
    model.config._attn_implementation = _ATTENTION
    inside = {module for layer in layers for module in layer.modules()}
    for part in [[m for m in model.modules() if m not in inside], *(list(layer.modules()) for layer in layers)]:
        places = [(m, name, d) for m in part for name, d in m.named_children() if isinstance(d, nn.Dropout)]
        for site, (module, name, dropout) in enumerate(places):
            setattr(module, name, StreamDropout(dropout.p, stream, site))
