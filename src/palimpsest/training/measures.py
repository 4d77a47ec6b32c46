"""What becomes of a trial's final weights: kept for a trial that comes after it, and measured as numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Literal

import torch
from torch.func import functional_call

from palimpsest.encoders.loading import Encoder, State
from palimpsest.surgery.drift import Norms, drift, norms
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
        found["drift"] = drift(body.state, weights, body.anatomy, _pretrained_norms(body, str(device)))
    if "cka" in asked:
        how: Literal["mean", "cls"] = "mean"
        if prepared.protocol.pooling != "mean" and prepared.task.kind != "spans":
            how = "cls"
        before = _pretrained_states(body, data, how, str(device))
        after = _states(body, weights, data, how, torch.device(device))
        # The device is waited for once, and not after each layer.
        alike = torch.stack([linear_cka(x, y) for x, y in zip(before, after, strict=True)]).tolist()
        found["cka"] = [round(value, 6) for value in alike]
    return found


def linear_cka(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Linear centred kernel alignment of two representations [n, d] of the same examples: 1 for alike, 0 for unrelated.

    It does not change when either is rotated, moved or scaled. NaN where one of them is constant.
    """
    x, y = (_centred(v.double()) for v in (x, y))
    across, within, there = (torch.linalg.matrix_norm(a.T @ b) for a, b in ((y, x), (x, x), (y, y)))
    alike: torch.Tensor = across**2 / (within * there)
    return alike


def _centred(x: torch.Tensor) -> torch.Tensor:
    """Zero, and not rounding noise, where all examples are the same: a first token's embedding is."""
    centred = x - x.mean(0)
    differs: torch.Tensor = torch.linalg.matrix_norm(centred) > 1e-6 * torch.linalg.matrix_norm(x)
    return centred * differs


@lru_cache(maxsize=2)
def _pretrained_norms(body: Encoder, device: str) -> Norms:
    return norms(body.state, body.anatomy, device)


@lru_cache(maxsize=1)  # they may be large, and lie on the device
def _pretrained_states(body: Encoder, data: Data, how: Literal["mean", "cls"], device: str) -> torch.Tensor:
    return _states(body, body.state, data, how, torch.device(device))


@torch.no_grad()
def _states(
    body: Encoder, weights: State, data: Data, how: Literal["mean", "cls"], device: torch.device
) -> torch.Tensor:
    """One vector per layer 0..L and validation example, [L + 1, n, hidden]."""
    own = chain(body.model.named_parameters(), body.model.named_buffers())
    state = {name: weights.get(name, tensor).to(device) for name, tensor in own}
    _, padded = data.on(device)
    shape = (body.anatomy.depth + 1, len(data.validation), body.anatomy.hidden)
    result = torch.empty(shape, device=device)
    for rows, hidden, mask in hidden_states(partial(_run, body.model, state), body, padded):
        result[:, torch.as_tensor(rows, device=device)] = torch.stack([pool(h.float(), mask, how) for h in hidden])
    return result


def _run(model: Any, state: State, **inputs: torch.Tensor) -> Any:
    """The network with other weights than its own, which may be on another device: nothing is copied."""
    return functional_call(model, dict(state), (), inputs)
