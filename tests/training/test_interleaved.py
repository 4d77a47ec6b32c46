"""Several tasks at once: stacked, trials learn what they learn in the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from families import FAMILIES, encoder_of

from palimpsest.specs.intervention import DeleteLayers, PermuteLayers, Reinitialize
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Companion, Seeds, Trial
from palimpsest.training import interleaved, stacked
from palimpsest.training.data import Data
from palimpsest.training.graphs import GraphStepper
from palimpsest.training.preparation import Prepared
from palimpsest.training.stack import Stack, assemble
from palimpsest.training.stepper import HostStepper
from palimpsest.training.together import can_be_stacked, schedule, united, united_schedule

MakeData = Callable[..., Data]
BASE = {"learning_rate": 1e-3, "epochs": 2, "evaluate": "epoch", "batch_size": 4, "max_length": 16}
PROTOCOLS: dict[str, list[dict[str, Any]]] = {
    "adam": [{}, {"clip": 0.1, "schedule": "linear"}, {"reinitialized_rate": 5.0}],
    "adamw": [{"optimizer": "adamw", "weight_decay": 0.1}] * 3,
    "pooler": [{"pooling": "pooler", "head_dropout": 0.3}] * 3,
}


def named(data: Data, name: str, labels: int = 2) -> Data:
    """The same data as another task, of which the labels may be others."""
    task = replace(data.task, name=name)
    if task.kind == "classification":
        rng = np.random.default_rng(labels)
        task = replace(task, labels=tuple(map(str, range(labels))))
        splits = (replace(s, targets=rng.integers(0, labels, len(s))) for s in (data.train, data.validation))
        data = replace(data, **dict(zip(("train", "validation"), splits, strict=True)))
    return replace(data, task=task)


@pytest.fixture
def data(make_data: MakeData) -> Data:
    """Two classes, and beside them numbers and four classes."""
    numbers = named(make_data(30, 16, kind="regression", seed=3), "numbers")
    return replace(make_data(40, 16), beside=(numbers, named(make_data(26, 16, seed=5), "four", labels=4)))


def prepared(encoder: Any, data: Data, protocols: list[dict[str, Any]]) -> list[Prepared]:
    beside = tuple(Companion(task=own.task.name, size=size) for own, size in zip(data.beside, (9, 6), strict=True))
    interventions = [(), (Reinitialize(layers=(2, 3)),), (PermuteLayers(order=(2, 3, 1)),)]
    return [
        Prepared(
            Trial(
                encoder="tiny", task=data.task.name, size=10, alongside=beside, interventions=i, seeds=Seeds.of(n),
                protocol=Protocol.model_validate(BASE | p),
            ),
            data.task, encoder,
        )
        for n, (p, i) in enumerate(zip(protocols, interventions, strict=True))
    ]  # fmt: skip


def test_united_rows_are_the_tasks_own(tiny_encoder: Any, data: Data) -> None:
    trial = prepared(tiny_encoder, data, PROTOCOLS["adam"])[0]
    together, tasks = united(data), (data, *data.beside)
    rows, numbers = united_schedule(trial, data)
    assert sorted(set(numbers)) == [0, 1, 2]
    for (number, own), row, again in zip(schedule(trial, data), rows, numbers, strict=True):
        assert number == again
        for mine, theirs in zip(own, row, strict=True):
            if mine < 0:
                assert theirs == -1
                continue
            train = tasks[number].train
            one, other = (split.ids[split.offsets[n] : split.offsets[n + 1]] for split, n in (
                (train, mine), (together.train, theirs)))  # fmt: skip
            np.testing.assert_array_equal(one, other)
            assert train.targets[mine] == together.train.targets[theirs]


@pytest.mark.parametrize("kind", list(PROTOCOLS))
def test_stacked_is_the_plain_loop(tiny_encoder: Any, data: Data, kind: str) -> None:
    trials = prepared(tiny_encoder, data, PROTOCOLS[kind])
    for outcome, p in zip(stacked.train(trials, data), trials, strict=True):
        plain = interleaved.train(p, data)
        assert (outcome.status, outcome.steps, outcome.train_examples) == ("finished", plain.steps, 10)
        assert outcome.predictions == plain.predictions
        np.testing.assert_allclose(outcome.curve, plain.curve, rtol=1e-4, atol=1e-5)
        for one, other in zip(outcome.epochs, plain.epochs, strict=True):
            assert (one.train_loss, one.validation_loss) == pytest.approx(
                (other.train_loss, other.validation_loss), rel=1e-4
            )


@pytest.mark.parametrize("family", FAMILIES)
def test_in_all_families_with_sizes_and_lengths_of_their_own(data: Data, family: str) -> None:
    encoder = encoder_of(family)
    padded = [replace(own, pad_id=encoder.pad_id) for own in (data, *data.beside)]
    data = replace(padded[0], beside=tuple(padded[1:]))
    until = {"epochs": 5, "converge": {"tolerance": 0.2, "patience": 1}, "learning_rate": 3e-3}
    trials = [
        replace(p, trial=p.trial.model_copy(update={"size": size, "interventions": ()}))
        for p, size in zip(prepared(encoder, data, [until] * 3), (10, 7, 13), strict=True)
    ]
    outcomes = stacked.train(trials, data)
    assert len({outcome.steps for outcome in outcomes}) > 1
    for outcome, p in zip(outcomes, trials, strict=True):
        plain = interleaved.train(p, data)
        assert (outcome.steps, outcome.predictions) == (plain.steps, plain.predictions)
        np.testing.assert_allclose(outcome.curve, plain.curve, rtol=1e-3, atol=1e-4)


def test_numbers_may_be_the_trials_own_task(tiny_encoder: Any, data: Data) -> None:
    first, *others = data.beside
    turned = replace(first, beside=(replace(data, beside=()), *others))
    trials = prepared(tiny_encoder, turned, PROTOCOLS["adam"])
    for outcome, p in zip(stacked.train(trials, turned), trials, strict=True):
        plain = interleaved.train(p, turned)
        assert outcome.metrics == pytest.approx(plain.metrics, rel=1e-3, abs=1e-4)
        np.testing.assert_allclose(outcome.curve, plain.curve, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", list(PROTOCOLS))
@pytest.mark.parametrize("compiled", [False, True])
def test_steps_on_a_gpu_are_those_on_the_host(
    tiny_encoder: Any, data: Data, kind: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    trials = prepared(tiny_encoder, data, PROTOCOLS[kind])
    host = HostStepper(Stack(assemble(trials, data), torch.device("cpu")))
    device = GraphStepper(Stack(assemble(trials, data, 5), torch.device("cpu")), torch.float32, compiled=compiled)
    for step in range(host.stack.pack.steps):
        host.advance(step)
        device.compute(device.shapes.at[step])
    np.testing.assert_allclose(device.losses()[:3], host.losses(), rtol=1e-4)
    for name, weight in host.working().items():
        if not name.endswith("key.bias"):  # attention ignores it: its gradient is rounding, which Adam makes large
            torch.testing.assert_close(device.working()[name][:3], weight, rtol=1e-3, atol=1e-5, msg=name)


def test_a_head_learns_from_its_own_task_alone(tiny_encoder: Any, data: Data) -> None:
    stepper = HostStepper(Stack(assemble(prepared(tiny_encoder, data, PROTOCOLS["adamw"]), data), torch.device("cpu")))
    pack = stepper.stack.pack
    assert pack.tasks is not None
    for step in range(pack.steps):
        before = {name: stepper.working()[name].detach().clone() for name in stepper.stack.heads}
        stepper.advance(step)
        for t in range(3):
            resting = stepper.stack.resting(t, step)
            assert len(resting) == 4
            moved = {name for name in before if not torch.equal(before[name][t], stepper.working()[name][t])}
            assert moved == set(before) - set(resting)


def test_what_goes_wrong_on_another_task_is_said(tiny_encoder: Any, data: Data) -> None:
    trials = prepared(tiny_encoder, data, [{"learning_rate": 1e30}, {}, {}])
    ruined, *whole = stacked.train(trials, data)
    plain = interleaved.train(trials[0], data)
    assert (ruined.status, plain.status) == ("failed", "failed")
    assert ruined.reason.split(" became ")[0] == plain.reason.split(" became ")[0]
    assert ruined.reason.startswith("the training loss on ")
    assert [outcome.status for outcome in whole] == ["finished", "finished"]


def test_fewer_layers(tiny_encoder: Any, data: Data) -> None:
    base = prepared(tiny_encoder, data, PROTOCOLS["adam"])[0]
    p = replace(base, trial=base.trial.model_copy(update={"interventions": (DeleteLayers(layers=(2,)),)}))
    outcome, plain = stacked.train([p], data)[0], interleaved.train(p, data)
    assert outcome.predictions == plain.predictions


def test_spans_are_for_the_plain_loop(data: Data) -> None:
    spans = replace(data.beside[0], task=replace(data.beside[0].task, kind="spans"))
    assert can_be_stacked(data)
    assert can_be_stacked(replace(spans, beside=()))
    assert not can_be_stacked(replace(data, beside=(spans,)))
