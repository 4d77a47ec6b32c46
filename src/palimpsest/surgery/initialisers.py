"""New values for re-initialised weights, drawn from the trial's own stream, on whatever device the weights live."""

from __future__ import annotations

import math

import torch

from palimpsest import streams
from palimpsest.specs.protocol import Initialiser


def draw(
    shape: tuple[int, ...], law: Initialiser, *stream: int | str, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """A tensor from the law, out of the stream named by these words (a purpose, a seed, the weight's name)."""
    count = math.prod(shape)
    k0, k1 = streams.key(*stream)
    u = streams.uniform(torch.arange(count, dtype=torch.int32, device=device), k0, k1)
    # Inverse of the normal distribution function, restricted to the part between the cuts.
    reach = math.erf(law.cut / law.std / math.sqrt(2)) if law.cut is not None else 1.0
    values = torch.erfinv((2 * u - 1) * reach) * (law.std * math.sqrt(2))
    if law.cut is not None:
        values = values.clamp_(-law.cut, law.cut)
    return values.reshape(shape)
