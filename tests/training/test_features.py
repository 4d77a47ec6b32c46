"""Features of a frozen encoder: the right numbers, computed once, and again when the cache is damaged."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from palimpsest.encoders.identity import anatomy_of
from palimpsest.encoders.loading import Encoder
from palimpsest.errors import TrainingError
from palimpsest.specs.expansion import EncoderIdentity
from palimpsest.specs.intervention import PermuteLayers, Reinitialize
from palimpsest.specs.protocol import Initialiser, Protocol
from palimpsest.specs.trial import Probe, Seeds, Trial
from palimpsest.surgery.operations import operate
from palimpsest.tasks.tokenize import Encoded
from palimpsest.training.data import Data
from palimpsest.training.features import Source, cache_directory, features
from palimpsest.training.preparation import Prepared, fresh_pooler


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALIMPSEST_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry per time that an encoder is made ready to be run."""
    made: list[str] = []
    network = Encoder.network
    monkeypatch.setattr(Encoder, "network", lambda self: made.append(self.identity.name) or network(self))
    return made


@torch.no_grad()
def one_by_one(model: torch.nn.Module, split: Encoded, pooling: str, types: bool = True) -> np.ndarray:
    """The same features without batches or padding."""
    pooled = []
    for begin, end in zip(split.offsets[:-1], split.offsets[1:], strict=True):
        given = {"input_ids": torch.as_tensor(split.ids[begin:end]).long()[None]}
        if types:
            given["token_type_ids"] = torch.as_tensor(split.types[begin:end]).long()[None]
        states = torch.stack(model(**given, output_hidden_states=True).hidden_states)[:, 0]
        pooled.append(states.mean(1) if pooling == "mean" else states[:, 0])
    return torch.stack(pooled, 1).numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_every_layer_of_every_example(tiny_encoder: Encoder, tiny_data: Data, pooling: str) -> None:
    got = features(tiny_encoder, tiny_data, "cpu", pooling)  # type: ignore[arg-type]
    assert got.train.shape == (4, 60, 16)
    assert got.validation.shape == (4, 24, 16)
    np.testing.assert_allclose(got.train, one_by_one(tiny_encoder.model, tiny_data.train, pooling), atol=2e-6)
    np.testing.assert_allclose(got.validation, one_by_one(tiny_encoder.model, tiny_data.validation, pooling), atol=2e-6)


@pytest.mark.parametrize("family", ["roberta", "electra", "distilbert", "mpnet"])
def test_other_families(make_data: Callable[..., Data], family: str) -> None:
    from transformers import AutoConfig, AutoModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    if family == "distilbert":
        sizes = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    elif family == "electra":
        sizes["embedding_size"] = 8
    config = AutoConfig.for_model(family, vocab_size=60, max_position_embeddings=40, pad_token_id=0, **sizes)
    model = AutoModel.from_config(config).eval()
    anatomy = anatomy_of(config.to_dict(), family)
    encoder = Encoder(EncoderIdentity(family, None, 2, 2), model, None, anatomy, False)
    data = make_data(12, 6)
    types = anatomy.family.token_types
    if family == "roberta":  # it has one type of token only
        data.train.types[:] = data.validation.types[:] = 0
    got = features(encoder, data)
    assert got.train.shape == (3, 12, 16)
    np.testing.assert_allclose(got.train, one_by_one(model, data.train, "mean", types), atol=2e-6)


def test_the_encoder_runs_once(tiny_encoder: Encoder, tiny_data: Data, runs: list[str]) -> None:
    first = features(tiny_encoder, tiny_data, "cpu", "mean")
    again = features(tiny_encoder, tiny_data, "cpu", "mean")
    features(tiny_encoder, tiny_data, "cpu", "cls")
    features(tiny_encoder, tiny_data, "cpu", "pooler")
    assert len(runs) == 1
    assert isinstance(again.train, np.memmap)
    np.testing.assert_array_equal(first.train, again.train)


def test_other_weights_or_other_examples_are_other_features(
    tiny_encoder: Encoder, tiny_data: Data, make_data: Callable[..., Data], runs: list[str]
) -> None:
    pristine = features(tiny_encoder, tiny_data)
    changed = Encoder(tiny_encoder.identity, tiny_encoder.network(), None, tiny_encoder.anatomy, True)
    with torch.no_grad():
        changed.model.encoder.layer[2].output.dense.weight *= 3.0
    runs.clear()
    assert not np.allclose(features(changed, tiny_data).train[3], pristine.train[3])
    features(tiny_encoder, make_data(seed=1))
    assert len(runs) == 2


def test_interventions_are_carried_out(tiny_encoder: Encoder, tiny_data: Data, runs: list[str]) -> None:
    anatomy, law = tiny_encoder.anatomy, Initialiser(std=0.5, cut=None)
    interventions = (Reinitialize(layers=(3,)), PermuteLayers(order=(1, 3, 2)))
    pristine = features(tiny_encoder, tiny_data)
    got = features(tiny_encoder, tiny_data, "cpu", Source("mean", interventions, law, 7))
    np.testing.assert_array_equal(got.train[:2], pristine.train[:2])
    model = tiny_encoder.network()
    model.load_state_dict(operate(tiny_encoder.state, interventions, anatomy, law, 7))
    np.testing.assert_allclose(got.train, one_by_one(model, tiny_data.train, "mean"), atol=5e-6)
    runs.clear()
    other_seed = features(tiny_encoder, tiny_data, "cpu", Source("mean", interventions, law, 8))
    features(tiny_encoder, tiny_data, "cpu", Source("mean", interventions, law, 7))
    assert len(runs) == 1
    assert not np.allclose(other_seed.train[2], got.train[2])


def test_the_pooler_is_applied_to_the_first_token_of_every_layer(tiny_encoder: Encoder, tiny_data: Data) -> None:
    first = features(tiny_encoder, tiny_data, "cpu", "cls")
    own = tiny_encoder.model.pooler.dense
    for source, weight, bias in [
        (Source("pooler"), own.weight.detach(), own.bias.detach()),
        (Source("pooler", fresh_pooler=3), *fresh_pooler(16, 3)),
    ]:
        got = features(tiny_encoder, tiny_data, "cpu", source)
        for split, states in zip(got, first, strict=True):
            np.testing.assert_allclose(split, np.tanh(states @ weight.numpy().T + bias.numpy()), atol=1e-6)


def test_features_through_a_fresh_pooler_are_not_kept(tiny_encoder: Encoder, tiny_data: Data) -> None:
    features(tiny_encoder, tiny_data, "cpu", "cls")
    before = set(cache_directory().iterdir())
    features(tiny_encoder, tiny_data, "cpu", Source("pooler", fresh_pooler=3))
    assert set(cache_directory().iterdir()) == before


def test_no_pooler_to_apply(tiny_encoder: Encoder, tiny_data: Data) -> None:
    bare = Encoder(tiny_encoder.identity, tiny_encoder.model, None, tiny_encoder.anatomy, has_pooler=False)
    with pytest.raises(TrainingError, match="tiny has no pooler"):
        features(bare, tiny_data, "cpu", "pooler")


@pytest.mark.parametrize("damage", ["truncated", "empty", "missing", "not an array", "of another shape"])
def test_a_damaged_entry_is_computed_again(
    tiny_encoder: Encoder, tiny_data: Data, runs: list[str], damage: str
) -> None:
    whole = features(tiny_encoder, tiny_data).train.copy()
    (path,) = cache_directory().glob("*-train-mean.npy")
    raw = path.read_bytes()
    match damage:
        case "truncated":
            path.write_bytes(raw[: len(raw) // 2])
        case "empty":
            path.write_bytes(b"")
        case "missing":
            path.unlink()
        case "not an array":
            path.write_bytes(b"x" * len(raw))
        case _:
            np.save(path, np.zeros((4, 59, 16), np.float32))
    runs.clear()
    np.testing.assert_array_equal(features(tiny_encoder, tiny_data).train, whole)
    assert len(runs) == 1
    features(tiny_encoder, tiny_data)
    assert len(runs) == 1


def test_nothing_is_left_of_a_run_that_broke_off(
    tiny_encoder: Encoder, tiny_data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palimpsest.training.features.pool", interrupted)
    with pytest.raises(KeyboardInterrupt):
        features(tiny_encoder, tiny_data)
    assert list(cache_directory().iterdir()) == []


def test_a_cache_that_cannot_be_written(
    tiny_encoder: Encoder, tiny_data: Data, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "file").write_text("in the way")
    monkeypatch.setenv("PALIMPSEST_CACHE", str(cache / "file"))
    with pytest.raises(TrainingError, match="PALIMPSEST_CACHE"):
        features(tiny_encoder, tiny_data)


def test_a_full_disk(tiny_encoder: Encoder, tiny_data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(TrainingError, match="No space left on device"):
        features(tiny_encoder, tiny_data)
    assert list(cache_directory().iterdir()) == []


def test_writing_to_features_does_not_reach_the_cache(tiny_encoder: Encoder, tiny_data: Data) -> None:
    mine = features(tiny_encoder, tiny_data).train
    before = mine.copy()
    mine[:] = 0
    np.testing.assert_array_equal(features(tiny_encoder, tiny_data).train, before)


def test_trials_share_features_unless_a_seed_matters(tiny_encoder: Encoder, tiny_data: Data) -> None:
    def source(index: int, interventions: tuple[Reinitialize | PermuteLayers, ...] = (), **protocol: str) -> Source:
        trial = Trial(
            encoder="tiny", task="tiny", probe=Probe(layer=1), seeds=Seeds.of(index),
            interventions=interventions, protocol=Protocol(**protocol),  # type: ignore[arg-type]
        )  # fmt: skip
        return Source.of(Prepared(trial, tiny_data.task, tiny_encoder))

    assert source(0) == source(1)
    assert source(0) != source(0, pooling="cls")
    assert source(0, (PermuteLayers(order=(3, 2, 1)),)) == source(1, (PermuteLayers(order=(3, 2, 1)),))
    assert source(0, (Reinitialize(layers=(1,)),)) != source(1, (Reinitialize(layers=(1,)),))
    assert source(0, pooling="pooler") == source(1, pooling="pooler")
    assert source(0, pooling="pooler", pooler="reset") != source(1, pooling="pooler", pooler="reset")
