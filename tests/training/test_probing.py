"""Probes trained together against a probe trained alone by an ordinary loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from palimpsest import streams
from palimpsest.encoders.loading import Encoder
from palimpsest.errors import TrainingError
from palimpsest.specs.intervention import Reinitialize
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Probe, Seeds, Trial
from palimpsest.tasks.base import Task
from palimpsest.training import probing
from palimpsest.training.batches import batch_rows
from palimpsest.training.data import Data
from palimpsest.training.dropout import keep_mask
from palimpsest.training.features import Source, features
from palimpsest.training.outcome import Outcome
from palimpsest.training.predictions import unpack
from palimpsest.training.preparation import Prepared

FAST = {"learning_rate": 0.05}


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.getbasetemp() / "features"  # shared: the tests use few encoders
    monkeypatch.setenv("PALIMPSEST_CACHE", str(folder))


@pytest.fixture
def prepare(tiny_encoder: Encoder, tiny_data: Data) -> Callable[..., Prepared]:
    def make(layer: int = 2, index: int = 0, data: Data = tiny_data, **given: Any) -> Prepared:
        probe = Probe(layer=layer, **{"epochs": 6, "patience": 6} | given.pop("probe", {}))
        protocol = Protocol(**FAST | given.pop("protocol", {}))
        trial = Trial(
            encoder="tiny", task=data.task.name, seeds=Seeds.of(index), probe=probe, protocol=protocol, **given
        )
        return Prepared(trial, data.task, tiny_encoder)

    return make


def plain(prepared: Prepared, data: Data) -> dict[str, Any]:
    """One probe, as plainly as it can be written."""
    trial, p, probe, task = prepared.trial, prepared.protocol, prepared.trial.probe, prepared.task
    assert probe is not None
    train, validation = (
        torch.tensor(np.array(x[probe.layer])) for x in features(prepared.encoder, data, "cpu", Source.of(prepared))
    )
    targets, validation_targets = torch.tensor(data.train.targets), torch.tensor(data.validation.targets)
    head = nn.Linear(train.shape[1], prepared.outputs)
    state = prepared.initial_state()
    head.load_state_dict({"weight": state["head.weight"], "bias": state["head.bias"]})
    kind = torch.optim.Adam if p.optimizer == "adam" else torch.optim.AdamW
    optimizer = kind(head.parameters(), betas=(p.beta1, p.beta2), eps=p.epsilon, weight_decay=p.weight_decay)

    def loss_of(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, wanted) if task.kind == "classification" else F.mse_loss(logits[:, 0], wanted)

    n = len(prepared.examples)
    held = max(1, round(n * probe.held_out))
    order = streams.permutation(n, "held out", trial.seeds.subsample)
    held_out, examples = prepared.examples[order[:held]], prepared.examples[order[held:]]
    rows = batch_rows(examples, probe.epochs, p.batch_size, trial.seeds.order)
    rates, keys = prepared.rates(len(rows)), torch.tensor(prepared.dropout_keys(len(rows)))
    site = streams.key("dropout site", 10_000)
    losses: list[float] = []
    held_losses: list[float] = []
    after: list[torch.Tensor] = []
    for step, batch in enumerate(rows):
        own = batch[batch >= 0]
        x = train[own]
        if p.head_dropout:
            x = x * keep_mask(x, p.head_dropout, keys[step, 0] ^ site[0], keys[step, 1] ^ site[1])
        loss = loss_of(head(x), targets[own])
        optimizer.zero_grad()
        loss.backward()
        if p.clip is not None:
            nn.utils.clip_grad_norm_(head.parameters(), p.clip)
        optimizer.param_groups[0]["lr"] = rates[step]
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % (len(rows) // probe.epochs) == 0:
            with torch.no_grad():
                held_losses.append(loss_of(head(train[held_out]), targets[held_out]).item())
                after.append(head(validation))
            best = int(np.argmin(held_losses))
            if len(held_losses) - 1 - best >= probe.patience:
                break
    logits = after[best]
    return {
        "losses": np.array(losses),
        "held_out_loss": held_losses[best],
        "best_epoch": best + 1,
        "epochs": len(held_losses),
        "validation": [loss_of(one, validation_targets).item() for one in after],
        "predictions": logits.argmax(1).numpy() if task.kind == "classification" else logits[:, 0].numpy(),
    }


def agree(outcome: Outcome, wanted: dict[str, Any]) -> None:
    assert outcome.status == "finished"
    assert outcome.steps == len(wanted["losses"])
    np.testing.assert_allclose([loss for _, loss in outcome.curve], wanted["losses"], rtol=1e-4, atol=2e-6)
    assert outcome.measures["best_epoch"] == wanted["best_epoch"]
    assert outcome.measures["held_out_loss"] == pytest.approx(wanted["held_out_loss"], rel=1e-4)
    np.testing.assert_allclose([e.validation_loss for e in outcome.epochs], wanted["validation"], rtol=1e-4)
    np.testing.assert_allclose(unpack(outcome.predictions), wanted["predictions"], rtol=1e-4, atol=1e-5)


VARIANTS: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "adamw, decay, schedule, clipping": {
        "protocol": {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "linear", "warmup": 0.1, "clip": 0.05}
    },
    "dropout": {"protocol": {"head_dropout": 0.3}},
    "first token": {"protocol": {"pooling": "cls"}},
    "own pooler": {"protocol": {"pooling": "pooler"}},
    "fresh pooler": {"protocol": {"pooling": "pooler", "pooler": "reset"}},
    "re-initialised encoder": {"interventions": (Reinitialize(layers=(2, 3)),)},
    "a part of the examples": {"size": 21, "protocol": {"batch_size": 4}},
    "early stopping": {"protocol": {"learning_rate": 1.0}, "probe": {"epochs": 40, "patience": 2, "held_out": 0.3}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_probe_alone(prepare: Callable[..., Prepared], tiny_data: Data, variant: str) -> None:
    prepared = prepare(index=1, **{k: dict(v) if isinstance(v, dict) else v for k, v in VARIANTS[variant].items()})
    (outcome,) = probing.train([prepared], tiny_data)
    agree(outcome, plain(prepared, tiny_data))


def test_probes_of_all_kinds_together(prepare: Callable[..., Prepared], tiny_data: Data) -> None:
    trials = [
        prepare(layer, index, **{k: dict(v) if isinstance(v, dict) else v for k, v in variant.items()})
        for index, variant in enumerate(VARIANTS.values())
        for layer in (0, 3)
    ]
    for prepared, outcome in zip(trials, probing.train(trials, tiny_data), strict=True):
        agree(outcome, plain(prepared, tiny_data))


def test_different_sizes_and_lengths_of_training_together(prepare: Callable[..., Prepared], tiny_data: Data) -> None:
    trials = [
        prepare(layer, index, size=size, probe={"epochs": epochs, "patience": patience})
        for index, (size, epochs, patience) in enumerate([(60, 2, 1), (7, 9, 9), (30, 5, 2), (2, 3, 1)])
        for layer in range(4)
    ]
    outcomes = probing.train(trials, tiny_data)
    for prepared, outcome in zip(trials, outcomes, strict=True):
        agree(outcome, plain(prepared, tiny_data))
    assert {o.train_examples for o in outcomes} == {60, 7, 30, 2}


def test_regression(prepare: Callable[..., Prepared], make_data: Callable[..., Data]) -> None:
    data = make_data(kind="regression")
    trials = [prepare(layer, layer, data, protocol={"learning_rate": 0.02}) for layer in range(4)]
    for prepared, outcome in zip(trials, probing.train(trials, data), strict=True):
        agree(outcome, plain(prepared, data))
        assert outcome.metrics["pearson"] > 0.5


def test_gathering_in_small_pieces_changes_nothing(
    prepare: Callable[..., Prepared], tiny_data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [prepare(layer, index) for layer in range(4) for index in range(2)]
    whole = probing.train(trials, tiny_data)
    monkeypatch.setitem(probing._GATHERED, "cpu", 1)
    assert probing.train(trials, tiny_data) == whole


def test_probes_learn_and_the_best_epoch_counts(
    prepare: Callable[..., Prepared], make_data: Callable[..., Data]
) -> None:
    data = make_data(300, 100)
    trials = [prepare(1, i, data, probe={"epochs": 40, "patience": 3, "held_out": 0.25}) for i in range(4)]
    for outcome in probing.train(trials, data):
        best = outcome.measures["best_epoch"]
        assert outcome.metrics == outcome.epochs[best - 1].metrics
        assert outcome.measures["held_out_loss"] < np.log(2) * 0.9  # a guess would have log 2
        assert len(outcome.epochs) == min(40, best + 3)
        assert outcome.steps == 29 * len(outcome.epochs)
        hits = np.asarray(unpack(outcome.predictions)) == data.validation.targets
        assert outcome.metrics["accuracy"] == hits.mean()
        assert outcome.measures["held_out_examples"] == 75


def test_a_probe_that_diverges_fails_alone(prepare: Callable[..., Prepared], tiny_data: Data) -> None:
    healthy = prepare(1, 0)
    diverging = prepare(1, 0, protocol={"learning_rate": 1e38})
    outcomes = probing.train([diverging, healthy], tiny_data)
    assert outcomes[0].status == "failed"
    assert "loss became" in outcomes[0].reason
    assert outcomes[0].steps < outcomes[1].steps
    agree(outcomes[1], plain(healthy, tiny_data))


def test_progress_is_told(prepare: Callable[..., Prepared], tiny_data: Data) -> None:
    short, long = prepare(1, 0, probe={"epochs": 1}), prepare(1, 1, probe={"epochs": 3})
    steps: list[tuple[int, int]] = []
    ended: list[tuple[Prepared, int]] = []
    outcomes = probing.train(
        [long, short],
        tiny_data,
        on_step=lambda step, running: steps.append((step, running)),
        on_finish=lambda prepared, outcome: ended.append((prepared, outcome.steps)),
    )
    per_epoch = outcomes[1].steps
    assert steps == [(n + 1, 2 if n < per_epoch else 1) for n in range(3 * per_epoch)]
    assert ended == [(short, per_epoch), (long, 3 * per_epoch)]


def test_what_cannot_be_probed(prepare: Callable[..., Prepared], tiny_data: Data, tiny_encoder: Encoder) -> None:
    spans = Task("questions", "spans", (), ("f1",), lambda: (tiny_data.task.train, tiny_data.task.validation))
    with pytest.raises(TrainingError, match="one label per example"):
        probing.train([Prepared(prepare().trial, spans, tiny_encoder)], tiny_data)
    with pytest.raises(TrainingError, match=r"layers 0 \(embeddings\) to 3"):
        probing.train([prepare(4)], tiny_data)
    with pytest.raises(TrainingError, match="at least two examples"):
        probing.train([prepare(size=1)], tiny_data)
    finetuning = Trial(encoder="tiny", task=tiny_data.task.name)
    with pytest.raises(TrainingError, match="no probe"):
        probing.train([Prepared(finetuning, tiny_data.task, tiny_encoder)], tiny_data)
