"""The weights of T trials of one architecture, stacked, and their gradients, computed in one program.

The unmodified Hugging Face network is vmapped over the weights. Weights, examples, order, dropout stream, learning
rates, clipping and number of steps are each trial's own, so a trial's result does not depend on what it is packed with,
beyond rounding. Nor does it depend on padding, which is masked: whatever a protocol says of it, there is little here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch.func import functional_call, vmap

from palimpsest.encoders.loading import Encoder
from palimpsest.specs.protocol import Protocol
from palimpsest.surgery.operations import Drawn
from palimpsest.training.batches import Padded, Rows
from palimpsest.training.data import Data
from palimpsest.training.evaluation import chunks
from palimpsest.training.layers import Fold
from palimpsest.training.network import Batch, Kind, Network, Shared
from palimpsest.training.preparation import Prepared
from palimpsest.training.together import everyone, other_heads, united, united_schedule
from palimpsest.training.vocabulary import Vocabulary, vocabulary, whole_vocabulary

Others = tuple[tuple[Kind, int], ...]
"""Kinds and outputs of the tasks beside the trials' own."""

_EVALUATION_TOKENS = {"cpu": 4096, "cuda": 131_072}  # tokens of all trials together in one evaluation batch


@dataclass(frozen=True, eq=False)
class Pack:
    """T prepared trials that may be stacked: same encoder, task, and shape of network and batch."""

    trials: Sequence[Prepared]  # there may be fewer than T: the places that are left are idle
    data: Data
    rows: npt.NDArray[np.int64]  # [T, steps, batch], -1 where a trial has no example or has ended
    rates: npt.NDArray[np.float64]  # [T, steps], 0 where a trial has ended
    keys: npt.NDArray[np.int32]  # [T, steps, 2]
    tasks: npt.NDArray[np.int64] | None  # [T, steps]: whose batch it is (0: their own), where trials learn several
    lengths: tuple[int, ...]  # steps of each trial
    boundaries: frozenset[int]  # steps after which some trial is evaluated

    @property
    def places(self) -> int:
        return int(self.rows.shape[0])

    @property
    def steps(self) -> int:
        return int(self.rows.shape[1])

    def own(self, t: int, losses: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Of a trial's losses so far, those of its own task."""
        return losses if self.tasks is None else losses[self.tasks[t, : len(losses)] == 0]


def assemble(trials: Sequence[Prepared], data: Data, places: int | None = None) -> Pack:
    """Lay the trials' schedules side by side, in as many places as there are trials, or more."""
    turns = [united_schedule(p, data) for p in trials] if data.beside else []
    each = [rows for rows, _ in turns] or [p.training_rows(data.window_owners) for p in trials]
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
    tasks = np.zeros((places, steps), dtype=np.int64)
    for t, (_, numbers) in enumerate(turns):
        tasks[t, : len(numbers)] = numbers
    return Pack(
        trials, data, rows, rates, keys, tasks if turns else None, tuple(len(r) for r in each), frozenset(boundaries)
    )


class Stack:
    """The network and the stacked weights of a pack on a device."""

    def __init__(self, pack: Pack, device: torch.device) -> None:
        first = pack.trials[0]
        self.pack, self.device = pack, device
        self.kind = first.task.kind
        self.limit = first.protocol.max_length
        others = tuple((p.task.kind, p.outputs) for p in everyone(first, pack.data)[1:])
        self.network = _network(first.body, self.kind, first.outputs, _shape(first.protocol), others, device)
        self.data = united(pack.data) if others else pack.data
        self.training, self.validation = self.data.on(device)
        family = first.encoder.anatomy.family
        self.word = f"encoder.{family.word_embeddings}"
        self.vocabulary = self._vocabulary()
        shapes = {name: tuple(p.shape) for name, p in self.network.named_parameters()}
        shapes[self.word] = (len(self.vocabulary.trained), *shapes[self.word][1:])
        # Each weight is a tensor of its own: what it is compiled into does not depend on how many words others have.
        self.weights = {name: torch.zeros(pack.places, *shape, device=device) for name, shape in shapes.items()}
        # The task that a head belongs to, where there are several: it learns from that task's batches alone.
        self.heads = {n: number for number, head in enumerate(_heads(others)) for n in shapes if n.startswith(head)}
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

    @cached_property
    def lengths(self) -> Rows:
        """Of every example of every step, how many tokens it has: [T, steps, B], 0 where there is none."""
        return np.minimum(self.training.host_lengths[self.pack.rows], self.limit)

    @property
    def shares(self) -> bool:
        """Whether short examples may share a line; spans are found by their place in a line of their own."""
        return self.kind != "spans"

    def _vocabulary(self) -> Vocabulary:
        first, data = self.pack.trials[0], self.data
        size = first.encoder.state[first.encoder.anatomy.family.word_embeddings].shape[0]
        if first.protocol.weight_decay:
            return whole_vocabulary(size, self.device)
        rows = [r[r >= 0] for r in self.pack.rows]
        return vocabulary(data.train, rows, data.validation, size, data.pad_id, self.device)

    def load(self) -> None:
        """Write every trial's initial weights into its row.

        Trials with the same seed re-initialise a layer alike, whatever else they do: it is drawn once for all of them.
        """
        drawn: Drawn = {}
        seeds = [prepared.trial.seeds.reinit for prepared in self.pack.trials]
        for t in sorted(range(len(seeds)), key=seeds.__getitem__):
            drawn = {key: values for key, values in drawn.items() if key[1] == seeds[t]}
            prepared = self.pack.trials[t]
            state = prepared.initial_state(self._pretrained, drawn) | other_heads(prepared, self.pack.data)
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

    def batch(self, rows: torch.Tensor, tasks: torch.Tensor | None, length: int) -> Batch:
        """Training examples of all trials [T, B] and, where there are several, the tasks [T] that they belong to."""
        batch = self.renumber(self.training.take(rows, length))
        return batch if tasks is None else batch._replace(task=tasks)

    def resting(self, t: int, step: int) -> list[str]:
        """The heads of a trial that have nothing to learn in a step: those of other tasks than its batch's."""
        tasks = self.pack.tasks
        return [] if tasks is None else [name for name, number in self.heads.items() if number != tasks[t, step]]

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
        typical = int(np.median(padded.host_lengths[:-1])) + 1
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
        logits = functional_call(
            network, own, (examples.ids, examples.types, examples.mask, key), {"shared": examples.shared}
        )
        return network.loss(logits, examples)

    losses = vmap(loss)(weights, batch, keys)
    return _differentiate(losses, weights)


def folded_gradients(
    network: Network, weights: dict[str, torch.Tensor], batch: Batch, keys: torch.Tensor
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The same with the encoder run folded, its layers in one compiled program: see training/layers.py."""
    trials = len(keys)
    encoder = {n.removeprefix("encoder."): w for n, w in weights.items() if n.startswith("encoder.")}
    rest = {n: w for n, w in weights.items() if not n.startswith("encoder.")}
    network.parts.fold = Fold(encoder, keys, batch.shared)
    try:
        ids, types, mask = (x.flatten(0, 1) for x in (batch.ids, batch.types, batch.mask))
        together = Shared(*(x.flatten(0, 1) for x in batch.shared)) if batch.shared else ()
        hidden = network.hidden_states(ids, types, mask, shared=together)[0]
        hidden = hidden.view(trials, -1, *hidden.shape[1:])
    finally:
        network.parts.fold = None

    def loss(own: dict[str, torch.Tensor], states: torch.Tensor, examples: Batch, key: torch.Tensor) -> torch.Tensor:
        given = (examples.ids, examples.types, examples.mask, key, states, examples.shared)
        logits = functional_call(network, own, given)
        return network.loss(logits, examples)

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
def _network(
    encoder: Encoder, kind: Kind, outputs: int, protocol: Protocol, others: Others, device: torch.device
) -> Network:
    """The network that packs of this shape compute with; kept, because what is compiled is kept with it."""
    return Network(encoder, kind, outputs, protocol, others).to(device)


def _heads(others: Others) -> list[str]:
    """Where the heads of several tasks are in a network."""
    return ["head.", *(f"others.{number}." for number in range(len(others)))] if others else []
