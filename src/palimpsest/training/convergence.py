"""When a training loss is flat."""

from __future__ import annotations

from collections.abc import Sequence

from palimpsest.specs.protocol import Convergence


def is_flat(losses: Sequence[float], criterion: Convergence) -> bool:
    """Whether the last `patience` of these mean losses of epochs have not lowered the loss by what is asked for."""
    if len(losses) <= criterion.patience:
        return False
    enough = criterion.tolerance * losses[0]
    best = losses[0]
    idle = 0
    for loss in losses[1:]:
        idle = 0 if loss <= best - enough else idle + 1
        best = min(best, loss)
    return idle >= criterion.patience
