"""How far weights have moved: distances between the weight matrices of two encoders, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, get_args

import torch

from palimpsest.encoders.anatomy import Anatomy, Role
from palimpsest.encoders.loading import State

MATRICES: tuple[Role, ...] = get_args(Role)
DISTANCES = ("frobenius", "spectral", "frobenius_relative", "spectral_relative")

_LANCZOS_STEPS = 64
_NOISE = 1e-10

Drift = dict[str, dict[str, list[float]]]


class Norms(NamedTuple):
    """Of the weight matrices of an encoder: one row per kind of matrix (see MATRICES), one column per layer."""

    frobenius: torch.Tensor  # the root of the sum of squares
    spectral: torch.Tensor  # the largest singular value


def norms(state: State, anatomy: Anatomy, device: torch.device | str) -> Norms:
    """The norms of an encoder's weight matrices, computed on a device."""
    return _norms(lambda name: state[name].to(device), anatomy)


def drift(before: State, after: State, anatomy: Anatomy, norms_before: Norms | None = None) -> Drift:
    """``[matrix][distance]`` → one number per layer, from the first to the last.

    Distances are norms of the difference; the relative ones are divided by the same norm of the weight before, which
    whoever measures many encoders against one computes once. All is done where the weights after are, in one go: a GPU
    is waited for once.
    """
    device = next(iter(after.values())).device
    moved = _norms(lambda name: after[name].float() - before[name].to(device).float(), anatomy)
    size = norms_before or norms(before, anatomy, device)
    relative = [a / b.to(a).where(b.to(a) > 0, torch.nan) for a, b in zip(moved, size, strict=True)]
    values = torch.stack([*moved, *relative]).tolist()
    return {
        matrix: {
            distance: [float(f"{value:.7g}") for value in values[d][m]]  # what single precision can tell
            for d, distance in enumerate(DISTANCES)
        }
        for m, matrix in enumerate(MATRICES)
    }


@torch.no_grad()
def _norms(weight: Callable[[str], torch.Tensor], anatomy: Anatomy) -> Norms:
    layers = range(1, anatomy.depth + 1)
    kinds = []
    for matrix in MATRICES:
        stack = torch.stack([weight(anatomy.weight(layer, matrix)) for layer in layers]).double()
        # Of the singular values only the largest is wanted: for that the smaller Gram matrix is exact enough.
        kinds.append(stack @ stack.mT if stack.shape[1] <= stack.shape[2] else stack.mT @ stack)
    grams = torch.cat(kinds)
    frobenius = grams.diagonal(dim1=1, dim2=2).sum(1).clamp(min=0).sqrt()
    shape = (len(MATRICES), anatomy.depth)
    return Norms(frobenius.view(shape), _largest_eigenvalues(grams).sqrt().view(shape))


def _largest_eigenvalues(matrices: torch.Tensor) -> torch.Tensor:
    """Of symmetric positive matrices [n, d, d], all at once, by Lanczos' method.

    A GPU decomposes matrices one after the other, which for those of an encoder takes seconds. In the space of a
    vector's images under the first powers of a matrix, the largest eigenvalue is already found to many digits.
    """
    n, size, _ = matrices.shape
    steps = min(_LANCZOS_STEPS, size)
    basis = matrices.new_zeros(n, size, steps)
    # Any vector will do that is not by chance at right angles to the one sought.
    vector = torch.arange(1.0, size + 1, dtype=matrices.dtype, device=matrices.device).cos().expand(n, -1).unsqueeze(2)
    for step in range(steps):
        known = basis[:, :, :step]
        full = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
        for _ in range(2):  # once is not enough to be at right angles to rounding
            vector = vector - known @ (known.mT @ vector)
        length = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
        # What is left of a vector from a space that is already known whole is noise: the rest of the basis stays zero.
        basis[:, :, step : step + 1] = torch.where(length > _NOISE * full, vector / length, 0.0)
        vector = matrices @ basis[:, :, step : step + 1]
    projected = (basis.mT @ (matrices @ basis)).cpu()
    largest: torch.Tensor = torch.linalg.eigvalsh(projected)[:, -1].clamp(min=0).to(matrices.device)
    return largest
