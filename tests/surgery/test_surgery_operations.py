"""Interventions on named weights: what changes, what does not, and from which law."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from families import DEPTH, FAMILIES, HEADS, encoder_of
from hypothesis import given
from hypothesis import strategies as st

from palimpsest import streams
from palimpsest.encoders.anatomy import Anatomy, Role
from palimpsest.errors import SurgeryError
from palimpsest.specs.intervention import PermuteLayers, Reinitialize, ReinitializeHeads
from palimpsest.specs.protocol import Initialiser
from palimpsest.surgery.initialisers import draw
from palimpsest.surgery.operations import Drawn, operate, permute, reinitialize_heads, reinitialize_layers

PAPER = Initialiser()
ORDERS = st.permutations(range(1, DEPTH + 1))
HEAD_SETS = st.sets(st.tuples(st.integers(1, DEPTH), st.integers(1, HEADS)), min_size=1)


def subject(family: str = "bert") -> tuple[dict[str, torch.Tensor], Anatomy]:
    encoder = encoder_of(family)
    return {name: w.clone() for name, w in encoder.state.items()}, encoder.anatomy


def changed(before: Any, after: Any) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if not torch.equal(before[name], after[name])}


# Layers


@pytest.mark.parametrize("family", FAMILIES)
def test_named_layers_change_and_nothing_else(family: str) -> None:
    state, anatomy = subject(family)
    after = reinitialize_layers(state, anatomy, [1, 3], PAPER, seed=0)
    assert changed(state, after) == {n for n in state if anatomy.layer_of(n) in (1, 3)}
    for name in changed(state, after):
        assert (after[name].shape, after[name].dtype) == (state[name].shape, state[name].dtype)


CHANGES = st.lists(
    st.builds(lambda s: Reinitialize(layers=tuple(s)), st.sets(st.integers(1, DEPTH), min_size=1))
    | st.builds(lambda s: ReinitializeHeads(heads=tuple(s)), HEAD_SETS)
    | st.builds(lambda o: PermuteLayers(order=tuple(o)), ORDERS),
    max_size=4,
)


@given(CHANGES)
def test_the_given_state_is_never_written_to(interventions: list[Any]) -> None:
    state, anatomy = subject()
    before = {name: w.clone() for name, w in state.items()}
    after = operate(state, interventions, anatomy, PAPER, seed=1)
    assert not changed(before, state)
    untouched = {n for n in state if anatomy.layer_of(n) is None}
    assert not changed(before, after) & untouched


def test_no_intervention_changes_nothing() -> None:
    state, anatomy = subject()
    assert not changed(state, operate(state, (), anatomy, PAPER, seed=0))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("biases", ["sample", "zero", "keep"])
@pytest.mark.parametrize("layer_norm", ["reset", "keep"])
def test_biases_and_layer_norms(family: str, biases: Any, layer_norm: Any) -> None:
    state, anatomy = subject(family)
    law = Initialiser(biases=biases, layer_norm=layer_norm)
    after = reinitialize_layers(state, anatomy, [2], law, seed=0)
    norms = 0
    for name in (n for n in state if anatomy.layer_of(n) == 2):
        new, bias = after[name], name.endswith("bias")
        if anatomy.layer_norm_of(name):
            norms += 1
            expected = state[name] if layer_norm == "keep" else torch.full_like(new, 0.0 if bias else 1.0)
            assert torch.equal(new, expected)
        elif bias and biases != "sample":
            assert torch.equal(new, state[name] if biases == "keep" else torch.zeros_like(new))
        else:
            assert 0 < float(new.abs().max()) <= 0.04
            assert not torch.equal(new, state[name])
    assert norms == 4


@pytest.mark.parametrize(
    ("law", "std", "support"),
    [
        (Initialiser(), 0.0176, 0.04),  # as the paper says
        (Initialiser(cut=0.0008), 0.00046, 0.0008),  # as its code did
        (Initialiser(cut=None), 0.02, math.inf),
        (Initialiser(std=1, cut=0.02), 0.0115, 0.02),  # nearly uniform
    ],
)
def test_the_law(law: Initialiser, std: float, support: float) -> None:
    n = 1 << 20
    x = draw((1024, 1024), law, "law", 0).double().flatten()
    assert float(x.abs().max()) <= support * (1 + 1e-6)
    assert float(x.abs().max()) > min(support * 0.9999, 4 * law.std)
    kurtosis = float((x**4).mean() / x.var() ** 2)
    assert abs(float(x.mean())) < 4 * std / math.sqrt(n)
    assert abs(float(x.std()) - _exact_std(law)) < 4 * std * math.sqrt((kurtosis - 1) / 4 / n)
    assert round(_exact_std(law), 6) == pytest.approx(std, rel=0.01)
    assert abs(float((x > 0).double().mean()) - 0.5) < 4 * 0.5 / math.sqrt(n)


def _exact_std(law: Initialiser) -> float:
    if law.cut is None:
        return law.std
    a = law.cut / law.std
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    return law.std * math.sqrt(1 - 2 * a * density / math.erf(a / math.sqrt(2)))


def test_a_drawn_number_is_never_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    extremes = torch.tensor([-1, 0, 2**31 - 1, -(2**31)], dtype=torch.int32)
    monkeypatch.setattr(streams, "bits", lambda *_: extremes)
    x = draw((4,), Initialiser(cut=None), "finite", 0)
    assert torch.isfinite(x).all()
    assert 5 * 0.02 < float(x.abs().max()) < 6 * 0.02


def test_seeds_and_names_give_other_numbers() -> None:
    state, anatomy = subject()
    a, b = (reinitialize_layers(state, anatomy, [1, 2, 3], PAPER, seed) for seed in (0, 1))
    drawn = [s[anatomy.weight(layer, "output")].flatten() for s in (a, b) for layer in (1, 2, 3)]
    drawn += [a[anatomy.weight(1, role)].flatten() for role in ("query", "key", "value")]  # type: ignore[arg-type]
    for n, x in enumerate(drawn):
        for y in drawn[n + 1 :]:
            m = min(len(x), len(y))
            correlation = float(torch.corrcoef(torch.stack([x[:m], y[:m]]))[0, 1])
            assert abs(correlation) < 4.5 / math.sqrt(m)


def test_the_same_seed_gives_the_same_numbers_whatever_else_is_redone() -> None:
    state, anatomy = subject()
    one = reinitialize_layers(state, anatomy, [3], PAPER, seed=5)
    all_of_them = reinitialize_layers(state, anatomy, [1, 2, 3], PAPER, seed=5)
    for name in changed(state, one):
        assert torch.equal(one[name], all_of_them[name])


@given(st.lists(st.tuples(CHANGES, st.integers(0, 1), st.sampled_from([0.02, 0.5])), min_size=2, max_size=4))
def test_what_was_drawn_once_serves_all(trials: list[tuple[list[Any], int, float]]) -> None:
    """Numbers are the same whether they are drawn anew or kept: for other trials, seeds and laws too."""
    state, anatomy = subject()
    kept: Drawn = {}
    for interventions, seed, std in trials:
        law = Initialiser(std=std)
        own = operate(state, interventions, anatomy, law, seed)
        assert not changed(own, operate(state, interventions, anatomy, law, seed, kept))


def test_low_precision_weights_keep_their_type() -> None:
    state, anatomy = subject()
    half = {name: w.to(torch.bfloat16) for name, w in state.items()}
    after = operate(half, [Reinitialize(layers=(1,)), ReinitializeHeads(heads=((2, 1),))], anatomy, PAPER, seed=0)
    assert {w.dtype for w in after.values()} == {torch.bfloat16}


# Heads


@pytest.mark.parametrize("family", FAMILIES)
def test_all_heads_of_a_layer_are_its_projections(family: str) -> None:
    state, anatomy = subject(family)
    after = reinitialize_heads(state, anatomy, [(2, h) for h in range(1, HEADS + 1)], PAPER, seed=3)
    whole = reinitialize_layers(state, anatomy, [2], PAPER, seed=3)
    names = {anatomy.weight(2, role, part) for role in ("query", "key", "value") for part in ("weight", "bias")}  # type: ignore[arg-type]
    names.add(anatomy.weight(2, "attention_output"))
    assert changed(state, after) == names
    for name in names:
        assert torch.equal(after[name], whole[name])


@given(HEAD_SETS, st.sampled_from(FAMILIES), st.integers(0, 3))
def test_only_rows_and_columns_of_the_heads_change(heads: set[tuple[int, int]], family: str, seed: int) -> None:
    state, anatomy = subject(family)
    after = reinitialize_heads(state, anatomy, heads, PAPER, seed)
    size = anatomy.head_size
    for layer in range(1, DEPTH + 1):
        own = torch.zeros(anatomy.hidden, dtype=torch.bool)
        for head in (h for at, h in heads if at == layer):
            own[(head - 1) * size : head * size] = True
        for role in get_args(Role):
            for part in ("weight", "bias"):
                name = anatomy.weight(layer, role, part)  # type: ignore[arg-type]
                moved = state[name] != after[name]
                if role in ("query", "key", "value"):
                    expected = own[:, None].expand_as(moved) if part == "weight" else own
                elif role == "attention_output" and part == "weight":
                    expected = own.expand_as(moved)
                else:
                    expected = torch.zeros_like(moved)
                assert torch.equal(moved, expected)
    assert all(anatomy.layer_of(n) in {layer for layer, _ in heads} for n in changed(state, after))


def test_heads_one_by_one_or_together() -> None:
    state, anatomy = subject()
    together = reinitialize_heads(state, anatomy, [(1, 1), (1, 2), (3, 2)], PAPER, seed=0)
    one_by_one = state
    for head in [(3, 2), (1, 2), (1, 1)]:
        one_by_one = reinitialize_heads(one_by_one, anatomy, [head], PAPER, seed=0)
    assert not changed(together, one_by_one)


@torch.no_grad()
def outputs(family: str, state: dict[str, torch.Tensor]) -> torch.Tensor:
    ids = torch.arange(5, 29).reshape(2, 12)
    result = torch.func.functional_call(encoder_of(family).model, state, (ids,)).last_hidden_state
    assert isinstance(result, torch.Tensor)
    return result


@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "distilbert"])
def test_what_is_called_a_head_is_one(family: str) -> None:
    """Swapping two heads of a layer, rows and columns alike, leaves the function of the network as it was."""
    state, anatomy = subject(family)
    swapped, half = dict(state), anatomy.head_size
    order = torch.cat([torch.arange(half, 2 * half), torch.arange(half)])
    for role in ("query", "key", "value"):
        for part in ("weight", "bias"):
            name = anatomy.weight(2, role, part)  # type: ignore[arg-type]
            swapped[name] = state[name][order]
    assert not torch.allclose(outputs(family, state), outputs(family, swapped), atol=1e-3)
    name = anatomy.weight(2, "attention_output")
    swapped[name] = state[name][:, order]
    torch.testing.assert_close(outputs(family, state), outputs(family, swapped), atol=1e-5, rtol=1e-4)


# Permutations


@given(ORDERS, ORDERS, st.sampled_from(FAMILIES))
def test_permutations_compose_and_have_inverses(first: list[int], second: list[int], family: str) -> None:
    state, anatomy = subject(family)
    twice = permute(permute(state, anatomy, first), anatomy, second)
    assert not changed(twice, permute(state, anatomy, [first[i - 1] for i in second]))
    inverse = [first.index(i) + 1 for i in range(1, DEPTH + 1)]
    assert not changed(state, permute(permute(state, anatomy, first), anatomy, inverse))


@pytest.mark.parametrize("family", FAMILIES)
def test_permuted_weights_are_permuted_modules(family: str) -> None:
    state, anatomy = subject(family)
    model = encoder_of(family).network()
    layers = (model.transformer if family == "distilbert" else model.encoder).layer
    order = [3, 1, 2]
    reordered = [layers[i - 1] for i in order]
    for position, layer in enumerate(reordered):
        layers[position] = layer
    ids = torch.arange(5, 29).reshape(2, 12)
    with torch.no_grad():
        expected = model(ids).last_hidden_state
    assert torch.equal(outputs(family, permute(state, anatomy, order)), expected)
    assert not torch.equal(outputs(family, state), expected)


# Errors


@pytest.mark.parametrize("order", [[1, 2], [1, 2, 3, 4], [1, 1, 2], [0, 1, 2], []])
def test_what_is_no_permutation_of_the_layers(order: list[int]) -> None:
    state, anatomy = subject()
    with pytest.raises(SurgeryError, match="is not a permutation of this encoder's layers 1 to 3"):
        permute(state, anatomy, order)


def test_what_the_encoder_does_not_have() -> None:
    state, anatomy = subject()
    with pytest.raises(SurgeryError, match="layer 4 is out of range"):
        operate(state, [Reinitialize(layers=(4,))], anatomy, PAPER, seed=0)
    with pytest.raises(SurgeryError, match="head 3 of layer 1 is out of range"):
        operate(state, [ReinitializeHeads(heads=((1, 3),))], anatomy, PAPER, seed=0)
