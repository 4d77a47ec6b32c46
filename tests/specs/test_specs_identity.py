"""Identities are promises: these may never change, whatever is added to specs later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from palimpsest.specs.intervention import PermuteLayers, Reinitialize, ReinitializeHeads
from palimpsest.specs.protocol import PROTOCOLS, Initialiser, Protocol
from palimpsest.specs.trial import Probe, Seeds, Trial

PINNED: dict[str, tuple[str, dict[str, Any]]] = {
    "intact": ("c4fcecc66202f58d2871d917912e6109", {"encoder": "bert-base-uncased", "task": "sst2"}),
    "counted": (
        "5764c37fd050c4c323df24a2db4a31d8",
        {"encoder": "bert-base-uncased", "task": "sst2", "size": 5000, "seeds": Seeds.of(2)},
    ),
    "fraction": ("431679a3cff6f30607fbff60e61038cf", {"encoder": "bert-base-uncased", "task": "qnli", "size": 0.006}),
    "reinitialized": (
        "322534a5329a0a2a56a873f64c85a228",
        {"encoder": "bert-base-uncased", "task": "cola", "size": 500, "seeds": Seeds.of(49),
         "interventions": [{"kind": "reinitialize", "layers": [10, 11, 12]}], "protocol": {"epochs": 5}},
    ),
    "permuted": (
        "7aabdd67b8240e057f2c587825aaabd0",
        {"encoder": "tiny", "weights": "0123456789abcdef", "task": "sst2",
         "interventions": [{"kind": "permute", "order": [3, 1, 2]}]},
    ),
    "heads": (
        "2a56f087909268b87c73a87d029bf58c",
        {"encoder": "bert-base-cased", "task": "stsb",
         "interventions": [{"kind": "reinitialize-heads", "heads": [[1, 4], [12, 9]]}],
         "protocol": {"batch_size": 32}},
    ),
    "probe": (
        "2b2a130649a87f22bfd47acf3bde9ded",
        {"encoder": "bert-base-uncased", "task": "sst2", "probe": {"layer": 0}},
    ),
    "own data": (
        "18b0746ce1ceba7914cbd355336df2d3",
        {"encoder": "pocket", "task": "reviews é", "data": "fedcba9876543210"},
    ),
    "a look at every epoch": (
        "e51310f8617834146891bcd326eb3e9e",
        {"encoder": "bert-base-uncased", "task": "sst2", "protocol": {"evaluate": "epoch", "epochs": 10}},
    ),
    "another protocol": (
        "025dfcb255d595ae840d89f7288d23d5",
        {"encoder": "bert-base-uncased", "task": "sst2", "interventions": [{"kind": "reinitialize", "layers": [12]}],
         "protocol": {"optimizer": "adamw", "schedule": "linear", "clip": 1.0, "pooling": "pooler",
                      "head_dropout": 0.1, "padding": "max", "initialiser": {"cut": 0.0008, "biases": "keep"}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PINNED)
def test_pinned(name: str) -> None:
    identity, fields = PINNED[name]
    assert Trial.model_validate(fields).identity == identity


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_the_same_in_another_process(seed: str) -> None:
    code = (
        "import sys, json; from palimpsest.specs.trial import Trial; "
        "print(json.dumps([Trial.model_validate(t).identity for t in json.load(sys.stdin)]))"
    )
    trials = [Trial.model_validate(fields).model_dump(mode="json") for _, fields in PINNED.values()]
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(trials), capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    assert json.loads(done.stdout) == [identity for identity, _ in PINNED.values()]


def test_all_pinned_trials_are_different() -> None:
    assert len({identity for identity, _ in PINNED.values()}) == len(PINNED)


def test_a_field_added_later_changes_no_identity() -> None:
    class LaterInitialiser(Initialiser):
        shape: str = "normal"

    class LaterProtocol(Protocol):
        initialiser: LaterInitialiser = LaterInitialiser()
        smoothing: float = 0.0
        extras: tuple[int, ...] = ()

    class LaterTrial(Trial):
        protocol: LaterProtocol = LaterProtocol()
        priority: int | None = None
        labels: dict[str, int] = Field(default_factory=dict)

    for identity, fields in PINNED.values():
        plain = Trial.model_validate(fields).model_dump()
        assert LaterTrial.model_validate(plain).identity == identity
        assert LaterTrial.model_validate({**plain, "priority": 1}).identity != identity


def test_canonical_json_is_json_of_the_canonical_form() -> None:
    for _, fields in PINNED.values():
        trial = Trial.model_validate(fields)
        text = json.dumps(trial.canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        assert trial.canonical_json == text
        assert text.isascii()


def test_names_of_protocols_do_not_matter() -> None:
    ours, theirs = Protocol(name="ours", summary="a", epochs=5), Protocol(name="theirs", summary="b", epochs=5)
    assert ours.identity == theirs.identity
    assert (
        Trial(encoder="e", task="t", protocol=ours).identity == Trial(encoder="e", task="t", protocol=theirs).identity
    )


def test_looking_at_the_end_is_what_goes_without_saying() -> None:
    assert {p.name for p in PROTOCOLS.values() if p.evaluate != "end"} == set()
    assert (
        Trial(encoder="e", task="t", protocol=Protocol(evaluate="end")).identity
        == Trial(encoder="e", task="t").identity
    )


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.randoms(),
)
def test_layers_are_a_set(layers: list[int], random: Any) -> None:
    shuffled = layers + layers[:2]
    random.shuffle(shuffled)
    a, b = Reinitialize(layers=tuple(layers)), Reinitialize(layers=tuple(shuffled))
    assert a == b
    assert a.identity == b.identity
    assert list(a.layers) == sorted(set(layers))


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=8))
def test_heads_are_a_set(heads: list[tuple[int, int]]) -> None:
    a, b = ReinitializeHeads(heads=tuple(heads)), ReinitializeHeads(heads=tuple(reversed(heads + heads)))
    assert a.identity == b.identity


FIELDS = st.fixed_dictionaries(
    {"encoder": st.text(max_size=5), "task": st.text(max_size=5)},
    optional={
        "size": st.none() | st.integers(1, 10**6) | st.floats(0, 1, exclude_min=True, exclude_max=True),
        "data": st.none() | st.text(max_size=3),
        "weights": st.none() | st.text(max_size=3),
        "seeds": st.builds(Seeds.of, st.integers(0, 2**63)),
        "probe": st.none() | st.builds(Probe, layer=st.integers(0, 12)),
        "interventions": st.lists(
            st.builds(Reinitialize, layers=st.tuples(st.integers(1, 12)))
            | st.builds(PermuteLayers, order=st.permutations([1, 2, 3]).map(tuple)),
            max_size=3,
        ).map(tuple),
        "protocol": st.builds(
            Protocol, learning_rate=st.floats(1e-10, 1), epochs=st.integers(1, 9), dropout=st.booleans()
        ),
    },
)


@given(FIELDS, FIELDS)
def test_equal_values_and_only_they_have_equal_identities(a: dict[str, Any], b: dict[str, Any]) -> None:
    one, other = Trial(**a), Trial(**b)
    assert (one == other) == (one.identity == other.identity)


@given(FIELDS)
def test_identity_survives_json(fields: dict[str, Any]) -> None:
    trial = Trial(**fields)
    through = json.loads(json.dumps(trial.model_dump(mode="json")))
    assert Trial.model_validate(through).identity == trial.identity
    assert Trial.model_validate(json.loads(trial.canonical_json)).identity == trial.identity


def test_a_count_and_a_fraction_are_not_mistaken_for_each_other() -> None:
    for bad in (1.0, 0.0, 2.5, True, "500", -1, 0):
        with pytest.raises(ValidationError):
            Trial(encoder="e", task="t", size=bad)  # type: ignore[arg-type]


def test_trials_are_immutable_and_hashable() -> None:
    trial = Trial(encoder="e", task="t")
    with pytest.raises(ValidationError):
        trial.task = "other"  # type: ignore[misc]
    assert len({trial, Trial(encoder="e", task="t"), Trial(encoder="e", task="u")}) == 2
