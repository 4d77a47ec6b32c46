"""The state of an unfinished run: written under another name and renamed, so a crash leaves the last one whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from palimpsest.errors import TrainingError

if TYPE_CHECKING:
    from palimpsest.pretraining.loop import Trainer


def save_state(path: Path, trainer: Trainer) -> None:
    partial = path.with_name(path.name + ".partial")
    torch.save(
        {
            "weights": trainer.objective.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "step": trainer.step,
            "seconds": trainer.seconds,
        },
        partial,
    )
    partial.replace(path)


def load_state(path: Path, trainer: Trainer) -> None:
    try:
        state = torch.load(path, map_location=trainer.device, weights_only=True)
        trainer.objective.load_state_dict(state["weights"])
        trainer.optimizer.load_state_dict(state["optimizer"])
        trainer.step, trainer.seconds = state["step"], state["seconds"]
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise TrainingError(
            f"{path}: the state of the earlier run does not fit this one ({str(error).splitlines()[0]}). "
            "Start anew without resuming, or give another output directory."
        ) from error
