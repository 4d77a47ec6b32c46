"""The stacked engine is held against the reference loop: alone, in small packs and in mixed ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from families import FAMILIES, encoder_of

from palimpsest.encoders.loading import Encoder
from palimpsest.specs.intervention import PermuteLayers, Reinitialize, ReinitializeHeads
from palimpsest.specs.protocol import Initialiser, Protocol
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.surgery.initialisers import draw
from palimpsest.tasks.base import Answers, Split, Task
from palimpsest.training import reference, stacked
from palimpsest.training.data import Data, prepare_data
from palimpsest.training.outcome import Outcome
from palimpsest.training.predictions import unpack
from palimpsest.training.preparation import Prepared
from palimpsest.training.stack import Stack, assemble
from palimpsest.training.stepper import HostStepper

BASE: dict[str, Any] = {"learning_rate": 1e-3, "epochs": 2, "evaluate": "epoch", "max_length": 16}


def prepare(encoder: Encoder, data: Data, index: int = 0, **fields: Any) -> Prepared:
    protocol = Protocol.model_validate(BASE | fields.pop("protocol", {}))
    trial = Trial(
        encoder=encoder.identity.name, task=data.task.name, protocol=protocol, seeds=Seeds.of(index), **fields
    )
    return Prepared(trial, data.task, encoder)


def mixture(encoder: Encoder, data: Data, **shared: Any) -> list[Prepared]:
    """Eight trials that have nothing in common but what the program depends on."""
    variants: list[dict[str, Any]] = [
        {"size": 24},
        {"size": 20, "interventions": (Reinitialize(layers=(2, 3)),)},
        {"size": 13, "interventions": (PermuteLayers(order=(3, 1, 2)),), "protocol": {"clip": 0.5, "pooler": "reset"}},
        {"size": 0.5, "interventions": (ReinitializeHeads(heads=((1, 2), (3, 1))),),
         "protocol": {"schedule": "linear"}},
        {"size": 7, "protocol": {"epochs": 3, "warmup": 0.3, "learning_rate": 3e-4, "evaluate": "end"}},
        {"size": 24, "interventions": (Reinitialize(layers=(3,)),), "protocol": {"reinitialized_rate": 5, "clip": 10}},
        {"size": 9, "protocol": {"frozen_layers": (1, -1), "schedule": "linear", "warmup": 0.5}},
        {"size": 16, "interventions": (Reinitialize(layers=(1, 2, 3)), PermuteLayers(order=(2, 3, 1))),
         "protocol": {"epochs": 1, "initialiser": {"cut": 0.0008, "biases": "keep"}, "reinitialized_rate": 0.5}},
    ]  # fmt: skip
    return [
        prepare(encoder, data, index, **(v | {"protocol": shared | v.get("protocol", {})}))
        for index, v in enumerate(variants)
    ]


def assert_same(a: Outcome, b: Outcome, tolerance: float = 1e-4) -> None:
    assert (a.status, a.metric, a.steps, a.train_examples) == (b.status, b.metric, b.steps, b.train_examples)
    np.testing.assert_allclose(np.array(a.curve), np.array(b.curve), atol=tolerance, rtol=tolerance)
    assert len(a.epochs) == len(b.epochs)
    for x, y in zip(a.epochs, b.epochs, strict=True):
        assert x.epoch == y.epoch
        np.testing.assert_allclose(
            [x.train_loss, x.validation_loss], [y.train_loss, y.validation_loss], atol=tolerance, rtol=tolerance
        )
    one, other = unpack(a.predictions), unpack(b.predictions)
    if isinstance(one, np.ndarray) and one.dtype.kind == "f":
        np.testing.assert_allclose(one, other, atol=10 * tolerance)
        assert a.metrics == pytest.approx(b.metrics, abs=10 * tolerance)
    else:
        assert list(one) == list(other)
        assert a.metrics == pytest.approx(b.metrics, abs=tolerance)  # thresholds are differences of logits


def fitted(encoder: Encoder, data: Data) -> Data:
    return replace(data, pad_id=encoder.pad_id)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mixed_pack_gives_what_the_reference_gives(family: str, make_data: Callable[..., Data]) -> None:
    encoder = encoder_of(family)
    data = fitted(encoder, make_data(30, 16))
    trials = mixture(encoder, data)
    expected = [reference.train(p, data) for p in trials]
    for ours, theirs in zip(stacked.train(trials, data), expected, strict=True):
        assert_same(ours, theirs)
    assert len({o.curve for o in expected}) == len(trials)


def test_alone_in_a_pair_or_in_a_crowd(make_data: Callable[..., Data]) -> None:
    encoder = encoder_of("bert")
    data = make_data(30, 16)
    trials = mixture(encoder, data)
    crowd = stacked.train(trials, data)
    for n in (1, 4, 7):
        [alone] = stacked.train([trials[n]], data)
        _, paired = stacked.train([trials[0], trials[n]], data)
        assert_same(alone, crowd[n])
        assert_same(paired, crowd[n])


@pytest.mark.parametrize(
    "shared",
    [
        {"pooling": "cls", "head_dropout": 0.3},
        {"pooling": "pooler"},
        {"pooling": "pooler", "pooler": "reset", "dropout": False},
        {"optimizer": "adamw"},
        {"optimizer": "adamw", "weight_decay": 0.1},
        {"beta1": 0.5, "beta2": 0.9, "epsilon": 1e-4, "batch_size": 5},
        {"padding": "max"},
        {"padding": "max", "max_length": 24},
        {"max_length": 12},
    ],
    ids=str,
)
def test_other_protocols(shared: dict[str, Any], make_data: Callable[..., Data]) -> None:
    encoder = encoder_of("bert")
    data = make_data(24, 12)
    trials = mixture(encoder, data, **shared)[:5]
    for ours, p in zip(stacked.train(trials, data), trials, strict=True):
        assert_same(ours, reference.train(p, data))


def test_regression(make_data: Callable[..., Data]) -> None:
    encoder = encoder_of("electra")
    data = make_data(24, 12, kind="regression")
    trials = mixture(encoder, data)[:4]
    for ours, p in zip(stacked.train(trials, data), trials, strict=True):
        assert_same(ours, reference.train(p, data))


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_spans(family: str, tiny_tokenizer: Any) -> None:
    encoder = encoder_of(family, tiny_tokenizer)
    context = "the king was born in the city of the river and the queen was not"
    questions = ["who was born", "where was the king born", "what is good", "who was not"] * 5
    found = [Answers(("king",), (4,)), Answers(("city",), (25,)), Answers((), ()), Answers(("queen",), (51,))] * 5
    contexts = [context[: 30 + n] + context * (n % 3) for n in range(20)]
    split = Split(questions, contexts, found)
    task = Task("tiny-spans", "spans", (), ("f1", "em"), lambda: (split, split))
    data = prepare_data(task, encoder, Protocol.model_validate(BASE | {"max_length": 24, "doc_stride": 4}))
    assert len(data.train) > 20
    trials = [
        prepare(encoder, data, 0, size=20, protocol={"max_length": 24}),
        prepare(encoder, data, 1, size=11, interventions=(Reinitialize(layers=(3,)),), protocol={"max_length": 24}),
    ]
    for ours, p in zip(stacked.train(trials, data), trials, strict=True):
        assert_same(ours, reference.train(p, data))


def final_weights(prepared: Prepared, data: Data, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """The weights that the reference loop ends with."""
    kept: dict[str, torch.Tensor] = {}
    predict = reference.predict

    def spy(network: Any, *args: Any) -> torch.Tensor:
        kept.update({name: p.detach().clone() for name, p in network.named_parameters()})
        return predict(network, *args)

    monkeypatch.setattr(reference, "predict", spy)
    reference.train(prepared, data)
    return kept


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_words_without_a_gradient_stay_where_they_are(
    optimizer: str, make_data: Callable[..., Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training only the words that occur is training them all."""
    encoder = encoder_of("bert")
    data = make_data(30, 16)
    p = prepare(encoder, data, size=6, protocol={"optimizer": optimizer})
    whole = final_weights(p, data, monkeypatch)
    stack = Stack(assemble([p], data), torch.device("cpu"))
    stepper = HostStepper(stack)
    for step in range(stack.pack.steps):
        stepper.advance(step)
    vocabulary, word = stack.vocabulary, stack.word
    table = encoder.state[encoder.anatomy.family.word_embeddings].clone()
    used = np.unique(
        np.concatenate([data.train.ids[data.train.offsets[r] : data.train.offsets[r + 1]] for r in p.examples])
    )
    unused = np.setdiff1d(np.arange(len(table)), used)
    assert len(unused) > 5
    assert torch.equal(whole[word][unused], table[unused])
    trained = stepper.working()[word][0]
    rows = vocabulary.number[torch.as_tensor(used)].long()
    torch.testing.assert_close(trained[rows], whole[word][used], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(whole[word][used], table[used], atol=1e-4)


def test_with_weight_decay_all_words_move(make_data: Callable[..., Data], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = encoder_of("bert")
    data = make_data(30, 16)
    p = prepare(encoder, data, size=6, protocol={"optimizer": "adamw", "weight_decay": 0.5})
    whole = final_weights(p, data, monkeypatch)
    stack = Stack(assemble([p], data), torch.device("cpu"))
    stepper = HostStepper(stack)
    for step in range(stack.pack.steps):
        stepper.advance(step)
    for name, view in stepper.working().items():
        if ".key.bias" not in name:  # has no gradient but rounding, which Adam blows up, and no effect
            torch.testing.assert_close(view[0], whole[name], atol=2e-5, rtol=1e-3)


# Trials that fail


def test_a_trial_that_diverges_fails_alone(make_data: Callable[..., Data]) -> None:
    encoder = encoder_of("bert")
    data = make_data(30, 16)
    good = mixture(encoder, data)[:3]
    bad = prepare(encoder, data, 9, size=24, protocol={"learning_rate": 1e30})
    finished: list[Prepared] = []
    outcomes = stacked.train([good[0], bad, *good[1:]], data, on_finish=lambda p, _: finished.append(p))
    failed = outcomes.pop(1)
    assert failed.status == "failed"
    assert failed.reason.startswith("the training loss became nan at step ")
    assert failed.steps == len(failed.curve) >= 1
    assert (failed.metrics, failed.predictions) == ({}, "")
    for ours, theirs in zip(outcomes, stacked.train(good, data), strict=True):
        assert_same(ours, theirs, 1e-6)
    assert set(map(id, finished)) == set(map(id, [*good, bad]))
    alone = reference.train(bad, data)
    assert (alone.status, alone.reason, alone.steps) == (failed.status, failed.reason, failed.steps)


@pytest.mark.parametrize("engine", ["reference", "stacked"])
def test_a_trial_whose_last_step_ruins_it_does_not_finish(engine: str, make_data: Callable[..., Data]) -> None:
    """The loss of the only step is still a number, what the network then says is not."""
    encoder = encoder_of("bert")
    data = make_data(30, 16)
    p = prepare(encoder, data, size=8, protocol={"learning_rate": 1e30, "epochs": 1})
    outcome = reference.train(p, data) if engine == "reference" else stacked.train([p], data)[0]
    assert outcome.status == "failed"
    assert "validation" in outcome.reason


# Independence


def test_nobody_elses_random_numbers(make_data: Callable[..., Data]) -> None:
    encoder = encoder_of("bert")
    data = make_data(24, 12)
    trials = mixture(encoder, data, head_dropout=0.2)[:3]
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        before = torch.random.get_rng_state(), np.random.get_state()
        results.append([*stacked.train(trials, data), *(reference.train(p, data) for p in trials)])
        assert torch.equal(torch.random.get_rng_state(), before[0])
        np.testing.assert_equal(np.random.get_state(), before[1])
    assert results[0] == results[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_is_really_on(family: str, make_data: Callable[..., Data]) -> None:
    encoder = encoder_of(family)
    data = fitted(encoder, make_data(16, 8))
    on, off, other = (
        prepare(encoder, data, size=16, protocol={"dropout": True}),
        prepare(encoder, data, size=16, protocol={"dropout": False}),
        prepare(encoder, data, size=16),
    )
    other = replace(other, trial=other.trial.model_copy(update={"seeds": Seeds(dropout=1)}))
    curves = [reference.train(p, data).curve for p in (on, off, other)]
    assert len(set(curves)) == 3


def test_padding_does_not_matter(make_data: Callable[..., Data]) -> None:
    for family in FAMILIES:
        encoder = encoder_of(family)
        data = fitted(encoder, make_data(16, 8))
        for engine in (lambda p, d: reference.train(p, d), lambda p, d: stacked.train([p], d)[0]):
            one, other = (engine(prepare(encoder, data, protocol={"padding": pad}), data) for pad in ("dynamic", "max"))
            assert_same(one, other)


def test_every_source_of_variance_has_a_seed_of_its_own(make_data: Callable[..., Data]) -> None:
    encoder = encoder_of("bert")
    data = make_data(24, 12)
    base = Trial(
        encoder="bert", task=data.task.name, size=12, interventions=(Reinitialize(layers=(3,)),),
        protocol=Protocol.model_validate(BASE | {"epochs": 1}),
    )  # fmt: skip
    trials = [base] + [
        base.model_copy(update={"seeds": Seeds(**{name: 1})})
        for name in ("subsample", "classifier", "reinit", "order", "dropout")
    ]
    outcomes = stacked.train([Prepared(t, data.task, encoder) for t in trials], data)
    assert len({o.curve for o in outcomes}) == len(trials)


def test_a_layer_is_drawn_once_for_all_trials_of_a_seed(
    tiny_encoder: Encoder, tiny_data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials that preserve more or fewer layers re-initialise the others alike."""
    drawn: list[tuple[int | str, ...]] = []

    def counted(shape: tuple[int, ...], law: Initialiser, *stream: int | str, **options: Any) -> torch.Tensor:
        drawn.append(stream)
        return draw(shape, law, *stream, **options)

    monkeypatch.setattr("palimpsest.surgery.operations.draw", counted)
    depth = tiny_encoder.anatomy.depth
    kept = [() if k == depth else (Reinitialize(layers=tuple(range(k + 1, depth + 1))),) for k in range(depth + 1)]
    trials = [prepare(tiny_encoder, tiny_data, seed, size=8, interventions=i) for i in kept for seed in (0, 1)]
    stack = Stack(assemble(trials, tiny_data), torch.device("cpu"))
    stack.load()
    assert len(drawn) == len(set(drawn)) > depth
    for t, prepared in enumerate(trials):
        state = prepared.initial_state()
        for name, weight in stack.weights.items():
            if name != stack.word:
                assert torch.equal(weight[t], state[name])
