"""Short examples that share the lines of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.training import shapes as rules
from palimpsest.training.preparation import Prepared
from palimpsest.training.shapes import shapes
from palimpsest.training.sharing import arrange, lines_for, share
from palimpsest.training.stack import Stack, assemble, gradients


@given(st.integers(1, 40).flatmap(lambda line: st.tuples(st.just(line), st.lists(st.integers(0, line), min_size=1))))
def test_examples_lie_side_by_side(drawn: tuple[int, list[int]]) -> None:
    line, lengths = drawn
    starts, lines = arrange(np.array(lengths), line)
    slots = [slot for start, length in zip(starts, lengths, strict=True) for slot in range(start, start + length)]
    assert len(set(slots)) == sum(lengths)  # no two tokens in one slot
    assert all(start // line == (start + n - 1) // line for start, n in zip(starts, lengths, strict=True) if n)
    assert len({slot // line for slot in slots}) == lines <= len(lengths)
    # First fit leaves no two lines less than half full.
    filled = np.bincount([slot // line for slot in slots], minlength=1)
    assert sum(0 < n <= line // 2 for n in filled) <= 1


def test_every_batch_of_a_pack_at_once() -> None:
    lengths = np.random.default_rng(1).integers(0, 20, (3, 5, 8))
    line = np.array([20, 25, 30, 40, 64])
    starts, lines = arrange(lengths, line)
    for t in range(3):
        for step in range(5):
            own, used = arrange(lengths[t, step], int(line[step]))
            assert (starts[t, step] == own).all()
            assert lines[t, step] == used


def test_enough_lines_for_nearly_every_batch() -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(3, 33, 5000)  # any two fit into a line
    enough = lines_for(lengths, 8, 64)
    assert enough == 4
    assert (arrange(rng.choice(lengths, (2000, 8)), 64)[1] <= enough).mean() > 0.99
    assert lines_for(np.full(100, 64), 8, 64) == 8  # nothing to share
    assert lines_for(np.full(100, 65), 8, 64) == 8


def stack_of(encoder: Any, data: Any, **protocol: Any) -> Stack:
    recipe = Protocol(epochs=2, batch_size=8, max_length=32, **protocol)
    trials = [
        Prepared(Trial(encoder="tiny", task="t", size=24, protocol=recipe, seeds=Seeds.of(n)), data.task, encoder)
        for n in range(3)
    ]
    return Stack(assemble(trials, data), torch.device("cpu"))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_sharing_changes_no_gradient(tiny_encoder: Any, tiny_data: Any, pooling: str) -> None:
    stack = stack_of(tiny_encoder, tiny_data, pooling=pooling)
    stack.load()
    stack.network.train()
    weights = {n: w.clone().requires_grad_() for n, w in stack.weights.items()}
    rows = stack.pack.rows[:, 0].copy()
    rows[1, 6:] = -1  # a batch that is not full
    rows[2] = -1  # a trial that has ended
    keys = torch.as_tensor(stack.pack.keys[:, 0])
    batch = stack.renumber(stack.training.take(torch.as_tensor(rows), stack.training.ids.shape[1]))
    starts, lines = arrange(stack.training.host_lengths[rows], 32)
    laid = share(batch, torch.as_tensor(starts), int(lines.max()), 32)
    assert laid.ids.shape[1] < batch.ids.shape[1]
    assert laid.ids.numel() < batch.ids.numel()
    plain, losses = gradients(stack.network, weights, batch, keys)
    shared, same = gradients(stack.network, weights, laid, keys)
    torch.testing.assert_close(same, losses)
    for name in plain:
        torch.testing.assert_close(shared[name], plain[name], rtol=1e-4, atol=1e-6, msg=name)


def test_a_batch_that_needs_more_lines_has_its_own(
    tiny_encoder: Any, tiny_data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = stack_of(tiny_encoder, tiny_data)
    monkeypatch.setattr(rules, "_COMPILED_LENGTHS", (32,))
    ordinary = shapes(stack, compiled=True)
    assert all(ordinary.shared(shape) and shape in ordinary.compiled for shape in ordinary.at)
    monkeypatch.setattr(rules, "lines_for", lambda *_: 1)
    crowded = shapes(stack, compiled=True)
    assert not any(crowded.shared(shape) for shape in crowded.at)
    needed = stack.training.host_lengths[stack.pack.rows].max(axis=(0, 2))
    assert all(lines == 8 and length >= n for (lines, length), n in zip(crowded.at, needed, strict=True))


def test_what_is_only_padding_is_left_out(tiny_encoder: Any, tiny_data: Any) -> None:
    dynamic, padded = (shapes(stack_of(tiny_encoder, tiny_data, padding=padding)) for padding in ("dynamic", "max"))
    assert padded.at == dynamic.at
