"""The built-in encoder: an ordinary, small BERT whose layers know something."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer, BertModel

from palimpsest.encoders.identity import BUILT_IN, identify
from palimpsest.encoders.loading import load

POCKET = BUILT_IN["pocket"]


@pytest.fixture(scope="module")
def card() -> str:
    return (POCKET / "README.md").read_text()


def test_it_is_small() -> None:
    assert sum((POCKET / name).stat().st_size for name in ("model.safetensors", "tokenizer.json")) <= 14e6
    assert {weight.dtype for weight in load_file(POCKET / "model.safetensors").values()} == {torch.float16}


def test_plain_transformers_read_it() -> None:
    model, tokenizer = AutoModel.from_pretrained(POCKET), AutoTokenizer.from_pretrained(POCKET)
    assert isinstance(model, BertModel)
    config = model.config
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (12, 160, 4)
    assert len(tokenizer) == config.vocab_size == 16_000
    assert next(model.parameters()).dtype == torch.float32
    assert tokenizer.tokenize("The Café opened.") == tokenizer.tokenize("the cafe opened .")
    assert tokenizer.unk_token not in tokenizer.tokenize("Palimpsests are overwritten, zealously & often (in 1532)!")


def test_it_is_known_by_its_name() -> None:
    identity = identify("pocket")
    assert (identity.name, identity.depth, identity.heads) == ("pocket", 12, 4)
    assert identity == load("pocket").identity


def test_its_last_layers_put_like_with_like() -> None:
    """Without a word in common: what a sentence is about is nearer than how it is built."""
    encoder = load("pocket")
    sentences = {
        "the soup was too salty": "my dinner tasted awful",
        "the parliament passed a new law": "senators voted for this bill",
        "her violin sounded beautiful": "we enjoyed his piano concert",
        "the ship sank in a storm": "sailors drowned during bad weather",
    }
    batch = encoder.tokenizer([*sentences, *sentences.values()], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = encoder.model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    nearest = (means[:4] @ means[4:].T).argmax(1)
    assert nearest.tolist() == [0, 1, 2, 3]


def test_its_card_says_where_it_comes_from(card: str) -> None:
    facts = json.loads((POCKET / "pretraining.json").read_text())
    for said in (
        "english.txt.xz", facts["corpus"]["sha256"], "thenlper/gte-small", "licence MIT", "473.2 million", "H200",
        "7.0 minutes", "license: mit", "## Held-out losses", "## On tasks", "## Limits",
    ):  # fmt: skip
        assert said in card


def test_the_example_of_its_card_runs(card: str) -> None:
    code = card.split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(code, names)
    assert isinstance(names["model"], BertModel)
