"""Surgery on Hugging Face models, in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from families import FAMILIES, config_of, model_of, noisy

from palimpsest.encoders.identity import anatomy_of
from palimpsest.errors import EncoderError, PalimpsestError, SurgeryError
from palimpsest.specs.protocol import Initialiser
from palimpsest.surgery.models import delete_layers, permute_layers, reinitialize
from palimpsest.surgery.operations import delete


def make(name: str) -> Any:
    import transformers

    family = name.split("For")[0].removesuffix("Model").lower()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return noisy(getattr(transformers, name)(config_of(family)))


MODELS = (
    "BertModel", "BertForSequenceClassification", "BertForMaskedLM", "BertForQuestionAnswering", "RobertaModel",
    "ElectraForSequenceClassification", "DistilBertModel", "DistilBertForSequenceClassification", "MPNetModel",
    "MPNetForSequenceClassification",
)  # fmt: skip


def snapshot(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def changed(model: Any, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}


@pytest.mark.parametrize("name", MODELS)
def test_layers(name: str) -> None:
    model = make(name)
    before = snapshot(model)
    identities = {n: id(p) for n, p in model.named_parameters()}
    assert reinitialize(model, layers=[2, 3]) is model
    assert changed(model, before) == {n for n in before if "layer.1." in n or "layer.2." in n}
    assert {n: id(p) for n, p in model.named_parameters()} == identities
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_heads(name: str) -> None:
    model = make(name)
    before = snapshot(model)
    reinitialize(model, heads=[(1, 2)])
    touched = changed(model, before)
    assert len(touched) == 7
    assert all("layer.0." in n for n in touched)


@pytest.mark.parametrize("name", MODELS)
def test_permutation(name: str) -> None:
    model = make(name)
    before = snapshot(model)
    permute_layers(model, [2, 3, 1])
    for n, p in model.named_parameters():
        source = n
        for at, comes_from in ((0, 1), (1, 2), (2, 0)):
            if f"layer.{at}." in n:
                source = n.replace(f"layer.{at}.", f"layer.{comes_from}.")
        assert torch.equal(p, before[source])


@pytest.mark.parametrize("name", MODELS)
def test_deletion(name: str, tmp_path: Path) -> None:
    model = make(name)
    before = snapshot(model)
    ids = torch.tensor([[3, 7, 5, 9]])
    states = model(ids, output_hidden_states=True).hidden_states
    assert delete_layers(model, [2]) is model
    for n, p in model.named_parameters():
        assert torch.equal(p, before[n.replace("layer.1.", "layer.2.")])
    after = model(ids, output_hidden_states=True)
    assert len(after.hidden_states) == len(states) - 1
    torch.testing.assert_close(after.hidden_states[1], states[1])
    assert not torch.allclose(after.hidden_states[2], states[2])
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(ids)[0], after[0])
    assert changed(reinitialize(model, layers=[2]), snapshot(again)) == {n for n in snapshot(again) if "layer.1." in n}


@pytest.mark.parametrize("family", FAMILIES)
def test_deletion_is_what_it_is_in_trials(family: str) -> None:
    model = model_of(family)
    anatomy = anatomy_of(model.config.to_dict(), family)
    expected = delete(snapshot(model), anatomy, [1, 3])
    found = snapshot(delete_layers(model, [1, 3]))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[n], expected[n]) for n in found)


def test_seed_and_law() -> None:
    a, b, c = (reinitialize(model_of("bert"), layers=[1], seed=seed) for seed in (0, 0, 1))
    name = "encoder.layer.0.output.dense.weight"
    assert torch.equal(a.get_parameter(name), b.get_parameter(name))
    assert not torch.equal(a.get_parameter(name), c.get_parameter(name))
    tiny = reinitialize(model_of("bert"), layers=[1], initialiser=Initialiser(cut=0.0008, layer_norm="keep"))
    assert float(tiny.get_parameter(name).detach().abs().max()) <= 0.0008
    norm = "encoder.layer.0.output.LayerNorm.weight"
    assert torch.equal(tiny.get_parameter(norm), model_of("bert").get_parameter(norm))


def test_it_does_not_touch_the_global_generator() -> None:
    model = model_of("bert")
    state = torch.random.get_rng_state()
    reinitialize(model, layers=[1], heads=[(2, 1)])
    permute_layers(model, [3, 2, 1])
    delete_layers(model, [2])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_models_of_one_config_are_apart() -> None:
    import transformers

    config = config_of("bert")
    one, other = (transformers.BertForSequenceClassification(config) for _ in range(2))
    delete_layers(one, [2])
    assert [m.config.num_hidden_layers for m in (one, one.bert, one.bert.encoder, other)] == [2, 2, 2, 3]
    assert one(input_ids=torch.tensor([[1, 2, 3]])).logits.shape == (1, 2)
    reinitialize(other, layers=[3])


def test_a_model_that_was_cut_by_hand() -> None:
    model = model_of("bert")
    model.encoder.layer = model.encoder.layer[:2]
    with pytest.raises(SurgeryError, match="the config says that there are 3 layers, but the model has 2"):
        reinitialize(model, layers=[1])


def test_refusals() -> None:
    import transformers

    model = model_of("bert")
    before = snapshot(model)
    for call, message in (
        (lambda: reinitialize(model), "nothing to re-initialise: name layers or heads"),
        (lambda: reinitialize(model, layers=[4]), "layer 4 is out of range"),
        (lambda: reinitialize(model, layers=[1], heads=[(1, 3)]), "head 3 of layer 1 is out of range"),
        (lambda: permute_layers(model, [1, 2]), "is not a permutation"),
        (lambda: delete_layers(model, []), "nothing to delete: name layers"),
        (lambda: delete_layers(model, [2, 4]), "layer 4 is out of range"),
        (lambda: delete_layers(model, [0]), "layer 0 is out of range"),
        (lambda: delete_layers(model, [3, 2, 1, 1]), "all 3 layers would be deleted"),
        (lambda: reinitialize(torch.nn.Linear(2, 2), layers=[1]), "Linear is not a Hugging Face model"),
        (lambda: reinitialize(model, layers=3), "layers are a list of numbers, .* not 3"),
        (lambda: delete_layers(model, "3-4"), "layers are a list of numbers, .* not '3-4'"),
        (lambda: reinitialize(model, heads=(1, 4)), r"heads are pairs of layer and head, .* not \(1, 4\)"),
    ):
        with pytest.raises(SurgeryError, match=message):
            call()
    assert not changed(model, before)
    config = transformers.AlbertConfig(
        hidden_size=16, num_attention_heads=2, intermediate_size=16, vocab_size=30, embedding_size=8
    )
    with pytest.raises(EncoderError, match="AlbertModel is an ALBERT"):
        reinitialize(transformers.AlbertModel(config), layers=[1])
    gpt2 = transformers.GPT2Model(transformers.GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=9, n_positions=8))
    with pytest.raises(PalimpsestError, match="unknown encoder architecture 'gpt2'"):
        reinitialize(gpt2, layers=[1])
