"""Random numbers: the same everywhere, from the law that they claim, and nobody else's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from palimpsest import streams
from palimpsest.training.dropout import Stream, StreamDropout, keep_mask

WORDS = st.lists(st.one_of(st.integers(), st.text(max_size=5)), max_size=4)


def index(n: int, start: int = 0) -> torch.Tensor:
    return torch.arange(start, start + n, dtype=torch.int32)


def test_the_numbers_are_the_same_on_every_machine() -> None:
    assert streams.key("subsample", 0) == (-1315816633, -1572953681)
    assert streams.permutation(8, "order", 3, 1).tolist() == [6, 7, 2, 1, 3, 5, 4, 0]
    assert streams.host_bits(2, "golden").tolist() == [14474376727897286162, 13275754581905250229]
    assert streams.step_keys(2, "dropout", 7).tolist() == [[-1619110498, 321869654], [1238937722, 679031749]]
    assert streams.bits(index(3), 11, -5).tolist() == [1487612436, 526763037, 442359348]
    assert streams.uniform(index(2), 11, -5).tolist() == [0.34636181592941284, 0.12264662981033325]


@given(st.integers(0, 300), WORDS)
def test_a_permutation_is_one(n: int, words: list[int | str]) -> None:
    assert sorted(streams.permutation(n, *words).tolist()) == list(range(n))


def test_every_order_is_as_likely_as_any_other() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(4800):
        order = tuple(streams.permutation(4, "uniform", seed).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    chi_square = sum((c - 200) ** 2 / 200 for c in counts.values())
    assert chi_square < 23 + 4 * math.sqrt(2 * 23)


def test_other_words_give_another_stream() -> None:
    words = [("a", 1), ("a", 2), ("b", 1), ("a", 1, 0), (1, "a"), ("a1",)]
    assert len({streams.key(*w) for w in words}) == len(words)
    drawn = [streams.host_bits(1000, *w) for w in words]
    for n, a in enumerate(drawn):
        for b in drawn[n + 1 :]:
            agree = np.mean(np.unpackbits((a ^ b).view(np.uint8)))
            assert abs(agree - 0.5) < 4 * 0.5 / math.sqrt(64_000)


def test_numbers_do_not_depend_on_the_state_of_a_library() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    before = streams.permutation(50, "x").tolist(), streams.uniform(index(50), *streams.key("x")).tolist()
    torch.manual_seed(2)
    np.random.seed(2)
    states = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    assert (streams.permutation(50, "x").tolist(), streams.uniform(index(50), *streams.key("x")).tolist()) == before
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]  # type: ignore[index, union-attr]


def test_uniform_numbers_are_uniform() -> None:
    n = 1 << 20
    u = streams.uniform(index(n), *streams.key("uniform", 0)).double()
    assert abs(float(u.mean()) - 0.5) < 4 * math.sqrt(1 / 12 / n)
    assert abs(float(u.var()) - 1 / 12) < 4 * math.sqrt(1 / 180 / n)
    counts = torch.histc(u.float(), 64, 0, 1).double()
    assert float(((counts - n / 64) ** 2 / (n / 64)).sum()) < 63 + 4 * math.sqrt(2 * 63)
    neighbours = float(((u[1:] - 0.5) * (u[:-1] - 0.5)).mean() * 12)
    assert abs(neighbours) < 4 / math.sqrt(n)


def test_uniform_numbers_stay_inside_the_open_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    extremes = torch.tensor([-1, 0, 2**31 - 1, -(2**31), 0x1FF, -0x200], dtype=torch.int32)
    monkeypatch.setattr(streams, "bits", lambda index, *_: index)
    u = streams.uniform(extremes, 0, 0)
    assert float(u.min()) > 0
    assert float(u.max()) < 1
    assert torch.isfinite(torch.erfinv(2 * u - 1)).all()
    assert torch.equal(u[0] + u[1], torch.tensor(1.0))


def test_indices_near_the_end_of_int32_do_no_harm() -> None:
    last = torch.tensor([2**31 - 2, 2**31 - 1, -(2**31), -(2**31) + 1], dtype=torch.int32)
    drawn = streams.bits(last, 2**31 - 1, -(2**31))
    assert drawn.dtype == torch.int32
    assert len(set(drawn.tolist())) == 4


def test_keys_may_be_numbers_or_tensors() -> None:
    k0, k1 = streams.key("either")
    tensors = torch.tensor([k0, k1], dtype=torch.int32)
    assert torch.equal(streams.bits(index(9), k0, k1), streams.bits(index(9), tensors[0], tensors[1]))


# Dropout


def key(*words: int | str) -> torch.Tensor:
    return torch.tensor(streams.key(*words), dtype=torch.int32)


def mask(shape: tuple[int, ...], p: float = 0.1, *words: int | str) -> torch.Tensor:
    k = key(*words)
    return keep_mask(torch.ones(shape), p, k[0], k[1])


@pytest.mark.parametrize("shape", [(8, 64, 256), (8, 4, 64, 64), (512, 256)])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_drops_as_many_as_it_should(shape: tuple[int, ...], p: float) -> None:
    m = mask(shape, p, "rate")
    assert m.unique().tolist() == pytest.approx([0, 1 / (1 - p)])
    dropped = (m == 0).double()
    assert abs(float(dropped.mean()) - p) < 4 * math.sqrt(p * (1 - p) / m.numel())
    for dim in range(m.dim()):
        others = [d for d in range(m.dim()) if d != dim]
        means = dropped.mean(others)
        sigma = math.sqrt(p * (1 - p) / (m.numel() / m.shape[dim]))
        assert float((means - p).abs().max()) < 5.5 * sigma


def test_dropout_does_not_depend_on_the_padded_length() -> None:
    hidden, attention = mask((4, 32, 16), 0.3, "pad"), mask((4, 2, 32, 32), 0.3, "pad")
    assert torch.equal(mask((4, 8, 16), 0.3, "pad"), hidden[:, :8])
    assert torch.equal(mask((4, 2, 8, 8), 0.3, "pad"), attention[:, :, :8, :8])


def test_dropout_does_not_depend_on_how_many_rows_the_batch_has() -> None:
    assert torch.equal(mask((3, 8, 16), 0.3, "rows"), mask((8, 8, 16), 0.3, "rows")[:3])
    assert torch.equal(mask((3, 2, 8, 8), 0.3, "rows"), mask((8, 2, 8, 8), 0.3, "rows")[:3])
    assert torch.equal(mask((3, 16), 0.3, "rows"), mask((8, 16), 0.3, "rows")[:3])


def test_dropout_is_new_for_every_trial_step_place_and_row() -> None:
    stream = Stream()
    drops = []
    for trial, step in [(0, 0), (0, 1), (1, 0)]:
        stream.key = torch.as_tensor(streams.step_keys(2, "dropout", trial)[step])
        drops += [StreamDropout(0.5, stream, site)(torch.ones(2, 16, 64)) == 0 for site in (0, 1)]
    halves = [half.flatten() for d in drops for half in d]
    for n, a in enumerate(halves):
        for b in halves[n + 1 :]:
            assert abs(float((a ^ b).double().mean()) - 0.5) < 4.5 * 0.5 / math.sqrt(1024)


def test_dropout_is_the_same_under_vmap_as_alone() -> None:
    stream = Stream()
    site = StreamDropout(0.4, stream, 3)

    def forward(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        stream.key = k
        return site(x)

    x = torch.randn(3, 4, 8, 16, generator=torch.Generator().manual_seed(0))
    keys = torch.stack([key("trial", t) for t in range(3)])
    together = vmap(forward)(x, keys)
    for t in range(3):
        assert torch.equal(together[t], forward(x[t], keys[t]))


def test_dropout_is_off_without_a_key_and_in_evaluation() -> None:
    stream = Stream()
    site, x = StreamDropout(0.5, stream, 0), torch.ones(4, 4)
    assert site(x) is x
    stream.key = key("on")
    assert not torch.equal(site(x), x)
    assert site.eval()(x) is x
