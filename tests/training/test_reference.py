"""The reference loop against what it claims to be: Hugging Face's networks, torch's optimisers, plain arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from families import FAMILIES, encoder_of

from palimpsest.encoders.loading import Encoder
from palimpsest.specs.intervention import PermuteLayers, Reinitialize
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.training import reference
from palimpsest.training.data import Data
from palimpsest.training.network import Network, pool
from palimpsest.training.preparation import Prepared


def prepare(encoder: Encoder, data: Data, interventions: tuple[Any, ...] = (), **protocol: Any) -> Prepared:
    fields = {"learning_rate": 1e-3, "epochs": 2, "evaluate": "epoch", "max_length": 16} | protocol
    trial = Trial(
        encoder=encoder.identity.name, task=data.task.name, size=20, interventions=interventions,
        protocol=Protocol.model_validate(fields), seeds=Seeds.of(1),
    )  # fmt: skip
    return Prepared(trial, data.task, encoder)


def batch_of(encoder: Encoder, data: Data) -> Any:
    padded = replace(data, pad_id=encoder.pad_id).on("cpu")[1]
    return padded.take(torch.arange(8), 16)


@pytest.mark.parametrize("family", FAMILIES)
def test_our_network_is_the_hugging_face_network(family: str, make_data: Callable[..., Data]) -> None:
    encoder, data = encoder_of(family), make_data(16, 8)
    batch = batch_of(encoder, data)
    network = Network(encoder, "classification", 2, Protocol()).train()
    types = {"token_type_ids": batch.types} if encoder.anatomy.family.token_types else {}
    with torch.no_grad():
        theirs = encoder.model(
            input_ids=batch.ids, attention_mask=batch.mask.long(), output_hidden_states=True, **types
        )
        every = network.hidden_states(batch.ids, batch.types, batch.mask, every_layer=True)
        last = network.hidden_states(batch.ids, batch.types, batch.mask)[0]
    real = batch.mask[..., None]
    assert len(every) == 4
    for ours, expected in zip(every, theirs.hidden_states, strict=True):
        torch.testing.assert_close(ours * real, expected * real, atol=2e-5, rtol=1e-4)
    assert torch.equal(last, every[-1])


def test_the_pooler_is_that_of_bert_for_sequence_classification(make_data: Callable[..., Data]) -> None:
    from transformers import BertForSequenceClassification

    encoder, data = encoder_of("bert"), make_data(16, 8)
    p = prepare(encoder, data, pooling="pooler", dropout=False)
    state = p.initial_state()
    network = Network(encoder, "classification", 2, p.protocol)
    network.load_state_dict(state)
    with torch.random.fork_rng():
        theirs = BertForSequenceClassification(encoder.model.config).eval()
    theirs.bert.load_state_dict(encoder.model.state_dict())
    theirs.classifier.load_state_dict({"weight": state["head.weight"], "bias": state["head.bias"]})
    batch = batch_of(encoder, data)
    with torch.no_grad():
        expected = theirs(input_ids=batch.ids, attention_mask=batch.mask.long(), token_type_ids=batch.types).logits
        ours = network.eval()(batch.ids, batch.types, batch.mask)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)


def test_training_is_what_one_would_write_by_hand(make_data: Callable[..., Data]) -> None:
    """Without dropout, on Hugging Face's own class, with torch's AdamW, clipping and linear decay."""
    from transformers import BertForSequenceClassification

    encoder, data = encoder_of("bert"), make_data(30, 8)
    p = prepare(
        encoder, data, (Reinitialize(layers=(3,)),), pooling="pooler", dropout=False, optimizer="adamw",
        weight_decay=0.1, clip=1.0, schedule="linear",
    )  # fmt: skip
    outcome = reference.train(p, data)
    state = p.initial_state()
    with torch.random.fork_rng():
        model = BertForSequenceClassification(encoder.model.config).eval()
    model.bert.load_state_dict(
        {n.removeprefix("encoder."): w for n, w in state.items() if n.startswith("encoder.")}, strict=False
    )
    model.bert.pooler.dense.load_state_dict({"weight": state["pooler.weight"], "bias": state["pooler.bias"]})
    model.classifier.load_state_dict({"weight": state["head.weight"], "bias": state["head.bias"]})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
    rows = p.training_rows()
    losses = []
    for step, taken in enumerate(rows):
        texts = [data.train.ids[data.train.offsets[r] : data.train.offsets[r + 1]] for r in taken if r >= 0]
        types = [data.train.types[data.train.offsets[r] : data.train.offsets[r + 1]] for r in taken if r >= 0]
        longest = max(map(len, texts))
        ids, kinds, mask = (torch.zeros(len(texts), longest, dtype=torch.long) for _ in range(3))
        for n, (text, kind) in enumerate(zip(texts, types, strict=True)):
            ids[n, : len(text)], kinds[n, : len(text)] = torch.as_tensor(text), torch.as_tensor(kind)
            mask[n, : len(text)] = 1
        labels = torch.as_tensor(data.train.targets[taken[taken >= 0]])
        loss = model(input_ids=ids, token_type_ids=kinds, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (len(rows) - step) / len(rows)
        optimizer.step()
        losses.append(loss.item())
    assert [step for step, _ in outcome.curve] == list(range(1, len(rows) + 1))
    np.testing.assert_allclose([loss for _, loss in outcome.curve], losses, atol=1e-4)


def test_every_example_once_per_epoch(make_data: Callable[..., Data]) -> None:
    p = prepare(encoder_of("bert"), make_data(30, 8), epochs=3)
    rows = p.training_rows().reshape(3, -1)
    for epoch in rows:
        assert sorted(epoch[epoch >= 0]) == sorted(p.examples)
    assert len({tuple(epoch) for epoch in rows}) == 3
    assert len(p.examples) == len(set(p.examples)) == 20


def test_rates(make_data: Callable[..., Data]) -> None:
    encoder, data = encoder_of("bert"), make_data(30, 8)

    def rates(**protocol: Any) -> list[float]:
        trial = Trial(encoder="bert", task="t", protocol=Protocol.model_validate({"learning_rate": 1.0} | protocol))
        return [round(float(r), 6) for r in Prepared(trial, data.task, encoder).rates(4)]

    assert rates() == [1, 1, 1, 1]
    assert rates(schedule="linear") == [1, 0.75, 0.5, 0.25]
    assert rates(warmup=0.5) == [0, 0.5, 1, 1]
    assert rates(warmup=0.5, schedule="linear") == [0, 0.5, 1, 0.5]


def test_rates_of_layers(make_data: Callable[..., Data]) -> None:
    encoder, data = encoder_of("bert"), make_data(30, 8)
    again, moved = Reinitialize(layers=(2, 3)), PermuteLayers(order=(3, 1, 2))
    assert prepare(encoder, data, (again,)).layer_rates() == {}
    assert prepare(encoder, data, (again,), reinitialized_rate=5).layer_rates() == {2: 5, 3: 5}
    assert prepare(encoder, data, (again, moved), reinitialized_rate=5).layer_rates() == {1: 5, 3: 5}
    assert prepare(encoder, data, (moved, again), reinitialized_rate=5).layer_rates() == {2: 5, 3: 5}
    assert prepare(encoder, data, (again,), reinitialized_rate=5, frozen_layers=(-1, 1)).layer_rates() == {
        1: 0,
        2: 5,
        3: 0,
    }


def test_frozen_layers_stay(make_data: Callable[..., Data], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, data = encoder_of("bert"), make_data(30, 8)
    kept: dict[str, torch.Tensor] = {}
    predict = reference.predict
    monkeypatch.setattr(
        reference, "predict", lambda network, *a: kept.update(network.state_dict()) or predict(network, *a)
    )
    reference.train(prepare(encoder, data, frozen_layers=(2,)), data)
    for name, weight in encoder.state.items():
        if "pooler" in name:
            continue
        still = torch.equal(kept[f"encoder.{name}"], weight)
        assert still == (encoder.anatomy.layer_of(name) == 2)


def test_pooling() -> None:
    hidden = torch.arange(12.0).reshape(1, 4, 3)
    mask = torch.tensor([[True, True, False, False]])
    assert pool(hidden, mask, "mean").tolist() == [[1.5, 2.5, 3.5]]
    assert pool(hidden, mask, "cls").tolist() == [[0, 1, 2]]


def test_an_outcome_says_what_happened(make_data: Callable[..., Data]) -> None:
    encoder, data = encoder_of("bert"), make_data(30, 8)
    steps: list[int] = []
    outcome = reference.train(prepare(encoder, data), data, on_step=steps.append)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert (outcome.status, outcome.steps, outcome.train_examples) == ("finished", 6, 20)
    assert outcome.metrics == outcome.epochs[-1].metrics
    losses = [loss for _, loss in outcome.curve]
    for epoch, part in zip(outcome.epochs, np.array_split(losses, 2), strict=True):
        assert epoch.train_loss == pytest.approx(part.mean(), abs=1e-6)
    assert encoder.state.keys() == encoder_of("bert").state.keys()


def test_evaluating_at_the_end_leaves_out_only_the_epochs_before(make_data: Callable[..., Data]) -> None:
    encoder, data = encoder_of("bert"), make_data(30, 8)
    whole = reference.train(prepare(encoder, data, epochs=3), data)
    once = reference.train(prepare(encoder, data, epochs=3, evaluate="end"), data)
    assert [epoch.epoch for epoch in whole.epochs] == [1, 2, 3]
    assert once.epochs == whole.epochs[-1:]
    assert replace(once, epochs=whole.epochs) == whole


def test_it_learns(make_data: Callable[..., Data]) -> None:
    data = make_data(60, 24)
    trial = Trial(
        encoder="bert", task=data.task.name,
        protocol=Protocol(learning_rate=5e-3, epochs=8, evaluate="epoch", max_length=16, dropout=False),
    )  # fmt: skip
    outcome = reference.train(Prepared(trial, data.task, encoder_of("bert")), data)
    assert outcome.epochs[-1].train_loss < 0.3 < outcome.epochs[0].train_loss
    assert outcome.metrics["accuracy"] > 0.7
