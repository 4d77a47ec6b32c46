"""Weights that wait in a store for trials that start from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from palimpsest.errors import StoreError
from palimpsest.store import Store, open_store

ID = "0123456789abcdef" * 2


@pytest.fixture(params=["directory", "memory://weights-test"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    where = tmp_path / "store" if request.param == "directory" else f"{request.param}/{tmp_path.name}"
    return open_store(where, create=True)


def test_kept_replaced_and_let_go(store: Store) -> None:
    assert not store.has_weights(ID)
    assert store.weights(ID) is None
    store.drop_weights(ID)  # nothing to let go of
    for content in (b"first", b"second"):
        store.keep_weights(ID, content)
        assert store.has_weights(ID)
        assert store.weights(ID) == content
    assert store.ids() == set()
    assert store.problems == []
    store.drop_weights(ID)
    assert store.weights(ID) is None


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "store", create=True)
    store.keep_weights(ID, b"whole")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.keep_weights(ID, b"torn")
    assert store.weights(ID) == b"whole"
    assert [p.name for p in (tmp_path / "store" / "weights").iterdir()] == [f"{ID}.safetensors"]
