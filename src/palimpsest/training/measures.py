"""What becomes of a trial's final weights: kept for a trial that comes after it, and measured as numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import torch

from palimpsest.encoders.loading import Encoder, State
from palimpsest.surgery.drift import drift
from palimpsest.training.data import Data
from palimpsest.training.features import hidden_states
from palimpsest.training.network import pool
from palimpsest.training.preparation import Prepared


def conclude(prepared: Prepared, data: Data, final: Callable[[], State], device: torch.device | str) -> dict[str, Any]:
    """Keep the final weights of the encoder if a later trial needs them, and measure what the trial asks for.

    Both are about the encoder before this trial's task: the pretrained one, whatever trials or surgery came between.
    """
    asked = prepared.trial.measure
    if not asked and prepared.keep is None:
        return {}
    weights = final()
    if prepared.keep is not None:
        prepared.keep(weights)
    found: dict[str, Any] = {}
    body = prepared.body
    if "drift" in asked:
        found["drift"] = drift(body.state, weights, body.anatomy)
    if "cka" in asked:
        how: Literal["mean", "cls"] = "mean"
        if prepared.protocol.pooling != "mean" and prepared.task.kind != "spans":
            how = "cls"
        before = _pretrained_states(body, data, how, str(device))
        after = _states(body, weights, data, how, torch.device(device))
        found["cka"] = [round(linear_cka(x, y), 6) for x, y in zip(before, after, strict=True)]
    return found


def linear_cka(x: torch.Tensor, y: torch.Tensor) -> float:
    """Linear centred kernel alignment of two representations [n, d] of the same examples: 1 for alike, 0 for unrelated.

    It does not change when either is rotated, moved or scaled. NaN where one of them is constant.
    """
    x, y = (v.double() - v.double().mean(0) for v in (x, y))
    both = torch.linalg.matrix_norm(y.T @ x) ** 2
    return float(both / (torch.linalg.matrix_norm(x.T @ x) * torch.linalg.matrix_norm(y.T @ y)))


@lru_cache(maxsize=2)
def _pretrained_states(body: Encoder, data: Data, how: Literal["mean", "cls"], device: str) -> torch.Tensor:
    return _states(body, body.state, data, how, torch.device(device))


@torch.no_grad()
def _states(
    body: Encoder, weights: State, data: Data, how: Literal["mean", "cls"], device: torch.device
) -> torch.Tensor:
    """One vector per layer 0..L and validation example, [L + 1, n, hidden]."""
    model = body.network().eval()
    for name, parameter in model.named_parameters():
        if name in weights:
            parameter.copy_(weights[name])
    model.to(device)
    _, padded = data.on(device)
    shape = (body.anatomy.depth + 1, len(data.validation), body.anatomy.hidden)
    result = torch.empty(shape, device=device)
    for rows, hidden, mask in hidden_states(model, body, padded):
        result[:, torch.as_tensor(rows, device=device)] = torch.stack([pool(h.float(), mask, how) for h in hidden])
    return result
