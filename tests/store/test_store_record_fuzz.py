"""Whatever bytes lie in a store, reading them gives a record or a StoreError that says why not."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.errors import StoreError
from palimpsest.specs.trial import Trial
from palimpsest.store import Record
from palimpsest.training.outcome import Epoch, Outcome

WHOLE = Record(
    Trial(encoder="pocket", task="sst2", size=500),
    Outcome(
        "finished", metric="accuracy", metrics={"accuracy": 0.5}, epochs=(Epoch(1, 0.7, 0.6, {"accuracy": 0.5}),),
        curve=((1, 0.7),), train_examples=500, steps=63,
    ),
    {"engine": "reference", "versions": {"torch": "2"}},
).to_json()  # fmt: skip

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def read(content: bytes | str) -> Record | None:
    try:
        record = Record.from_json(content)
    except StoreError:
        return None
    assert Record.from_json(record.to_json()).id == record.id
    return record


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes(content: bytes | str) -> None:
    assert read(content) is None


@given(anything)
def test_any_json(value: Any) -> None:
    assert read(json.dumps(value)) is None


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in _places(inner, (*path, key)))]


@settings(max_examples=max(300, settings.default.max_examples))
@given(st.sampled_from(_places(json.loads(WHOLE))[1:]), anything, st.booleans())
def test_a_record_with_one_place_changed(place: tuple[Any, ...], value: Any, remove: bool) -> None:
    data = json.loads(WHOLE)
    holder = data
    for key in place[:-1]:
        holder = holder[key]
    if remove:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    read(json.dumps(data))


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_record_cut_short_or_with_one_byte_changed(position: int, byte: int) -> None:
    content = WHOLE.encode()
    assert read(content[:position]) is None
    read(content[:position] + bytes([byte]) + content[position + 1 :])


def test_a_very_deep_or_large_record() -> None:
    assert read("[" * 100_000) is None
    assert read('{"format": 1' + "0" * 5000 + "}") is None
    assert read('{"a":' * 5000 + "1" + "}" * 5000) is None
