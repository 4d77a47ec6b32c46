"""Trackers get every trial that ends, as a run with its spec as configuration."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

import palimpsest.tracking
from palimpsest.errors import SpecError, UnknownName
from palimpsest.execution.worker import Event
from palimpsest.specs.intervention import Reinitialize
from palimpsest.specs.trial import Trial
from palimpsest.tracking import open_tracker
from palimpsest.tracking.base import config_of, name_of, scalars_of
from palimpsest.training.outcome import Epoch, Outcome

TRIAL = Trial(encoder="pocket", task="my/task", size=0.1, interventions=(Reinitialize(layers=(3, 4)),))
OUTCOME = Outcome(
    "finished", metric="accuracy", metrics={"accuracy": 0.8}, train_examples=40, steps=20,
    epochs=(Epoch(1, 0.7, 0.6, {"accuracy": 0.7}), Epoch(2, 0.5, 0.55, {"accuracy": 0.8})),
    curve=((5, 0.7), (10, math.nan), (15, 0.6), (20, 0.5)),
)  # fmt: skip
FAILED = Outcome("failed", "the training loss became nan at step 3", "accuracy", steps=2)
OTHER = TRIAL.model_copy(update={"task": "other"})


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with open_tracker(f"tensorboard:{tmp_path}") as tracker:
        tracker.show(Event("steps", steps=3))
        tracker.show(Event("trial", trial=TRIAL, outcome=OUTCOME))
        tracker.show(Event("trial", trial=OTHER, outcome=FAILED))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name_of(TRIAL), name_of(OTHER)])
    read = EventAccumulator(str(tmp_path / name_of(TRIAL)))
    read.Reload()
    assert [(e.step, round(e.value, 3)) for e in read.Scalars("train/loss")] == [(5, 0.7), (15, 0.6), (20, 0.5)]
    assert [(e.step, round(e.value, 3)) for e in read.Scalars("validation/accuracy")] == [(10, 0.7), (20, 0.8)]
    assert round(read.Scalars("final/accuracy")[0].value, 3) == 0.8
    text = read.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    config = json.loads(text.strip("`\n"))
    assert config == config_of(TRIAL)
    read = EventAccumulator(str(tmp_path / name_of(OTHER)))
    read.Reload()
    assert b"nan at step 3" in read.Tensors("status/text_summary")[0].tensor_proto.string_val[0]


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="the extra palimpsest-lm[wandb] is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    with open_tracker("wandb:a-project") as tracker:
        tracker.log(TRIAL, OUTCOME)
        tracker.log(OTHER, FAILED)
    runs = [path.parent.name for path in tmp_path.rglob("*.wandb")]
    assert len(runs) == 2
    assert any(TRIAL.identity in run for run in runs)


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="the extra palimpsest-lm[mlflow] is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    place = f"file:{tmp_path}"
    with open_tracker(f"mlflow:{place}") as tracker:
        tracker.log(TRIAL, OUTCOME)
        tracker.log(OTHER, FAILED)
    client = MlflowClient(place)
    experiment = client.get_experiment_by_name("palimpsest")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    good, bad = runs[name_of(TRIAL)], runs[name_of(OTHER)]
    assert (good.info.status, bad.info.status) == ("FINISHED", "FAILED")
    assert good.data.params["id"] == TRIAL.identity
    assert good.data.metrics["final/accuracy"] == 0.8
    assert [m.value for m in client.get_metric_history(good.info.run_id, "train/loss")] == [0.7, 0.6, 0.5]


def test_a_config_says_everything_and_scalars_are_numbers() -> None:
    config = config_of(TRIAL)
    assert config["protocol.learning_rate"] == 2e-5
    assert config["seeds.order"] == 0
    assert all(isinstance(v, str | int | float | bool | None) for v in config.values())
    assert all(math.isfinite(value) for _, _, value in scalars_of(OUTCOME))
    once = replace(OUTCOME, epochs=OUTCOME.epochs[-1:])  # the validation set was looked at in the end only
    assert ("validation/accuracy", 20, 0.8) in scalars_of(once)
    assert max(step for _, step, _ in scalars_of(once)) == 20
    assert "/" not in name_of(TRIAL)


def test_errors_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'tensorboard'"):
        open_tracker("tensorbord:here")
    with pytest.raises(SpecError, match="does not say where to"):
        open_tracker("tensorboard")
    monkeypatch.setattr(palimpsest.tracking, "find_spec", lambda _: None)
    with pytest.raises(SpecError, match=r"pip install 'palimpsest-lm\[wandb\]'"):
        open_tracker("wandb:project")
