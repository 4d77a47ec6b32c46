"""The stacked engine: T trials of one architecture trained in one program.

The unmodified Hugging Face network is vmapped over the weights of T trials, stacked in front. Weights, examples, order,
dropout stream, learning rates, clipping and number of steps are each trial's own, so a trial's result does not depend
on what it is packed with, beyond rounding. On a GPU the working weights are bf16 copies of fp32 masters, and a whole
step (gather, forward, backward, Adam) is one CUDA graph per padded length: nothing is copied or waited for in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch.func import functional_call, vmap

from palimpsest.encoders.loading import Encoder
from palimpsest.specs.protocol import Protocol
from palimpsest.training.adam import HostAdam
from palimpsest.training.batches import Padded, padded_length
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
from palimpsest.training.layers import Fold
from palimpsest.training.measures import conclude
from palimpsest.training.network import Batch, Kind, Network, batch_loss
from palimpsest.training.outcome import Outcome
from palimpsest.training.preparation import Prepared
from palimpsest.training.vocabulary import Vocabulary, vocabulary, whole_vocabulary

_EVALUATION_TOKENS = {"cpu": 4096, "cuda": 131_072}  # tokens of all trials together in one evaluation batch


@dataclass(frozen=True, eq=False)
class Pack:
    """T prepared trials that may be stacked: same encoder, task, and shape of network and batch."""

    trials: Sequence[Prepared]  # there may be fewer than T: the places that are left are idle
    data: Data
    rows: npt.NDArray[np.int64]  # [T, steps, batch], -1 where a trial has no example or has ended
    rates: npt.NDArray[np.float64]  # [T, steps], 0 where a trial has ended
    keys: npt.NDArray[np.int32]  # [T, steps, 2]
    lengths: tuple[int, ...]  # steps of each trial
    boundaries: frozenset[int]  # steps after which some trial is evaluated

    @property
    def places(self) -> int:
        return int(self.rows.shape[0])

    @property
    def steps(self) -> int:
        return int(self.rows.shape[1])


def assemble(trials: Sequence[Prepared], data: Data, places: int | None = None) -> Pack:
    """Lay the trials' schedules side by side, in as many places as there are trials, or more."""
    each = [p.training_rows(data.window_owners) for p in trials]
    steps, batch = max(len(r) for r in each), each[0].shape[1]
    places = places or len(trials)
    rows = np.full((places, steps, batch), -1, dtype=np.int64)
    rates = np.zeros((places, steps))
    keys = np.zeros((places, steps, 2), dtype=np.int32)
    boundaries: set[int] = set()
    for t, (prepared, own) in enumerate(zip(trials, each, strict=True)):
        rows[t, : len(own)] = own
        rates[t, : len(own)] = prepared.rates(len(own))
        keys[t, : len(own)] = prepared.dropout_keys(len(own))
        stretch = prepared.evaluated_every(len(own))
        boundaries |= set(range(stretch, len(own) + 1, stretch))
    return Pack(trials, data, rows, rates, keys, tuple(len(r) for r in each), frozenset(boundaries))


class Stack:
    """The network and the stacked weights of a pack on a device."""

    def __init__(self, pack: Pack, device: torch.device) -> None:
        first = pack.trials[0]
        self.pack, self.device = pack, device
        self.kind = first.task.kind
        self.limit, self.padding = first.protocol.max_length, first.protocol.padding
        self.network = _network(first.body, self.kind, first.outputs, _shape(first.protocol), device)
        self.training, self.validation = pack.data.on(device)
        family = first.encoder.anatomy.family
        self.word = f"encoder.{family.word_embeddings}"
        self.vocabulary = self._vocabulary()
        shapes = {name: tuple(p.shape) for name, p in self.network.named_parameters()}
        shapes[self.word] = (len(self.vocabulary.trained), *shapes[self.word][1:])
        # Each weight is a tensor of its own: what it is compiled into does not depend on how many words others have.
        self.weights = {name: torch.zeros(pack.places, *shape, device=device) for name, shape in shapes.items()}
        self.layers = {name: first.encoder.anatomy.layer_of(name.removeprefix("encoder.")) or 0 for name in shapes}
        self._pretrained = {name: w.to(device) for name, w in first.encoder.state.items()}
        if all(p.start is None for p in pack.trials):
            self.frozen_words = self._words(first)[self.vocabulary.frozen]
        else:
            self.frozen_words = torch.stack([self._words(p)[self.vocabulary.frozen] for p in pack.trials])

    @property
    def size(self) -> int:
        """How many weights one trial has."""
        return sum(weight[0].numel() for weight in self.weights.values())

    def _vocabulary(self) -> Vocabulary:
        first, data = self.pack.trials[0], self.pack.data
        size = first.encoder.state[first.encoder.anatomy.family.word_embeddings].shape[0]
        if first.protocol.weight_decay:
            return whole_vocabulary(size, self.device)
        rows = [r[r >= 0] for r in self.pack.rows]
        return vocabulary(data.train, rows, data.validation, size, data.pad_id, self.device)

    def load(self) -> None:
        """Write every trial's initial weights into its row."""
        for t, prepared in enumerate(self.pack.trials):
            state = prepared.initial_state(self._pretrained)
            for name, weight in self.weights.items():
                weight[t] = state[name][self.vocabulary.trained] if name == self.word else state[name]

    def _words(self, prepared: Prepared) -> torch.Tensor:
        """The word embeddings that a trial starts from, all of them."""
        return prepared.source(self._pretrained)[prepared.encoder.anatomy.family.word_embeddings]

    def learnt(self, t: int) -> dict[str, torch.Tensor]:
        """The weights of a trial's encoder as they are now, by the encoder's own names, with all words."""
        prepared = self.pack.trials[t]
        weights = {name: weight[t] for name, weight in self.weights.items()}
        trained = torch.unique(self.vocabulary.trained)
        words = self._words(prepared).clone()
        words[trained] = weights[self.word][self.vocabulary.number[trained].long()]
        return prepared.learnt({**weights, self.word: words})

    def renumber(self, batch: Batch) -> Batch:
        """Token ids → rows of the trained word embeddings."""
        return batch._replace(ids=self.vocabulary.number[batch.ids].long())

    @torch.no_grad()
    def predict(self, weights: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits of all trials on the validation set, on the host: [T, n, …]."""
        self.network.eval()
        padded: Padded = self.validation
        n, trials = len(self.pack.data.validation), len(self.pack.trials)
        weights = {name: weight[:trials] for name, weight in weights.items()}
        dtype = weights[self.word].dtype
        frozen = self.frozen_words.to(dtype).expand(trials, -1, -1)
        table = {**weights, self.word: torch.cat([weights[self.word], frozen], dim=1)}
        outputs = self.network.head.out_features
        shape = (trials, n, padded.ids.shape[1], 2) if self.kind == "spans" else (trials, n, outputs)
        result = torch.full(shape, -1e4)
        typical = padded_length(int(np.median(padded.host_lengths[:-1])), self.limit, self.padding)
        size = max(1, _EVALUATION_TOKENS[self.device.type] // (trials * typical))

        def forward(own: dict[str, torch.Tensor], batch: Batch) -> torch.Tensor:
            logits: torch.Tensor = functional_call(self.network, own, (batch.ids, batch.types, batch.mask))
            return logits

        for rows, length in chunks(padded, size, self.limit):
            batch = self.renumber(padded.take(torch.as_tensor(rows, device=self.device), length))
            logits = vmap(forward, in_dims=(0, None))(table, batch).float().cpu()
            if self.kind == "spans":
                result[:, rows, : logits.shape[2]] = logits
            else:
                result[:, rows] = logits
        return result


def gradients(
    network: Network, weights: dict[str, torch.Tensor], batch: Batch, keys: torch.Tensor
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Gradients and losses [T] of all trials at one step.

    Trials do not touch each other, so the gradient of the sum of their losses is each one's own.
    """

    def loss(own: dict[str, torch.Tensor], examples: Batch, key: torch.Tensor) -> torch.Tensor:
        logits = functional_call(network, own, (examples.ids, examples.types, examples.mask, key))
        return batch_loss(logits, examples, network.kind)

    losses = vmap(loss)(weights, batch, keys)
    return _differentiate(losses, weights)


def folded_gradients(
    network: Network, weights: dict[str, torch.Tensor], batch: Batch, keys: torch.Tensor
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The same with the encoder run folded, its layers in one compiled program: see training/layers.py."""
    trials = len(keys)
    encoder = {n.removeprefix("encoder."): w for n, w in weights.items() if n.startswith("encoder.")}
    rest = {n: w for n, w in weights.items() if not n.startswith("encoder.")}
    network.parts.fold = Fold(encoder, keys)
    try:
        ids, types, mask = (x.flatten(0, 1) for x in (batch.ids, batch.types, batch.mask))
        hidden = network.hidden_states(ids, types, mask)[0]
        hidden = hidden.view(trials, -1, *hidden.shape[1:])
    finally:
        network.parts.fold = None

    def loss(own: dict[str, torch.Tensor], states: torch.Tensor, examples: Batch, key: torch.Tensor) -> torch.Tensor:
        logits = functional_call(network, own, (examples.ids, examples.types, examples.mask, key, states))
        return batch_loss(logits, examples, network.kind)

    losses = vmap(loss)(rest, hidden, batch, keys)
    return _differentiate(losses, weights)


def _differentiate(
    losses: torch.Tensor, weights: dict[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    found = torch.autograd.grad(losses.sum(), list(weights.values()))
    return dict(zip(weights, found, strict=True)), losses.detach()


def _shape(protocol: Protocol) -> Protocol:
    """What of a protocol the network depends on."""
    return Protocol(pooling=protocol.pooling, head_dropout=protocol.head_dropout, dropout=protocol.dropout)


@lru_cache(maxsize=8)
def _network(encoder: Encoder, kind: Kind, outputs: int, protocol: Protocol, device: torch.device) -> Network:
    """The network that packs of this shape compute with; kept, because what is compiled is kept with it."""
    return Network(encoder, kind, outputs, protocol).to(device)


@good_kernels
def train(
    trials: Sequence[Prepared],
    data: Data,
    device: torch.device | str = "cpu",
    on_step: Callable[[int, int], None] | None = None,
    on_finish: Callable[[Prepared, Outcome], None] | None = None,
    ahead: int = 0,
    on_losses: OnLosses | None = None,
) -> list[Outcome]:
    """Finetune a pack of trials. `on_step(step, running)` after each step; `on_finish` as each trial ends.

    `ahead` is how many trial-steps of the same shape will follow in later packs: it decides whether compiling pays.
    """
    device = torch.device(device)
    if device.type == "cuda":
        from palimpsest.training.graphs import GraphStepper, roomy

        pack = assemble(trials, data, roomy(len(trials)))
        stack = Stack(pack, device)
        stepper: Stepper = GraphStepper(stack, ahead=ahead)
    else:
        pack = assemble(trials, data)
        stack = Stack(pack, device)
        stepper = HostStepper(stack)
    ledger = _Ledger(stack, on_finish)
    for step in range(pack.steps):
        stepper.advance(step)
        if on_step:
            on_step(step + 1, ledger.running(step))
        if on_losses:
            on_losses(step + 1, stepper.losses)
        if step + 1 in pack.boundaries:
            ledger.note(step + 1, stepper.losses(), lambda: stack.predict(stepper.working()))
            if ledger.complete:
                break
    return ledger.outcomes()


class Stepper:
    """How one step is computed on a kind of device."""

    def advance(self, step: int) -> None:
        raise NotImplementedError

    def losses(self) -> npt.NDArray[np.float64]:
        """Training losses so far, [T, steps]."""
        raise NotImplementedError

    def working(self) -> dict[str, torch.Tensor]:
        """The weights that the network computes with, [T, …] each."""
        raise NotImplementedError


class HostStepper(Stepper):
    """On a CPU: fp32, step by step."""

    def __init__(self, stack: Stack) -> None:
        pack = stack.pack
        self.stack = stack
        stack.load()
        self._weights = {name: weight.detach().requires_grad_() for name, weight in stack.weights.items()}
        self._optimizer = HostAdam(
            stack.weights, stack.layers, pack.trials[0].protocol, pack.rates,
            [p.layer_rates() for p in pack.trials], [p.protocol.clip for p in pack.trials], pack.lengths,
        )  # fmt: skip
        self._losses = np.full((len(pack.trials), pack.steps), np.nan)

    def advance(self, step: int) -> None:
        stack, pack = self.stack, self.stack.pack
        stack.network.train()
        rows = pack.rows[:, step]
        length = padded_length(stack.training.longest(rows), stack.limit, stack.padding)
        batch = stack.renumber(stack.training.take(torch.as_tensor(rows), length))
        found, losses = gradients(stack.network, self._weights, batch, torch.as_tensor(pack.keys[:, step]))
        self._losses[:, step] = losses.numpy()
        self._optimizer.step(step, found)

    def losses(self) -> npt.NDArray[np.float64]:
        return self._losses

    def working(self) -> dict[str, torch.Tensor]:
        return self._weights


class _Ledger:
    """Collects what each trial of a pack is worth, and closes its account when it ends."""

    def __init__(self, stack: Stack, on_finish: Callable[[Prepared, Outcome], None] | None) -> None:
        self._stack, self._pack, self._on_finish = stack, stack.pack, on_finish
        self._evaluations: list[list[Evaluation]] = [[] for _ in stack.pack.trials]
        self._outcomes: dict[int, Outcome] = {}

    @property
    def complete(self) -> bool:
        return len(self._outcomes) == len(self._pack.trials)

    def running(self, step: int) -> int:
        """How many trials the step with this number, counted from 0, was one of."""
        return sum(length > step and t not in self._outcomes for t, length in enumerate(self._pack.lengths))

    def note(self, step: int, losses: npt.NDArray[np.float64], predict: Callable[[], torch.Tensor]) -> None:
        """After `step` steps: evaluate the trials that are due."""
        due = []
        for t, prepared in enumerate(self._pack.trials):
            length = self._pack.lengths[t]
            if t in self._outcomes or step > length or step % prepared.evaluated_every(length):
                continue
            bad = np.flatnonzero(~np.isfinite(losses[t, :step]))
            if len(bad):
                reason = f"the training loss became {losses[t, bad[0]]} at step {bad[0] + 1}"
                self._close(t, failure(reason, prepared.task.metrics[0], losses[t, : bad[0]]))
            else:
                due.append(t)
        if not due:
            return
        logits = predict()
        for t in due:
            prepared = self._pack.trials[t]
            found = evaluate(prepared.task, self._pack.data.validation, logits[t])
            self._evaluations[t].append(found)
            if not math.isfinite(found.loss):
                self._close(t, failure(ruined(found.loss, step), prepared.task.metrics[0], losses[t, :step]))
            elif step == self._pack.lengths[t] or prepared.converged(losses[t, :step], len(self._evaluations[t])):
                self._close(t, self._finished(t, losses[t, :step]))

    def _finished(self, t: int, losses: npt.NDArray[np.float64]) -> Outcome:
        prepared, last = self._pack.trials[t], self._evaluations[t][-1]
        return Outcome(
            status="finished",
            metric=prepared.task.metrics[0],
            metrics=last.metrics,
            epochs=epochs_of(losses, self._evaluations[t], prepared.epochs_after(len(self._evaluations[t]))),
            curve=curve(losses),
            predictions=last.predictions,
            train_examples=len(prepared.examples),
            steps=len(losses),
            measures=conclude(prepared, self._pack.data, lambda: self._stack.learnt(t), self._stack.device),
        )

    def _close(self, t: int, outcome: Outcome) -> None:
        self._outcomes[t] = outcome
        if self._on_finish:
            self._on_finish(self._pack.trials[t], outcome)

    def outcomes(self) -> list[Outcome]:
        return [self._outcomes[t] for t in range(len(self._pack.trials))]


def fitting(trials: Sequence[Prepared], data: Data, device: torch.device | str) -> int:
    """How many of these trials fit into the device's free memory at once, by measuring one of them."""
    if torch.device(device).type != "cuda":
        return len(trials)
    from palimpsest.training.graphs import fitting_trials

    return fitting_trials(trials, data, torch.device(device))
