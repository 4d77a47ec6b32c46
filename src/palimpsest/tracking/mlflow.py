"""MLflow: an experiment called palimpsest at a tracking URI (``http://…``, ``sqlite:///…``), with a run per trial."""

from __future__ import annotations

import time

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from palimpsest.errors import SpecError
from palimpsest.specs.trial import Trial
from palimpsest.tracking.base import Tracker, config_of, final_of, name_of, scalars_of
from palimpsest.training.outcome import Outcome

_EXPERIMENT = "palimpsest"
_BATCH = 100  # entities that MLflow takes at once (parameters; of metrics it takes more)
_LONGEST = 500  # characters of a parameter


class MLflow(Tracker):
    def __init__(self, place: str) -> None:
        try:
            self._client = MlflowClient(tracking_uri=place)
            known = self._client.get_experiment_by_name(_EXPERIMENT)
            self._experiment = known.experiment_id if known else self._client.create_experiment(_EXPERIMENT)
        except MlflowException as error:
            raise SpecError(f"--track mlflow:{place} cannot be opened: {error}") from None

    def log(self, trial: Trial, outcome: Outcome) -> None:
        run = self._client.create_run(self._experiment, run_name=name_of(trial)).info.run_id
        now = int(time.time() * 1000)
        params = [Param(name, str(value)[:_LONGEST]) for name, value in config_of(trial).items()]
        metrics = [Metric(name, value, now, step) for name, step, value in scalars_of(outcome)]
        metrics += [Metric(name, value, now, outcome.steps) for name, value in final_of(outcome).items()]
        tags = [RunTag("status", outcome.status), RunTag("reason", outcome.reason[:_LONGEST])]
        self._client.log_batch(run, tags=tags)
        for begin in range(0, len(params), _BATCH):
            self._client.log_batch(run, params=params[begin : begin + _BATCH])
        for begin in range(0, len(metrics), _BATCH):
            self._client.log_batch(run, metrics=metrics[begin : begin + _BATCH])
        self._client.set_terminated(run, "FINISHED" if outcome.status == "finished" else "FAILED")
