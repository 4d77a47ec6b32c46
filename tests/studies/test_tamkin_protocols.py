"""What the protocols do to weights."""

from __future__ import annotations

import math

import pytest
import torch
from families import DEPTH, encoder_of
from scipy import stats

from palimpsest.specs.intervention import Reinitialize
from palimpsest.specs.protocol import PROTOCOLS
from palimpsest.surgery.initialisers import draw
from palimpsest.surgery.operations import operate


def operated(protocol: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], list[str]]:
    """The tiny encoder's weights before and after its two upper layers were redone, and the names of those."""
    encoder = encoder_of("bert")
    law = PROTOCOLS[protocol].initialiser
    after = operate(encoder.state, (Reinitialize(layers=(2, DEPTH)),), encoder.anatomy, law, 0)
    names = [n for n in after if encoder.anatomy.layer_of(n) in (2, DEPTH) and not encoder.anatomy.layer_norm_of(n)]
    return dict(encoder.state), after, names


def test_the_released_codes_weights_are_almost_zero_and_its_biases_pretrained() -> None:
    before, after, names = operated("released-code")
    for name in names:
        if name.endswith(".bias"):
            assert torch.equal(after[name], before[name])
        else:
            assert 0 < after[name].abs().max() <= 0.0008
            assert not torch.equal(after[name], before[name])


def test_the_papers_weights_and_biases_lie_within_two_sigma() -> None:
    before, after, names = operated("paper")
    assert max(float(after[n].abs().max()) for n in names) <= 0.04
    assert all(not torch.equal(after[n], before[n]) for n in names)


def test_the_original_bert_has_zero_biases() -> None:
    _, after, names = operated("bert-original")
    assert all(bool((after[n] == 0).all()) == n.endswith(".bias") for n in names)
    assert max(float(after[n].abs().max()) for n in names) > 0.02


@pytest.mark.parametrize(
    ("protocol", "cut", "std"), [("paper", 2.0, 0.0176), ("released-code", 0.04, 0.00046)], ids=["paper", "released"]
)
def test_the_scales_are_those_of_scipy(protocol: str, cut: float, std: float) -> None:
    law = stats.truncnorm(-cut, cut, scale=0.02)
    assert law.std() == pytest.approx(std, rel=0.01)
    drawn = draw((200, 100), PROTOCOLS[protocol].initialiser, "reinit", 0, "weight").double().numpy().ravel()
    assert drawn.std() == pytest.approx(law.std(), rel=0.02)
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-3


def test_near_zero_is_38_times_smaller() -> None:
    written, released = stats.truncnorm(-2, 2, scale=0.02), stats.truncnorm(-0.04, 0.04, scale=0.02)
    assert math.isclose(written.std() / released.std(), 38, rel_tol=0.01)
