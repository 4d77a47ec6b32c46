"""Encoders from directories: what they are, and what is wrong with them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from families import FAMILIES, model_of, save
from safetensors.torch import load_file, save_file

from palimpsest.encoders.identity import identify
from palimpsest.encoders.loading import load
from palimpsest.errors import EncoderError, PalimpsestError


@pytest.fixture
def checkpoint(tmp_path: Path, tiny_tokenizer: Any) -> Path:
    return save(tmp_path / "mine", "bert", tiny_tokenizer)


def change(checkpoint: Path, edit: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    path = checkpoint / "model.safetensors"
    save_file(edit(load_file(path)), path, metadata={"format": "pt"})


def configure(checkpoint: Path, **fields: Any) -> None:
    path = checkpoint / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_loads(tmp_path: Path, tiny_tokenizer: Any, family: str) -> None:
    encoder = load(str(save(tmp_path / family, family, tiny_tokenizer)))
    assert encoder.identity == identify(str(tmp_path / family))
    assert (encoder.identity.name, encoder.identity.depth, encoder.identity.heads) == (family, 3, 2)
    original = dict(model_of(family, vocabulary=len(tiny_tokenizer)).named_parameters())
    assert set(encoder.state) == set(original)
    for name, weight in encoder.state.items():
        assert torch.equal(weight, original[name])
        assert not weight.requires_grad
    batch = encoder.tokenizer(["a good film", "the queen"], padding=True, return_tensors="pt")
    batch.pop("token_type_ids")
    with torch.no_grad():
        assert torch.isfinite(encoder.model(**batch).last_hidden_state).all()


def test_a_network_is_a_copy(checkpoint: Path) -> None:
    encoder = load(str(checkpoint))
    network = encoder.network()
    with torch.no_grad():
        next(network.parameters()).zero_()
    assert next(encoder.model.parameters()).abs().sum() > 0


def test_the_fingerprint_is_of_the_weights_and_not_of_the_place(
    tmp_path: Path, checkpoint: Path, tiny_tokenizer: Any
) -> None:
    shutil.copytree(checkpoint, tmp_path / "far" / "away" / "mine")
    assert identify(str(tmp_path / "far" / "away" / "mine")) == identify(str(checkpoint))
    other = save(tmp_path / "other" / "mine", "bert", tiny_tokenizer, seed=1)
    assert identify(str(other)).weights != identify(str(checkpoint)).weights


def test_a_checkpoint_that_changes_while_the_program_runs_is_seen_to(checkpoint: Path) -> None:
    before = load(str(checkpoint))
    assert load(str(checkpoint)) is before
    change(checkpoint, lambda state: {name: weight + 1 for name, weight in state.items()})
    after = load(str(checkpoint))
    assert after.identity.weights != before.identity.weights
    name = "encoder.layer.0.output.dense.weight"
    assert torch.equal(after.state[name], before.state[name] + 1)


def test_the_vocabulary_is_part_of_the_fingerprint(checkpoint: Path) -> None:
    before = identify(str(checkpoint)).weights
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer))
    lowered = identify(str(checkpoint)).weights
    (checkpoint / "tokenizer.json").unlink()
    (checkpoint / "vocab.txt").write_text("[PAD]\na")
    assert len({before, lowered, identify(str(checkpoint)).weights}) == 3


@pytest.mark.parametrize("kind", ["model", "pytorch_model"])
def test_shards_are_part_of_the_fingerprint(checkpoint: Path, kind: str) -> None:
    ending = "safetensors" if kind == "model" else "bin"
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / f"{kind}.{ending}.index.json").write_text("{}")
    shard = checkpoint / f"{kind}-00001-of-00002.{ending}"
    shard.write_bytes(b"a")
    before = identify(str(checkpoint)).weights
    shard.write_bytes(b"bb")
    assert identify(str(checkpoint)).weights != before


def test_a_checkpoint_without_a_pooler(checkpoint: Path) -> None:
    assert load(str(checkpoint)).has_pooler
    change(checkpoint, lambda state: {n: w for n, w in state.items() if "pooler" not in n})
    assert not load(str(checkpoint)).has_pooler


def test_half_precision_is_widened(checkpoint: Path) -> None:
    change(checkpoint, lambda state: {n: w.half() for n, w in state.items()})
    assert {w.dtype for w in load(str(checkpoint)).state.values()} == {torch.float32}


def test_plain_pickled_tensors(checkpoint: Path) -> None:
    state = load_file(checkpoint / "model.safetensors")
    torch.save(state, checkpoint / "pytorch_model.bin")
    (checkpoint / "model.safetensors").unlink()
    encoder = load(str(checkpoint))
    assert torch.equal(encoder.state["pooler.dense.weight"], state["pooler.dense.weight"])


class Malice:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["MALICE"],)


def test_pickled_code_is_not_executed(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALICE", str(tmp_path / "done"))
    (checkpoint / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": Malice()}, checkpoint / "pytorch_model.bin")
    with pytest.raises(EncoderError, match="nothing in a checkpoint is executed"):
        load(str(checkpoint))
    assert not (tmp_path / "done").exists()


def test_code_beside_the_weights_is_not_executed(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "evil.py").write_text(f"import os; os.mkdir({str(tmp_path / 'done')!r})\nclass Model: pass\n")
    configure(checkpoint, auto_map={"AutoModel": "evil.Model", "AutoTokenizer": ["evil.Model", "evil.Model"]})
    load(str(checkpoint))
    assert not (tmp_path / "done").exists()


BREAKAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda c: (c / "config.json").unlink(), "mine is no Hugging Face checkpoint: it has no config.json"),
    "broken json": (lambda c: (c / "config.json").write_text("{oops"), r"cannot read .*mine/config\.json"),
    "no mapping": (lambda c: (c / "config.json").write_text("[1]"), "it is no mapping"),
    "not text": (lambda c: (c / "config.json").write_bytes(b"\xff\xfe"), r"cannot read .*mine/config\.json"),
    "no weights": (lambda c: (c / "model.safetensors").unlink(), r"mine has no weights \(model\.safetensors or"),
    "truncated": (
        lambda c: (c / "model.safetensors").write_bytes((c / "model.safetensors").read_bytes()[:-100]),
        "cannot load the encoder .*mine",
    ),
    "empty": (lambda c: (c / "model.safetensors").write_bytes(b""), "cannot load the encoder .*mine"),
    "a page": (lambda c: (c / "model.safetensors").write_bytes(b"<html></html>"), "cannot load the encoder .*mine"),
    "lacking": (
        lambda c: change(c, lambda s: {n: w for n, w in s.items() if "layer.1.output.dense" not in n}),
        r"mine lacks 2 of the weights of a bert: encoder\.layer\.1\.output\.dense\.bias",
    ),
    "shapes": (
        lambda c: change(c, lambda s: s | {"encoder.layer.0.output.dense.bias": torch.zeros(3)}),
        "cannot load the encoder .*mine",
    ),
    "tokenizer": (lambda c: (c / "tokenizer.json").write_text("{}"), "cannot load the encoder .*mine"),
    "no tokenizer": (lambda c: (c / "tokenizer.json").unlink(), "mine has no tokeniser .*save_pretrained"),
    "albert": (lambda c: configure(c, model_type="albert"), "mine is an ALBERT"),
    "unsupported": (lambda c: configure(c, model_type="electrra"), "Did you mean 'electra'"),
    "heads": (lambda c: configure(c, num_attention_heads=3), "3 heads, which do not divide a width of 16"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("breakage", BREAKAGES)
def test_what_is_wrong_with_a_checkpoint_is_said(checkpoint: Path, breakage: str) -> None:
    breaks, message = BREAKAGES[breakage]
    breaks(checkpoint)
    with pytest.raises(PalimpsestError, match=message):
        load(str(checkpoint))


@pytest.mark.parametrize("ref", ["/no/such/place", "./none", "~nobody-has-this-name/x", "a/b/c", "x" * 5000, ""])
def test_places_that_are_none(ref: str) -> None:
    with pytest.raises(EncoderError, match="there is no encoder directory"):
        identify(ref)


def test_the_real_encoder() -> None:
    if not os.environ.get("PALIMPSEST_MODELS"):
        pytest.skip("PALIMPSEST_MODELS does not name a directory with encoders")
    encoder = load(str(Path(os.environ["PALIMPSEST_MODELS"]) / "gte-small"))
    assert (encoder.identity.name, encoder.identity.depth, encoder.identity.heads) == ("gte-small", 12, 12)
    assert len(encoder.identity.weights or "") == 16
    batch = encoder.tokenizer(["Layers matter."], return_tensors="pt")
    with torch.no_grad():
        assert torch.isfinite(encoder.model(**batch).last_hidden_state).all()
