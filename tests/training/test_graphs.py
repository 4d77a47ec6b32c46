"""The GPU's way of stepping, computed on a CPU: the same arithmetic without graphs, in full precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from palimpsest.specs.intervention import PermuteLayers, Reinitialize
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.training.graphs import GraphStepper
from palimpsest.training.preparation import Prepared
from palimpsest.training.stacked import HostStepper, Stack, assemble, folded_gradients, gradients


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled on a GPU runs as it is written."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)


def trials(encoder: Any, data: Any) -> list[Prepared]:
    base = Protocol(epochs=1, batch_size=4, max_length=32, learning_rate=1e-3)
    protocols = [
        base.model_copy(update={"reinitialized_rate": 5.0}),
        base.model_copy(update={"clip": 0.1, "schedule": "linear"}),
        base.model_copy(update={"frozen_layers": (-1,)}),
    ]
    interventions = [(Reinitialize(layers=(2, 3)),), (PermuteLayers(order=(2, 3, 1)),), ()]
    return [
        Prepared(
            Trial(encoder="tiny", task="t", size=size, protocol=p, interventions=i, seeds=Seeds.of(n)),
            data.task,
            encoder,
        )
        for n, (p, i, size) in enumerate(zip(protocols, interventions, [12, 12, 7], strict=True))
    ]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.usefixtures("uncompiled")
def test_steps_as_on_the_host(tiny_encoder: Any, tiny_data: Any, compiled: bool) -> None:
    prepared = trials(tiny_encoder, tiny_data)
    pack = assemble(prepared, tiny_data)
    host = HostStepper(Stack(pack, torch.device("cpu")))
    stack = Stack(pack, torch.device("cpu"))
    device = GraphStepper(stack, precision=torch.float32, compiled=compiled)
    assert device.compiled is compiled
    for step in range(pack.steps):
        host.advance(step)
        device.compute(device.length_at(step))
    ended = np.arange(pack.steps) < np.array(pack.lengths)[:, None]
    np.testing.assert_allclose(device.losses()[ended], host.losses()[ended], rtol=1e-5)
    for name, weight in host.working().items():
        if not name.endswith("key.bias"):  # attention ignores it: its gradient is rounding, which Adam makes large
            torch.testing.assert_close(device.working()[name], weight, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.usefixtures("uncompiled")
def test_folded_gradients_are_the_stacked_ones(tiny_encoder: Any, tiny_data: Any) -> None:
    stack = Stack(assemble(trials(tiny_encoder, tiny_data), tiny_data), torch.device("cpu"))
    stack.load()
    stack.network.train()
    weights = {n: w.clone().requires_grad_() for n, w in stack.layout.views(stack.weights).items()}
    batch = stack.renumber(stack.training.take(torch.as_tensor(stack.pack.rows[:, 0]), stack.training.ids.shape[1]))
    keys = torch.as_tensor(stack.pack.keys[:, 0])
    plain, losses = gradients(stack.network, weights, batch, keys)
    folded, same = folded_gradients(stack.network, weights, batch, keys)
    torch.testing.assert_close(same, losses)
    for name in plain:
        torch.testing.assert_close(folded[name], plain[name], msg=name)
