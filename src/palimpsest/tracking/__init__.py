"""For those who already have a home for runs: every trial that ends is told to TensorBoard, W&B or MLflow.

The store stays the one place of results; a tracker only gets copies. ``open_tracker("tensorboard:DIR")`` finds one by
name; each is an extra of its own and is imported only when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from palimpsest.errors import SpecError, UnknownName
from palimpsest.tracking.base import Tracker

__all__ = ["TRACKERS", "Tracker", "open_tracker"]

TRACKERS = {
    "tensorboard": ("palimpsest.tracking.tensorboard:TensorBoard", "tensorboard"),
    "wandb": ("palimpsest.tracking.wandb:WeightsAndBiases", "wandb"),
    "mlflow": ("palimpsest.tracking.mlflow:MLflow", "mlflow"),
}
"""Where each tracker is, and the package that it needs."""


def open_tracker(where: str) -> Tracker:
    """``tensorboard:DIR``, ``wandb:PROJECT`` or ``mlflow:URI``."""
    name, _, place = where.partition(":")
    if name not in TRACKERS:
        raise UnknownName("tracker", name, TRACKERS, hint="(--track NAME:PLACE)")
    path, package = TRACKERS[name]
    if not place:
        raise SpecError(f"--track {where} does not say where to; give {name}:PLACE")
    if find_spec(package) is None:
        raise SpecError(f"tracking with {name} needs the package {package}: pip install 'palimpsest-lm[{name}]'")
    module, _, kind = path.partition(":")
    tracker: Tracker = getattr(import_module(module), kind)(place)
    return tracker
