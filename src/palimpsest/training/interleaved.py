"""Several tasks at once: their batches in a random order, one encoder, a head for each. One trial at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from palimpsest import streams
from palimpsest.training.batches import Rows
from palimpsest.training.data import Data
from palimpsest.training.evaluation import Evaluation, OnLosses, evaluate, failure, ruined
from palimpsest.training.kernels import good_kernels
from palimpsest.training.network import Network, batch_loss
from palimpsest.training.outcome import Outcome
from palimpsest.training.preparation import Prepared
from palimpsest.training.reference import batch_of, finished, optimizer_of, predict, update


@good_kernels
def train(
    prepared: Prepared,
    data: Data,
    device: torch.device | str = "cpu",
    on_step: Callable[[int], None] | None = None,
    on_losses: OnLosses | None = None,
) -> Outcome:
    """Finetune one trial on its own task and, in between, on those beside it.

    An epoch is one pass over the examples of every task; their batches come in an order drawn with the trial's order
    seed. The trial is judged by its own task alone, and its losses are those of its own batches.
    """
    trial, protocol, task = prepared.trial, prepared.protocol, prepared.task
    everyone = [prepared, *(_companion(prepared, n, other) for n, other in enumerate(data.beside))]
    network, heads = _network(everyone)
    network.to(device)
    padded = [own.on(device) for own in (data, *data.beside)]
    schedule = _schedule(everyone, (data, *data.beside), trial.seeds.order)
    steps, stretch = len(schedule), prepared.evaluated_every(len(schedule))
    rates, keys = prepared.rates(steps), torch.as_tensor(prepared.dropout_keys(steps), device=device)
    optimizer = optimizer_of(network, prepared)

    train_losses: list[float] = []
    evaluations: list[Evaluation] = []
    for step, (number, rows) in enumerate(schedule):
        network.train()
        network.head, network.kind = heads[number], everyone[number].task.kind
        batch = batch_of(padded[number][0], rows, protocol)
        loss = batch_loss(network(batch.ids, batch.types, batch.mask, keys[step]), batch, network.kind)
        value = loss.item()
        if not math.isfinite(value):
            reason = f"the training loss on {everyone[number].task.name} became {value} at step {step + 1}"
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


def _companion(prepared: Prepared, number: int, data: Data) -> Prepared:
    """A task beside the trial's own, as a trial: its examples are drawn, and its head made, as they would be alone."""
    beside = prepared.trial.alongside[number]
    changes = {"task": beside.task, "data": beside.data, "size": beside.size, "alongside": ()}
    return replace(prepared, trial=prepared.trial.model_copy(update=changes), task=data.task, keep=None)


def _network(everyone: list[Prepared]) -> tuple[Network, list[nn.Linear]]:
    """One network and all heads. Tasks with one label per example share a pooler; spans have no use for one."""
    lead = next((p for p in everyone if p.task.kind != "spans"), everyone[0])
    network = Network(lead.body, lead.task.kind, lead.outputs, lead.protocol)
    network.load_state_dict(lead.initial_state())
    heads = []
    for p in everyone:
        state = p.head_state()
        outputs, hidden = state["head.weight"].shape
        head = nn.Linear(hidden, outputs, device="meta").to_empty(device="cpu")
        head.load_state_dict({"weight": state["head.weight"], "bias": state["head.bias"]})
        heads.append(head)
    network.heads = nn.ModuleList(heads)  # so that all of them are moved and trained
    network.head = heads[0]
    return network, heads


def _schedule(everyone: list[Prepared], data: tuple[Data, ...], seed: int) -> list[tuple[int, Rows]]:
    """(number of the task, rows) for every step."""
    epochs = everyone[0].protocol.epochs
    batches = [np.split(p.training_rows(d.window_owners), epochs) for p, d in zip(everyone, data, strict=True)]
    schedule: list[tuple[int, Rows]] = []
    for epoch in range(epochs):
        due = [(number, rows) for number, own in enumerate(batches) for rows in own[epoch]]
        schedule += [due[i] for i in streams.permutation(len(due), "interleaving", seed, epoch)]
    return schedule
