"""What becomes of final weights: drift, CKA, trials that come after trials, deleted layers, training until flat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from families import FAMILIES, encoder_of
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.encoders.loading import Encoder, without
from palimpsest.errors import TrainingError
from palimpsest.specs.intervention import DeleteLayers, PermuteLayers, Reinitialize
from palimpsest.specs.protocol import Convergence, Protocol
from palimpsest.specs.trial import Companion, Probe, Seeds, Trial
from palimpsest.surgery.drift import MATRICES, drift, norms
from palimpsest.training import interleaved, probing, reference, stacked
from palimpsest.training.convergence import is_flat
from palimpsest.training.data import Data
from palimpsest.training.measures import linear_cka
from palimpsest.training.outcome import Outcome
from palimpsest.training.preparation import Prepared

MakeData = Callable[..., Data]


def prepare(
    encoder: Encoder, data: Data, index: int = 0, start: Any = None, keep: Any = None, **fields: Any
) -> Prepared:
    base = {"learning_rate": 1e-3, "epochs": 2, "evaluate": "epoch", "max_length": 16} | fields.pop("protocol", {})
    trial = Trial(
        encoder=encoder.identity.name, task=data.task.name, protocol=Protocol.model_validate(base),
        seeds=Seeds.of(index), **fields,
    )  # fmt: skip
    return Prepared(trial, data.task, encoder, start, keep)


def run(engine: str, trials: list[Prepared], data: Data) -> list[Outcome]:
    if engine == "stacked":
        return stacked.train(trials, data)
    return [reference.train(p, data) for p in trials]


ENGINES = pytest.mark.parametrize("engine", ["reference", "stacked"])


# Drift


def test_drift_is_the_norm_of_the_difference() -> None:
    encoder = encoder_of("bert")
    anatomy = encoder.anatomy
    name = anatomy.weight(2, "output")
    moved = dict(encoder.state)
    step = torch.zeros_like(moved[name])
    step[0, 0], step[1, 1] = 3.0, 4.0
    moved[name] = moved[name] + step
    found = drift(encoder.state, moved, anatomy)
    assert set(found) == set(MATRICES)
    assert found["output"]["frobenius"] == pytest.approx([0, 5, 0], abs=1e-5)
    assert found["output"]["spectral"] == pytest.approx([0, 4, 0], abs=1e-5)
    old = encoder.state[name].numpy()
    assert found["output"]["frobenius_relative"][1] == pytest.approx(5 / np.linalg.norm(old), rel=1e-4)
    assert found["output"]["spectral_relative"][1] == pytest.approx(4 / np.linalg.norm(old, 2), rel=1e-4)
    assert all(sum(found[m]["frobenius"]) == 0 for m in MATRICES if m != "output")


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.sampled_from(["dense", "low rank", "orthogonal", "signs", "nothing"]))
def test_norms_are_those_of_the_singular_values(seed: int, kind: str) -> None:
    anatomy = replace(encoder_of("bert").anatomy, depth=2, hidden=100)
    rng = np.random.default_rng(seed)
    made: dict[str, Callable[[int, int], Any]] = {
        "dense": lambda m, n: rng.normal(size=(m, n)),
        "low rank": lambda m, n: rng.normal(size=(m, 2)) @ rng.normal(size=(2, n)),
        "orthogonal": lambda m, n: np.linalg.qr(rng.normal(size=(max(m, n), min(m, n))))[0].reshape(m, n),
        "signs": lambda m, n: 1e-5 * np.sign(rng.normal(size=(m, n))),
        "nothing": lambda m, n: np.zeros((m, n)),
    }
    shapes = {"intermediate": (150, 100), "output": (100, 150)}
    state = {
        anatomy.weight(layer, m): torch.as_tensor(made[kind](*shapes.get(m, (100, 100))))
        for layer in (1, 2) for m in MATRICES
    }  # fmt: skip
    found = norms(state, anatomy, "cpu")
    for m, matrix in enumerate(MATRICES):
        for layer in (1, 2):
            values = np.linalg.svd(state[anatomy.weight(layer, matrix)].numpy(), compute_uv=False)
            assert float(found.spectral[m, layer - 1]) == pytest.approx(values[0], rel=1e-7)
            assert float(found.frobenius[m, layer - 1]) == pytest.approx(np.sqrt((values**2).sum()), rel=1e-7)


def test_drift_from_nothing_has_no_relative_distance() -> None:
    encoder = encoder_of("bert")
    nothing = {name: torch.zeros_like(weight) for name, weight in encoder.state.items()}
    found = drift(nothing, encoder.state, encoder.anatomy)
    assert min(found["query"]["spectral"]) > 0
    assert np.isnan(found["query"]["spectral_relative"]).all()


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_both_engines_measure_the_same(family: str, make_data: MakeData) -> None:
    encoder = encoder_of(family)
    data = replace(make_data(30, 16), pad_id=encoder.pad_id)
    trials = [
        prepare(encoder, data, 0, size=16, measure=("drift", "cka")),
        prepare(encoder, data, 1, size=12, measure=("cka",), interventions=(PermuteLayers(order=(3, 1, 2)),)),
        prepare(encoder, data, 2, size=8, interventions=(Reinitialize(layers=(3,)),), measure=("drift",)),
        prepare(encoder, data, 3, size=8),
    ]
    ours, theirs = run("stacked", trials, data), run("reference", trials, data)
    for one, other, p in zip(ours, theirs, trials, strict=True):
        assert set(one.measures) == set(other.measures) == set(p.trial.measure)
        for matrix, distances in one.measures.get("drift", {}).items():
            for name, values in distances.items():
                np.testing.assert_allclose(values, other.measures["drift"][matrix][name], rtol=2e-3)
        if "cka" in one.measures:
            np.testing.assert_allclose(one.measures["cka"], other.measures["cka"], atol=1e-3)
    intact = ours[0].measures["drift"]["output"]["frobenius_relative"]
    assert all(0 < value < 0.5 for value in intact)
    fresh = ours[2].measures["drift"]["output"]["frobenius_relative"]
    assert fresh[2] > 3 * max(fresh[:2])  # a re-initialised layer is far from the pretrained one
    assert len(ours[0].measures["cka"]) == 4
    assert all(0.5 < value <= 1 + 1e-6 for value in ours[0].measures["cka"])


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_cka_does_not_see_rotation_shift_and_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (torch.as_tensor(rng.normal(size=(20, 4))) for _ in range(2))
    rotation = torch.linalg.qr(torch.as_tensor(rng.normal(size=(4, 4))))[0]
    assert float(linear_cka(x, 3 * x @ rotation + 7)) == pytest.approx(1)
    assert float(linear_cka(x, y)) == pytest.approx(float(linear_cka(y, 2 * x @ rotation)))
    assert -1e-9 <= float(linear_cka(x, y)) <= 1


def test_cka_of_what_is_the_same_in_all_examples() -> None:
    rng = np.random.default_rng(0)
    same = torch.as_tensor(rng.normal(size=(1, 4)).astype(np.float32)).expand(23, -1)
    other = torch.as_tensor(rng.normal(size=(23, 4)))
    assert torch.isnan(linear_cka(same, same))
    assert torch.isnan(linear_cka(same, other))
    assert float(linear_cka(same + 1e-2 * other, other)) == pytest.approx(1)


# Deleted layers


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_layer_is_the_network_without_it(family: str) -> None:
    encoder = encoder_of(family)
    short = without(encoder, (2,))
    assert (short.anatomy.depth, encoder.anatomy.depth) == (2, 3)
    ids = torch.arange(5, 13)[None]
    with torch.no_grad():
        states = encoder.model(input_ids=ids, output_hidden_states=True).hidden_states
        shorter = short.model(input_ids=ids, output_hidden_states=True).hidden_states
    assert len(shorter) == 3
    torch.testing.assert_close(shorter[1], states[1])
    assert not torch.allclose(shorter[2], states[2])
    assert {encoder.anatomy.layer_of(n) for n in short.state} == {None, 1, 2}
    assert without(encoder, (2,)) is short


@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_trials_that_lost_layers_pack_with_their_like(family: str, make_data: MakeData) -> None:
    encoder = encoder_of(family)
    data = replace(make_data(24, 12), pad_id=encoder.pad_id)
    lost: list[tuple[Any, ...]] = [
        (DeleteLayers(layers=(2,)),),
        (DeleteLayers(layers=(1,)), Reinitialize(layers=(2,))),
        (Reinitialize(layers=(3,)), DeleteLayers(layers=(2,)), PermuteLayers(order=(2, 1))),
    ]
    rate = {"reinitialized_rate": 5.0}
    trials = [
        prepare(encoder, data, n, interventions=i, size=12, protocol=rate, measure=("drift",))
        for n, i in enumerate(lost)
    ]
    ours, theirs = run("stacked", trials, data), run("reference", trials, data)
    for one, other in zip(ours, theirs, strict=True):
        assert one.status == "finished"
        np.testing.assert_allclose(np.array(one.curve), np.array(other.curve), atol=1e-4)
        assert len(one.measures["drift"]["query"]["spectral"]) == 2
    assert trials[2].layer_rates() == {1: 5.0}  # layer 3 became 2, and then 1


# Until converged


@pytest.mark.parametrize(
    ("losses", "flat"),
    [
        ([1.0], False),
        ([1.0, 0.5, 0.4], False),
        ([1.0, 0.5, 0.4995, 0.499], True),
        ([1.0, 0.5, 0.499, 0.45], False),
        ([1.0, 1.1, 1.2], True),
        ([1.0, 0.995, 0.985, 0.98], False),
    ],
)
def test_what_is_flat(losses: list[float], flat: bool) -> None:
    assert is_flat(losses, Convergence(tolerance=0.01, patience=2)) is flat


def test_the_two_engines_stop_at_the_same_epoch(make_data: MakeData) -> None:
    encoder = encoder_of("bert")
    data = make_data(24, 12)
    until = {"converge": {"tolerance": 0.01, "patience": 1}, "epochs": 6, "dropout": False}
    trials = [
        prepare(encoder, data, 0, size=16, protocol=until | {"learning_rate": 1e-7}),  # flat at once
        prepare(encoder, data, 1, size=16, protocol=until | {"learning_rate": 1e-2, "evaluate": "end"}),
        prepare(encoder, data, 2, size=16, protocol={"epochs": 3, "dropout": False}),
    ]
    ours, theirs = run("stacked", trials, data), run("reference", trials, data)
    assert [o.steps for o in ours] == [o.steps for o in theirs]
    assert ours[0].steps == 2 * 2
    assert len(ours[0].epochs) == 2
    assert 2 < len(ours[1].epochs) <= 6
    assert len(ours[2].epochs) == 3
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.array(one.curve), np.array(other.curve), atol=1e-4)
        assert one.epochs[-1].epoch == len(one.epochs)


def test_converge_in_words() -> None:
    protocol = Protocol.model_validate({"epochs": "converge"})
    assert (protocol.epochs, protocol.converge) == (20, Convergence())
    assert Protocol().converge is None


# After another trial


@ENGINES
def test_a_child_starts_where_its_parent_ended(engine: str, make_data: MakeData) -> None:
    encoder = encoder_of("bert")
    parents, data = make_data(30, 16, seed=1), make_data(20, 12)
    kept: list[Any] = []
    run(engine, [prepare(encoder, parents, size=12, keep=kept.append)], parents)
    assert set(kept[0]) == {n for n in encoder.state if "pooler" not in n}
    child = prepare(encoder, data, size=8, start=kept[0])
    state = child.initial_state()
    for name, weight in kept[0].items():
        torch.testing.assert_close(state[f"encoder.{name}"], weight)
    fresh = prepare(encoder, data, size=8).initial_state()
    torch.testing.assert_close(state["head.weight"], fresh["head.weight"])
    assert not torch.allclose(state["encoder." + encoder.anatomy.weight(1, "query")],
                              fresh["encoder." + encoder.anatomy.weight(1, "query")])  # fmt: skip


def test_children_of_different_parents_are_packed_together(make_data: MakeData) -> None:
    """Words that only the parent was trained on, and that only the validation set has, come from the parent too."""
    encoder = encoder_of("bert")
    parents, data = make_data(40, 8, seed=1), make_data(30, 24)
    starts: list[Any] = []
    strong = {"learning_rate": 3e-2}
    run("reference", [prepare(encoder, parents, n, keep=starts.append, protocol=strong) for n in range(2)], parents)
    trials = [prepare(encoder, data, n, size=4, start=start) for n, start in enumerate([*starts, None])]
    grand: list[Any] = []
    trials[0] = replace(trials[0], keep=grand.append)
    ours, theirs = run("stacked", trials, data), run("reference", trials, data)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.array(one.curve), np.array(other.curve), atol=1e-3)
        assert one.epochs[-1].validation_loss == pytest.approx(other.epochs[-1].validation_loss, abs=1e-3)
    for name in grand[0]:  # what is kept for grandchildren, by either engine
        torch.testing.assert_close(grand[0][name], grand[1][name], atol=1e-3, rtol=1e-3)


def test_a_learnt_pooler_is_carried_over(make_data: MakeData) -> None:
    encoder = encoder_of("electra")  # has none of its own
    data = replace(make_data(16, 8), pad_id=encoder.pad_id)
    kept: list[Any] = []
    pooled = {"pooling": "pooler"}
    run("stacked", [prepare(encoder, data, protocol=pooled, keep=kept.append)], data)
    child = prepare(encoder, data, 1, protocol=pooled, start=kept[0]).initial_state()
    torch.testing.assert_close(child["pooler.weight"], kept[0]["pooler.dense.weight"])


def test_probes_are_of_the_pretrained_encoder(make_data: MakeData) -> None:
    encoder, data = encoder_of("bert"), make_data(16, 8)
    p = prepare(encoder, data, probe=Probe(layer=1), interventions=(DeleteLayers(layers=(1,)),))
    with pytest.raises(TrainingError, match="pretrained"):
        probing.train([p], data)


# Interleaved


def interleave(engine: str, encoder: Encoder, data: Data, other: Data, index: int = 0, **fields: Any) -> Outcome:
    beside = (Companion(task=other.task.name, size=8),)
    p = prepare(encoder, data, index, size=12, alongside=beside, **fields)
    both = replace(data, beside=(other,))
    return interleaved.train(p, both) if engine == "reference" else stacked.train([p], both)[0]


@ENGINES
def test_interleaved_tasks_share_the_encoder(make_data: MakeData, engine: str) -> None:
    encoder = encoder_of("bert")
    data, other = make_data(30, 16), make_data(30, 16, kind="regression", seed=3)
    outcome = interleave(engine, encoder, data, other, measure=("drift",))
    assert outcome.status == "finished"
    assert outcome.steps == 2 * (2 + 1)  # two epochs of 12 examples and of 8, in batches of 8
    assert outcome.train_examples == 12
    assert len(outcome.epochs) == 2
    assert outcome == interleave(engine, encoder, data, other, measure=("drift",))
    alone = reference.train(prepare(encoder, data, size=12, measure=("drift",)), data)
    assert outcome.measures["drift"] != alone.measures["drift"]
    assert interleave(engine, encoder, data, other, 1).curve != outcome.curve


@ENGINES
def test_interleaved_training_may_ruin_itself(make_data: MakeData, engine: str) -> None:
    encoder = encoder_of("bert")
    data, other = make_data(30, 16), make_data(30, 16, kind="regression", seed=3)
    outcome = interleave(engine, encoder, data, other, protocol={"learning_rate": 1e30})
    assert outcome.status == "failed"
    assert "nan" in outcome.reason
