"""Encoders from the hub, played by a server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from families import save
from hub_server import COMMIT, Hub
from safetensors.torch import load_file, save_file

from palimpsest.encoders import loading
from palimpsest.encoders.identity import identify
from palimpsest.encoders.loading import load
from palimpsest.errors import EncoderError
from palimpsest.execution.plan import make_plan
from palimpsest.specs.expansion import EncoderIdentity
from palimpsest.specs.study import Study

STUDY = Study.parse(
    {
        "name": "hub",
        "encoder": "org/tiny",
        "tasks": ["mini-sentiment"],
        "experiments": [{"kind": "incremental", "preserved": ["L"], "trials": 1}],
    },
    "test",
)


@pytest.fixture
def checkpoint(tmp_path: Path, tiny_tokenizer: Any) -> Path:
    return save(tmp_path / "mine", "bert", tiny_tokenizer)


@pytest.fixture
def hub(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    served = Hub()
    served.put_folder("org/tiny", checkpoint)
    served.repos["org/tiny"]["training.log"] = b"nobody needs this"
    monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    loading._load.cache_clear()
    yield served
    served.close()


def fetched(hub: Hub) -> set[str]:
    return {line.rpartition("/")[2] for line in hub.asked if line.startswith("GET") and "/resolve/" in line}


def test_to_know_an_encoder_takes_only_its_config(hub: Hub) -> None:
    assert identify("org/tiny") == EncoderIdentity("org/tiny", COMMIT, 3, 2)
    assert fetched(hub) == {"config.json"}


def test_an_encoder_is_downloaded_and_loaded(hub: Hub, checkpoint: Path) -> None:
    encoder = load("org/tiny")
    assert fetched(hub) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert encoder.identity == EncoderIdentity("org/tiny", COMMIT, 3, 2)
    original = load_file(checkpoint / "model.safetensors")
    assert all(torch.equal(weight, original[name]) for name, weight in encoder.state.items())
    assert encoder.tokenizer("good film")["input_ids"]


def test_pickled_weights_only_where_there_are_no_others(hub: Hub, checkpoint: Path) -> None:
    torch.save(load_file(checkpoint / "model.safetensors"), checkpoint / "pytorch_model.bin")
    hub.put_folder("org/both", checkpoint)
    load("org/both")
    assert "pytorch_model.bin" not in fetched(hub)
    (checkpoint / "model.safetensors").unlink()
    hub.put_folder("org/old", checkpoint)
    assert load("org/old").has_pooler
    assert "pytorch_model.bin" in fetched(hub)


def test_the_cache_serves_when_the_hub_does_not(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    load("org/tiny")
    loading._load.cache_clear()
    asked = len(hub.asked)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert load("org/tiny").identity == EncoderIdentity("org/tiny", COMMIT, 3, 2)
    assert len(hub.asked) == asked


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("revision", ["main", COMMIT])
def test_a_revision_is_known_by_its_commit(revision: str) -> None:
    assert identify(f"org/tiny@{revision}") == identify("org/tiny")
    assert load(f"org/tiny@{revision}") is load("org/tiny")


def test_new_weights_under_an_old_name_are_another_encoder(
    hub: Hub, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_plan([STUDY], None)
    old = load("org/tiny")
    changed = {name: weight + 1 for name, weight in load_file(checkpoint / "model.safetensors").items()}
    save_file(changed, checkpoint / "model.safetensors", {"format": "pt"})
    hub.put_folder("org/tiny", checkpoint)
    hub.commit = COMMIT[::-1]

    new = load("org/tiny")
    assert new.identity == EncoderIdentity("org/tiny", hub.commit, 3, 2)
    assert all(torch.equal(weight, old.state[name] + 1) for name, weight in new.state.items())
    assert not set(make_plan([STUDY], None).trials) & set(made.trials)

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # what was planned with the old weights is run with them
    loading._load.cache_clear()
    (trial,) = made.trials.values()
    again = load(made.resources.encoder_of(trial))
    assert (again.identity.name, again.identity.weights) == (trial.encoder, trial.weights) == ("org/tiny", COMMIT)
    assert all(torch.equal(weight, old.state[name]) for name, weight in again.state.items())


def test_a_repository_without_weights(hub: Hub) -> None:
    del hub.repos["org/tiny"]["model.safetensors"]
    with pytest.raises(EncoderError, match="has no weights"):
        load("org/tiny")


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("name", ["org/none", "bert-base-uncasd", "not a name", "org/tiny@nowhere"])
def test_a_hub_without_the_encoder(name: str) -> None:
    with pytest.raises(EncoderError, match=r"cannot get the encoder .*Give a local checkpoint directory"):
        identify(name)


@pytest.mark.usefixtures("hub")
def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EncoderError, match=r"cannot get the encoder 'org/other' from http://127\.0\.0\.1:9"):
        identify("org/other")
