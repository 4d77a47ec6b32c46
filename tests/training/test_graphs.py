"""The GPU's way of stepping, computed on a CPU: the same arithmetic without graphs, in full precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from palimpsest.specs.intervention import PermuteLayers, Reinitialize
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.training import graphs, shapes
from palimpsest.training.graphs import GraphStepper
from palimpsest.training.preparation import Prepared
from palimpsest.training.stack import Stack, assemble, folded_gradients, gradients
from palimpsest.training.stepper import HostStepper


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
    assert bool(device.shapes.compiled) is compiled
    for step in range(pack.steps):
        host.advance(step)
        device.compute(device.shapes.at[step])
    ended = np.arange(pack.steps) < np.array(pack.lengths)[:, None]
    np.testing.assert_allclose(device.losses()[ended], host.losses()[ended], rtol=1e-5)
    for name, weight in host.working().items():
        if not name.endswith("key.bias"):  # attention ignores it: its gradient is rounding, which Adam makes large
            torch.testing.assert_close(device.working()[name], weight, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.usefixtures("uncompiled")
def test_idle_places_change_nothing(tiny_encoder: Any, tiny_data: Any) -> None:
    prepared = trials(tiny_encoder, tiny_data)
    stacks = [Stack(assemble(prepared, tiny_data, places), torch.device("cpu")) for places in (3, 8)]
    steppers = [GraphStepper(stack, precision=torch.float32, compiled=True) for stack in stacks]
    for stepper in steppers:
        for step in range(stepper.stack.pack.steps):
            stepper.compute(stepper.shapes.at[step])
    full, roomier = (stepper.losses() for stepper in steppers)
    np.testing.assert_allclose(roomier[:3], full, rtol=1e-5)
    full_logits, roomier_logits = (s.predict(stepper.working()) for s, stepper in zip(stacks, steppers, strict=True))
    assert roomier_logits.shape == full_logits.shape
    torch.testing.assert_close(roomier_logits, full_logits, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("uncompiled")
def test_what_the_optimiser_writes_to_is_not_aliased(tiny_encoder: Any, tiny_data: Any) -> None:
    """Aliases that are written to would be compiled anew for each of the hundreds of weights."""
    written: list[tuple[torch.Tensor, ...]] = []
    stack = Stack(assemble(trials(tiny_encoder, tiny_data), tiny_data), torch.device("cpu"))
    stepper = GraphStepper(stack, precision=torch.float32)
    stepper._update = lambda *tensors: written.append(tensors[:5])
    stepper.compute(stepper.shapes.at[0])
    assert len(written) == len(stack.weights)
    for tensors in written:
        assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 5


@pytest.mark.usefixtures("uncompiled")
def test_only_shapes_that_pay_are_compiled(tiny_encoder: Any, tiny_data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack(assemble(trials(tiny_encoder, tiny_data), tiny_data), torch.device("cpu"))
    monkeypatch.setattr(shapes, "_LENGTHS", (4, 8, 12, 16, 24, 32))
    monkeypatch.setattr(shapes, "_COMPILED_LENGTHS", (16, 32))
    needed = np.array([stack.training.length(stack.pack.rows[:, step], 32) for step in range(stack.pack.steps)])
    never = GraphStepper(stack, compiled=False).shapes
    assert all(length >= n for (_, length), n in zip(never.at, needed, strict=True))
    assert not GraphStepper(stack).shapes.compiled  # far too little work
    always = GraphStepper(stack, compiled=True).shapes
    assert set(always.at) <= always.compiled
    assert GraphStepper(stack, ahead=10**12).shapes.compiled == always.compiled
    # A second program must be worth its making.
    some = GraphStepper(stack, ahead=10**9).shapes
    assert len(some.compiled) == 1
    assert set(some.at) == some.compiled


def test_packs_have_few_sizes() -> None:
    assert [graphs.roomy(n) for n in (1, 2, 3, 5, 8, 9, 16, 17, 59, 64)] == [1, 2, 3, 5, 8, 9, 16, 17, 64, 64]


@pytest.mark.usefixtures("uncompiled")
def test_folded_gradients_are_the_stacked_ones(tiny_encoder: Any, tiny_data: Any) -> None:
    stack = Stack(assemble(trials(tiny_encoder, tiny_data), tiny_data), torch.device("cpu"))
    stack.load()
    stack.network.train()
    weights = {n: w.clone().requires_grad_() for n, w in stack.weights.items()}
    batch = stack.renumber(stack.training.take(torch.as_tensor(stack.pack.rows[:, 0]), stack.training.ids.shape[1]))
    keys = torch.as_tensor(stack.pack.keys[:, 0])
    plain, losses = gradients(stack.network, weights, batch, keys)
    folded, same = folded_gradients(stack.network, weights, batch, keys)
    torch.testing.assert_close(same, losses)
    for name in plain:
        torch.testing.assert_close(folded[name], plain[name], msg=name)


def test_the_rest_of_larger_packs_runs_their_program() -> None:
    assert graphs.roomy(64, 72) == 72
    assert graphs.roomy(72, 72) == 72
    assert graphs.roomy(39, 72) == 40  # too many idle places
    assert graphs.roomy(6, 7) == 7


def test_a_program_that_is_there_is_used(tiny_encoder: Any, tiny_data: Any) -> None:
    prepared, device = trials(tiny_encoder, tiny_data), torch.device("cpu")
    alone = graphs.roomy_stack(prepared, tiny_data, device, ahead=0)
    assert alone.pack.places == 3  # not worth compiling, so no place is idle
    [shape] = shapes.shapes(alone, ahead=10**9).compiled
    made = alone.network.parts.made
    made.add((5, shape))
    try:
        roomier = graphs.roomy_stack(prepared, tiny_data, device, ahead=0)
        assert roomier.pack.places == 5
        assert shapes.shapes(roomier).compiled == {shape}
        assert graphs.roomy_stack(prepared[:2], tiny_data, device, ahead=0).pack.places == 2  # too many would be idle
        made.clear()
        made.add((5, (3, 256)))  # for other data
        assert graphs.roomy_stack(prepared, tiny_data, device, ahead=0).pack.places == 3
    finally:
        made.clear()
