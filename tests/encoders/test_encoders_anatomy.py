"""Every weight of every family has its place."""

from __future__ import annotations

from typing import get_args

import pytest
from families import DEPTH, FAMILIES, HEADS, HIDDEN, config_of, model_of

from palimpsest.encoders.anatomy import FAMILIES as KNOWN
from palimpsest.encoders.anatomy import Anatomy, Role
from palimpsest.encoders.identity import anatomy_of
from palimpsest.errors import EncoderError, SurgeryError, UnknownName


def anatomy(family: str) -> Anatomy:
    return anatomy_of(config_of(family).to_dict(), family)


def test_these_are_all_families() -> None:
    assert set(KNOWN) == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_roles_and_layer_norms_are_all_that_a_layer_has(family: str) -> None:
    a, names = anatomy(family), {name for name, _ in model_of(family).named_parameters()}
    assert (a.depth, a.heads, a.hidden, a.head_size) == (DEPTH, HEADS, HIDDEN, HIDDEN // HEADS)
    for layer in range(1, DEPTH + 1):
        own = {n for n in names if a.layer_of(n) == layer}
        roles = {a.weight(layer, role, part) for role in get_args(Role) for part in ("weight", "bias")}
        norms = {n for n in own if a.layer_norm_of(n)}
        assert roles | norms == own
        assert not roles & norms
        assert len(norms) == 4


@pytest.mark.parametrize("family", FAMILIES)
def test_shapes_of_roles(family: str) -> None:
    a, weights = anatomy(family), dict(model_of(family).named_parameters())
    for role, shape in {
        "query": (16, 16),
        "attention_output": (16, 16),
        "intermediate": (32, 16),
        "output": (16, 32),
    }.items():
        assert weights[a.weight(2, role)].shape == shape  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES)
def test_embeddings_poolers_and_shared_tables_belong_to_no_layer(family: str) -> None:
    a, names = anatomy(family), [name for name, _ in model_of(family).named_parameters()]
    none = [n for n in names if a.layer_of(n) is None]
    expected = ("embeddings", "pooler", "encoder.relative_attention_bias")
    assert all(n.startswith(expected) for n in none)
    assert a.family.word_embeddings in none
    assert ("encoder.relative_attention_bias.weight" in none) == (family == "mpnet")
    assert any("pooler" in n for n in none) == (a.family.pooler is not None)
    assert {a.layer_of(n) for n in names} == {None, 1, 2, 3}


def test_a_config_may_leave_out_the_defaults() -> None:
    assert anatomy_of({"model_type": "bert"}, "x") == Anatomy(KNOWN["bert"], 12, 12, 768)
    assert anatomy_of({"model_type": "distilbert", "n_layers": 6}, "x").depth == 6


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "albert"}, "ALBERT, whose layers all share one set of weights"),
        ({}, "names no model_type"),
        (
            {"model_type": "bert", "num_hidden_layers": "12"},
            "num_hidden_layers: '12', where a positive number should be",
        ),
        ({"model_type": "bert", "num_hidden_layers": None}, "num_hidden_layers: None"),
        ({"model_type": "bert", "num_attention_heads": 0}, "num_attention_heads: 0"),
        ({"model_type": "bert", "hidden_size": 100}, "12 heads, which do not divide a width of 100"),
        ({"model_type": "distilbert", "n_layers": -1}, "n_layers: -1"),
    ],
)
def test_configs_that_cannot_be(config: dict[str, object], message: str) -> None:
    with pytest.raises(EncoderError, match=f"mine.*{message}"):
        anatomy_of(config, "mine")


def test_other_architectures_are_refused_by_name() -> None:
    with pytest.raises(
        UnknownName, match=r"unknown encoder architecture 'robertta'. Did you mean 'roberta'.*\(encoder mine\)"
    ):
        anatomy_of({"model_type": "robertta"}, "mine")
    with pytest.raises(UnknownName, match="unknown encoder architecture 'gpt2'"):
        anatomy_of({"model_type": "gpt2"}, "mine")


def test_out_of_range() -> None:
    a = anatomy("bert")
    for layer in (0, 4, -1):
        with pytest.raises(SurgeryError, match=f"layer {layer} is out of range: this encoder has layers 1 to 3"):
            a.check_layers([1, layer])
    with pytest.raises(SurgeryError, match="head 3 of layer 1 is out of range: heads are 1 to 2"):
        a.check_heads([(1, 3)])
    with pytest.raises(SurgeryError, match="layer 9 is out of range"):
        a.check_heads([(9, 1)])
