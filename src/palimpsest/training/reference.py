"""The reference loop: one trial, as plainly as it can be written. The stacked engine is held against it in tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.specs.protocol import Protocol
from palimpsest.training.batches import Padded, Rows
from palimpsest.training.data import Data
from palimpsest.training.evaluation import (
    Evaluation,
    OnLosses,
    chunks,
    curve,
    epochs_of,
    evaluate,
    failure,
    ruined,
)
from palimpsest.training.kernels import good_kernels
from palimpsest.training.measures import conclude
from palimpsest.training.network import Batch, Network, batch_loss
from palimpsest.training.outcome import Outcome
from palimpsest.training.preparation import Prepared


@good_kernels
def train(
    prepared: Prepared,
    data: Data,
    device: torch.device | str = "cpu",
    on_step: Callable[[int], None] | None = None,
    on_losses: OnLosses | None = None,
) -> Outcome:
    """Finetune one trial from its first step to its last."""
    protocol, task = prepared.protocol, prepared.task
    network = Network(prepared.body, task.kind, prepared.outputs, protocol)
    network.load_state_dict(prepared.initial_state())
    network.to(device)
    training, validation = data.on(device)

    rows = prepared.training_rows(data.window_owners)
    steps, stretch = len(rows), prepared.evaluated_every(len(rows))
    rates, keys = prepared.rates(steps), torch.as_tensor(prepared.dropout_keys(steps), device=device)
    optimizer = optimizer_of(network, prepared)

    train_losses = np.zeros(steps)
    evaluations: list[Evaluation] = []
    for step in range(steps):
        network.train()
        batch = batch_of(training, rows[step], protocol)
        loss = batch_loss(network(batch.ids, batch.types, batch.mask, keys[step]), batch, task.kind)
        train_losses[step] = loss.item()
        if not math.isfinite(train_losses[step]):
            reason = f"the training loss became {train_losses[step]} at step {step + 1}"
            return failure(reason, task.metrics[0], train_losses[:step])
        update(network, optimizer, loss, rates[step], protocol.clip)
        if on_step:
            on_step(step + 1)
        if on_losses:
            on_losses(step + 1, lambda: train_losses[None, :])
        if (step + 1) % stretch == 0:
            logits = predict(network, data, validation, protocol.max_length)
            evaluations.append(evaluate(task, data.validation, logits, protocol))
            if not math.isfinite(evaluations[-1].loss):
                return failure(ruined(evaluations[-1].loss, step + 1), task.metrics[0], train_losses[: step + 1])
            if prepared.converged(train_losses[: step + 1], len(evaluations)):
                steps = step + 1
                break

    return finished(prepared, data, device, network, train_losses[:steps], evaluations, steps)


def optimizer_of(network: Network, prepared: Prepared) -> torch.optim.Optimizer:
    """The protocol's optimiser; a group's `factor` is what its layers' learning rate is multiplied with."""
    p, anatomy = prepared.protocol, prepared.encoder.anatomy
    layer_rates = prepared.layer_rates()
    groups: dict[float, list[torch.nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        factor = layer_rates.get(anatomy.layer_of(name.removeprefix("encoder.")) or 0, 1.0)
        groups.setdefault(factor, []).append(parameter)
    make: Any = torch.optim.Adam if p.optimizer == "adam" else torch.optim.AdamW
    optimizer: torch.optim.Optimizer = make(
        [{"params": parameters, "factor": factor} for factor, parameters in groups.items()],
        lr=p.learning_rate, betas=(p.beta1, p.beta2), eps=p.epsilon, weight_decay=p.weight_decay,
    )  # fmt: skip
    return optimizer


def batch_of(padded: Padded, rows: Rows, protocol: Protocol) -> Batch:
    """The rows of one step (-1: the last batch of an epoch may be smaller), as long as the longest among them."""
    present = rows[rows >= 0]
    length = padded.length(present, protocol.max_length, protocol.padding)
    return padded.take(torch.as_tensor(present, device=padded.ids.device), length)


def update(
    network: Network, optimizer: torch.optim.Optimizer, loss: torch.Tensor, rate: float, clip: float | None
) -> None:
    """One step of the optimiser at this learning rate."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
    optimizer.step()


@torch.no_grad()
def predict(network: Network, data: Data, padded: Any, limit: int, size: int = 32) -> torch.Tensor:
    """The logits of all validation rows, on the host."""
    network.eval()
    longest = padded.ids.shape[1]
    n, outputs = len(data.validation), network.head.out_features
    shape = (n, longest, 2) if network.kind == "spans" else (n, outputs)
    result = torch.full(shape, -1e4)
    for rows, length in chunks(padded, size, limit):
        batch = padded.take(torch.as_tensor(rows, device=padded.ids.device), length)
        logits = network(batch.ids, batch.types, batch.mask).float().cpu()
        if network.kind == "spans":
            result[rows, : logits.shape[1]] = logits
        else:
            result[rows] = logits
    return result


def finished(
    prepared: Prepared,
    data: Data,
    device: torch.device | str,
    network: Network,
    losses: npt.NDArray[np.float64],
    evaluations: list[Evaluation],
    steps: int,
) -> Outcome:
    """What comes of a trial that was trained to its end."""
    last = evaluations[-1]
    return Outcome(
        status="finished",
        metric=prepared.task.metrics[0],
        metrics=last.metrics,
        epochs=epochs_of(losses, evaluations, prepared.epochs_after(len(evaluations))),
        curve=curve(losses),
        predictions=last.predictions,
        train_examples=len(prepared.examples),
        steps=steps,
        measures=conclude(prepared, data, lambda: prepared.learnt(dict(network.named_parameters())), device),
    )
