"""TensorBoard: a folder of event files, one subfolder per trial."""

from __future__ import annotations

import json
from pathlib import Path

from torch.utils.tensorboard.writer import SummaryWriter

from palimpsest.specs.trial import Trial
from palimpsest.tracking.base import Tracker, config_of, final_of, name_of, scalars_of
from palimpsest.training.outcome import Outcome


class TensorBoard(Tracker):
    def __init__(self, place: str) -> None:
        self._folder = Path(place)

    def log(self, trial: Trial, outcome: Outcome) -> None:
        writer = SummaryWriter(str(self._folder / name_of(trial)))
        try:
            config = json.dumps(config_of(trial), indent=2)
            writer.add_text("config", f"```\n{config}\n```")
            writer.add_text("status", outcome.status + (f": {outcome.reason}" if outcome.reason else ""))
            for name, step, value in scalars_of(outcome):
                writer.add_scalar(name, value, step)
            for name, value in final_of(outcome).items():
                writer.add_scalar(name, value, outcome.steps)
        finally:
            writer.close()
