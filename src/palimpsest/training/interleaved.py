"""Several tasks at once, one trial at a time: one encoder, a head for each task. The plain loop; see together.py."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from palimpsest.training.data import Data
from palimpsest.training.evaluation import Evaluation, OnLosses, evaluate, failure, ruined
from palimpsest.training.kernels import good_kernels
from palimpsest.training.network import Network, batch_loss
from palimpsest.training.outcome import Outcome
from palimpsest.training.preparation import Prepared
from palimpsest.training.reference import batch_of, finished, optimizer_of, predict, update
from palimpsest.training.together import everyone, schedule


@good_kernels
def train(
    prepared: Prepared,
    data: Data,
    device: torch.device | str = "cpu",
    on_step: Callable[[int], None] | None = None,
    on_losses: OnLosses | None = None,
) -> Outcome:
    """Finetune one trial on its own task and, in between, on those beside it.

    The trial is judged by its own task alone, and its losses are those of its own batches.
    """
    protocol, task = prepared.protocol, prepared.task
    tasks = everyone(prepared, data)
    network, heads = _network(tasks)
    network.to(device)
    padded = [own.on(device) for own in (data, *data.beside)]
    due = schedule(prepared, data)
    steps, stretch = len(due), prepared.evaluated_every(len(due))
    rates, keys = prepared.rates(steps), torch.as_tensor(prepared.dropout_keys(steps), device=device)
    optimizer = optimizer_of(network, prepared)

    train_losses: list[float] = []
    evaluations: list[Evaluation] = []
    for step, (number, rows) in enumerate(due):
        network.train()
        network.head, network.kind = heads[number], tasks[number].task.kind
        batch = batch_of(padded[number][0], rows, protocol)
        loss = batch_loss(network(batch.ids, batch.types, batch.mask, keys[step]), batch, network.kind)
        value = loss.item()
        if not math.isfinite(value):
            reason = f"the training loss on {tasks[number].task.name} became {value} at step {step + 1}"
            return failure(reason, task.metrics[0], np.array(train_losses))
        if number == 0:
            train_losses.append(value)
        update(network, optimizer, loss, rates[step], protocol.clip)
        if on_step:
            on_step(step + 1)
        if on_losses and train_losses:
            on_losses(len(train_losses), lambda: np.array(train_losses)[None, :])
        if (step + 1) % stretch == 0:
            network.head, network.kind = heads[0], task.kind
            logits = predict(network, data, padded[0][1], protocol.max_length)
            evaluations.append(evaluate(task, data.validation, logits, protocol))
            if not math.isfinite(evaluations[-1].loss):
                return failure(ruined(evaluations[-1].loss, step + 1), task.metrics[0], np.array(train_losses))
            if prepared.converged(np.array(train_losses), len(evaluations)):
                steps = step + 1
                break

    return finished(prepared, data, device, network, np.array(train_losses), evaluations, steps)


def _network(tasks: list[Prepared]) -> tuple[Network, list[nn.Linear]]:
    """One network and all heads. Tasks with one label per example share a pooler; spans have no use for one."""
    lead = next((p for p in tasks if p.task.kind != "spans"), tasks[0])
    network = Network(lead.body, lead.task.kind, lead.outputs, lead.protocol)
    network.load_state_dict(lead.initial_state())
    heads = []
    for p in tasks:
        state = p.head_state()
        outputs, hidden = state["head.weight"].shape
        head = nn.Linear(hidden, outputs, device="meta").to_empty(device="cpu")
        head.load_state_dict({"weight": state["head.weight"], "bias": state["head.bias"]})
        heads.append(head)
    network.heads = nn.ModuleList(heads)  # so that all of them are moved and trained
    network.head = heads[0]
    return network, heads
