"""A device that is too small, and trials that come to nothing."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fault_tools import results
from typer.testing import CliRunner

from palimpsest.cli import app
from palimpsest.store import open_store
from palimpsest.training import stacked
from palimpsest.training.preparation import Prepared


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_out_of_memory(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any, error: Exception) -> None:
    """The pack is halved until it fits, and goes on."""
    train, sizes = stacked.train, []

    def small_device(trials: Sequence[Prepared], *args: Any, **options: Any) -> Any:
        sizes.append(len(trials))
        if len(trials) > 3:
            raise error
        return train(trials, *args, **options)

    run_study(study(), tmp_path / "large")
    monkeypatch.setattr(stacked, "train", small_device)
    events = run_study(study(), tmp_path / "small")
    assert {k: v[0] for k, v in results(tmp_path / "small").items()} == dict.fromkeys(
        results(tmp_path / "large"), "finished"
    )
    notes = [e.text for e in events if e.kind == "note"]
    assert notes
    assert all("out of memory with" in note for note in notes)
    assert max(sizes) > 3


def test_one_trial_that_does_not_fit_at_all(
    run_study: Any, study: Any, planned: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """It has failed, with advice; the others go on, and it can be tried again on a larger device."""
    path, where, train = study(), tmp_path / "store", stacked.train
    giant = list(planned(path, None).trials)[7]
    held: list[weakref.ref[torch.Tensor]] = []

    def small_device(trials: Sequence[Prepared], *args: Any, **options: Any) -> Any:
        assert all(weights() is None for weights in held)  # what did not fit is let go of before the halves are tried
        weights = torch.zeros(10)
        if giant in {p.trial.identity for p in trials}:
            held.append(weakref.ref(weights))
            raise torch.OutOfMemoryError("CUDA out of memory")
        return train(trials, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(stacked, "train", small_device)
        run_study(path, where)
    assert len(held) > 2
    found = results(where)
    assert found.pop(giant)[0] == "failed"
    assert [status for status, *_ in found.values()] == ["finished"] * 19
    reason = open_store(where).get(giant).outcome.reason
    assert "out of memory: this trial alone" in reason
    assert "batches of 8 examples of up to 128 tokens" in reason
    assert "smaller batch_size or max_length, or another device" in reason
    assert run_study(path, where) == []
    run_study(path, where, retry_failed=True)
    assert results(where)[giant][0] == "finished"


def test_not_even_room_to_measure(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """How many trials fit is found out with one of them; if that fails, they are tried one by one."""
    train, sizes = stacked.train, []

    def no_room(*_: Any) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory")

    def counted(trials: Sequence[Prepared], *args: Any, **options: Any) -> Any:
        sizes.append(len(trials))
        return train(trials, *args, **options)

    monkeypatch.setattr(stacked, "fitting", no_room)
    monkeypatch.setattr(stacked, "train", counted)
    run_study(study(1), tmp_path / "store")
    assert sizes == [1] * 4
    assert len(results(tmp_path / "store")) == 4


def test_room_for_some_of_a_pack(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """If not all trials fit at once, the parts are nearly alike: a rest would need programs of its own."""
    train, sizes = stacked.train, []

    def counted(trials: Sequence[Prepared], *args: Any, **options: Any) -> Any:
        sizes.append(len(trials))
        return train(trials, *args, **options)

    monkeypatch.setattr(stacked, "fitting", lambda trials, *_: min(3, len(trials)))
    monkeypatch.setattr(stacked, "train", counted)
    run_study(study(1), tmp_path / "store")
    assert sizes == [2, 2]
    assert len(results(tmp_path / "store")) == 4


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number(
    run_study: Any, study: Any, planned: Any, tmp_path: Path, monkeypatch: Any, value: float
) -> None:
    """The trial is recorded as failed with the reason; the others of its pack, and the study, go on."""
    path, where = study(), tmp_path / "store"
    unlucky = list(planned(path, None).trials)[7]
    healthy = Prepared.initial_state

    def poisoned(self: Prepared, *args: Any) -> dict[str, torch.Tensor]:
        state = healthy(self, *args)
        if self.trial.identity == unlucky:
            state["head.bias"] = torch.full_like(state["head.bias"], value)
        return state

    run_study(path, tmp_path / "quiet")
    expected = results(tmp_path / "quiet")
    with monkeypatch.context() as patch:
        patch.setattr(Prepared, "initial_state", poisoned)
        run_study(path, where)
    found = results(where)
    assert found.pop(unlucky)[0] == "failed"
    assert found == {id: result for id, result in expected.items() if id != unlucky}
    assert "the training loss became nan at step 1" in open_store(where).get(unlucky).outcome.reason
    assert run_study(path, where) == []
    shown = CliRunner().invoke(app, ["status", str(path), "--store", str(where)])
    assert f"failed {unlucky[:12]} colours: the training loss became nan at step 1" in " ".join(shown.output.split())
    events = run_study(path, where, retry_failed=True)
    assert [e.trial.identity for e in events if e.kind == "trial"] == [unlucky]
    assert results(where) == expected
