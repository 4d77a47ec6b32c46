"""Weights & Biases. Where WANDB_MODE is ``offline``, runs are written to WANDB_DIR and can be synchronised later."""

from __future__ import annotations

from typing import Any

import wandb

from palimpsest.specs.trial import Trial
from palimpsest.tracking.base import Tracker, config_of, final_of, name_of, scalars_of
from palimpsest.training.outcome import Outcome


class WeightsAndBiases(Tracker):
    def __init__(self, place: str) -> None:
        self._project = place

    def log(self, trial: Trial, outcome: Outcome) -> None:
        settings = wandb.Settings(console="off", silent=True)
        run = wandb.init(
            project=self._project, name=name_of(trial), id=trial.identity, config=config_of(trial), resume="allow",
            reinit="finish_previous", settings=settings,
        )  # fmt: skip
        steps: dict[int, dict[str, Any]] = {}
        for name, step, value in scalars_of(outcome):
            steps.setdefault(step, {})[name] = value
        for step in sorted(steps):
            run.log(steps[step], step=step)
        run.summary.update({**final_of(outcome), "status": outcome.status, "reason": outcome.reason})
        run.finish(exit_code=0 if outcome.status == "finished" else 1)
