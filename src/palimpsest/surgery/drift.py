"""How far weights have moved: distances between the weight matrices of two encoders, layer by layer."""

from __future__ import annotations

from typing import get_args

import torch

from palimpsest.encoders.anatomy import Anatomy, Role
from palimpsest.encoders.loading import State

MATRICES: tuple[Role, ...] = get_args(Role)
DISTANCES = ("frobenius", "spectral", "frobenius_relative", "spectral_relative")

Drift = dict[str, dict[str, list[float]]]


@torch.no_grad()
def drift(before: State, after: State, anatomy: Anatomy) -> Drift:
    """``[matrix][distance]`` → one number per layer, from the first to the last.

    Distances are norms of the difference; the relative ones are divided by the same norm of the weight before.
    """
    found: Drift = {matrix: {distance: [] for distance in DISTANCES} for matrix in MATRICES}
    for layer in range(1, anatomy.depth + 1):
        for matrix in MATRICES:
            name = anatomy.weight(layer, matrix)
            old = before[name].to(after[name].device).float()
            frobenius, spectral = _norms(after[name].float() - old)
            old_frobenius, old_spectral = _norms(old)
            values = (frobenius, spectral, _ratio(frobenius, old_frobenius), _ratio(spectral, old_spectral))
            for distance, value in zip(DISTANCES, values, strict=True):
                found[matrix][distance].append(float(f"{value:.7g}"))  # what single precision can tell
    return found


def _norms(weight: torch.Tensor) -> tuple[float, float]:
    """The Frobenius norm (the root of the sum of squares) and the spectral norm (the largest singular value)."""
    weight = weight.double()
    # Of the singular values only the largest is wanted, and for that the Gram matrix is exact enough and much cheaper.
    gram = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
    largest = torch.linalg.eigvalsh(gram)[-1].clamp(min=0.0).sqrt()
    return float(torch.linalg.matrix_norm(weight)), float(largest)


def _ratio(distance: float, norm: float) -> float:
    return distance / norm if norm else float("nan")
