"""A record's JSON form can be read back, by eye too, and what is not a record is told apart."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.errors import StoreError
from palimpsest.specs.intervention import PermuteLayers, Reinitialize, ReinitializeHeads
from palimpsest.specs.protocol import Initialiser, Protocol
from palimpsest.specs.trial import Probe, Seeds, Trial
from palimpsest.store import Record
from palimpsest.training.outcome import Epoch, Outcome

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
interventions = st.one_of(
    st.builds(Reinitialize, layers=st.lists(st.integers(1, 24), min_size=1, max_size=6).map(tuple)),
    st.builds(PermuteLayers, order=st.permutations(range(1, 7)).map(tuple)),
    st.builds(ReinitializeHeads, heads=st.just(((1, 2), (3, 4)))),
)
trials = st.builds(
    Trial,
    encoder=names,
    task=names,
    size=st.one_of(st.none(), st.integers(1, 10**6), st.floats(0.001, 0.999)),
    interventions=st.lists(interventions, max_size=2).map(tuple),
    protocol=st.builds(
        Protocol,
        name=names,
        summary=names,
        learning_rate=st.floats(1e-9, 1),
        epochs=st.integers(1, 50),
        initialiser=st.builds(Initialiser, std=st.floats(1e-6, 1)),
    ),
    seeds=st.builds(Seeds.of, st.integers(0, 1000)),
    probe=st.one_of(st.none(), st.builds(Probe, layer=st.integers(0, 12))),
)
outcomes = st.builds(
    Outcome,
    status=st.sampled_from(["finished", "failed"]),
    reason=names,
    metric=names,
    metrics=st.dictionaries(names, finite, max_size=3),
    epochs=st.lists(
        st.builds(Epoch, st.integers(0, 9), finite, finite, st.dictionaries(names, finite, max_size=2)), max_size=2
    ).map(tuple),
    curve=st.lists(st.tuples(st.integers(0, 999), finite), max_size=4).map(tuple),
    predictions=names,
    train_examples=st.integers(0, 10**6),
    steps=st.integers(0, 10**6),
    measures=st.dictionaries(names, st.lists(finite, max_size=3), max_size=2),
)


@given(trials, outcomes, st.dictionaries(names, st.one_of(names, finite), max_size=3))
def test_json_and_back(trial: Trial, outcome: Outcome, provenance: dict[str, Any]) -> None:
    record = Record(trial, outcome, provenance)
    again = Record.from_json(record.to_json())
    assert again == record
    assert again.id == record.id == trial.identity
    assert again.trial.protocol.name == trial.protocol.name


def test_the_file_says_which_protocol_by_name(record: Any) -> None:
    data = json.loads(record().to_json())
    assert data["format"] == 1
    assert data["id"] == record().id
    assert data["trial"]["protocol"] == {"name": "mine", "summary": "for tests", "epochs": 2}


def test_numbers_that_are_not_finite_are_null_in_the_file_and_nan_in_memory() -> None:
    outcome = Outcome(
        "failed", "diverged", metrics={"mcc": math.nan}, curve=((1, math.inf),), measures={"d": [math.inf]}
    )
    text = Record(Trial(encoder="pocket", task="cola"), outcome, {"seconds": math.nan}).to_json()
    assert "NaN" not in text
    assert "Infinity" not in text
    again = Record.from_json(text)
    assert math.isnan(again.outcome.metrics["mcc"])
    assert math.isnan(again.outcome.curve[0][1])
    assert again.provenance == {"seconds": None}
    assert again.outcome.measures == {"d": [None]}


def test_provenance_must_be_plain_data(record: Any) -> None:
    with pytest.raises(StoreError, match="not plain data"):
        Record(record().trial, record().outcome, {"device": object()}).to_json()


def change(text: str, *path: Any, to: Any) -> str:
    data = json.loads(text)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "to", "reason"),
    [
        (("format",), 7, "from a newer version: format 7; this Palimpsest reads up to 1"),
        (("format",), 0, "there is no format 0"),
        (("format",), "1", "no format number"),
        (("id",), "0" * 32, "foreign"),
        (("id",), None, "foreign"),
        (("trial", "task"), "cola", "foreign"),
        (("trial",), None, "its trial cannot be read"),
        (("trial", "future"), 1, "its trial cannot be read"),
        (("outcome",), [], "outcome is not a mapping"),
        (("outcome", "status"), "running", "neither finished nor failed"),
        (("outcome", "reason"), 3, "outcome.reason is not a text"),
        (("outcome", "metrics"), {"accuracy": "high"}, "outcome.metrics.accuracy is 'high', not a number"),
        (("outcome", "metrics"), {"accuracy": True}, "not a number"),
        (("outcome", "epochs"), {}, "outcome.epochs is not a list"),
        (("outcome", "epochs", 1, "epoch"), -1, r"outcome.epochs\[1\].epoch is -1, not a count"),
        (("outcome", "curve"), [[1, 2.0], [3]], "not a list of pairs"),
        (("outcome", "curve"), [[1.5, 2.0]], "a step that is not a count"),
        (("outcome", "curve"), [[1, "x"]], "not a number"),
        (("outcome", "steps"), 1.5, "outcome.steps is 1.5, not a count"),
        (("provenance",), "here", "provenance is not a mapping"),
    ],
)
def test_what_is_not_a_record_says_why(record: Any, path: tuple[Any, ...], to: Any, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        Record.from_json(change(record().to_json(), *path, to=to))


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "[" * 100_000, b"\xff\xfe\x00", '{"format": NaN}'])
def test_text_that_is_no_record_at_all(text: str | bytes) -> None:
    with pytest.raises(StoreError):
        Record.from_json(text)


def test_a_number_too_large_for_a_float_is_refused(record: Any) -> None:
    text = record().to_json().replace('"accuracy": 0.75', '"accuracy": 1e999')
    with pytest.raises(StoreError, match="not a number"):
        Record.from_json(text)
