"""From a trial to what its first step needs: initial weights, batches, learning rates, dropout keys.

The reference loop and the stacked engine both start from here, so they differ only in how they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from palimpsest import streams
from palimpsest.encoders.anatomy import Anatomy
from palimpsest.encoders.loading import Encoder, State, without
from palimpsest.errors import SurgeryError
from palimpsest.specs.intervention import DeleteLayers, PermuteLayers, Reinitialize
from palimpsest.specs.protocol import Initialiser, Protocol
from palimpsest.specs.trial import Trial
from palimpsest.surgery.initialisers import draw
from palimpsest.surgery.operations import Drawn, operate
from palimpsest.tasks.base import Task
from palimpsest.tasks.sampling import subsample
from palimpsest.training.batches import Rows, batch_rows, steps_per_epoch
from palimpsest.training.convergence import is_flat

_HEAD_LAW = Initialiser(std=0.02, cut=None)  # how BERT-like encoders initialise what is put on top of them


def fresh_pooler(hidden: int, seed: int, device: torch.device | str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of a pooler drawn anew, with a trial's classifier seed."""
    weight = draw((hidden, hidden), _HEAD_LAW, "classifier", seed, "pooler", device=device)
    return weight, torch.zeros(hidden, device=device)


def _pooler(anatomy: Anatomy) -> str:
    """Where an encoder's pooler is, or would be in families that have none: a trial may learn one."""
    return anatomy.family.pooler or "pooler.dense"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A trial, ready to be trained.

    `start` are the encoder's weights after the trial that this one comes after, by the encoder's own names; `keep`
    is given those of this trial when it has ended.
    """

    trial: Trial
    task: Task
    encoder: Encoder
    start: State | None = None
    keep: Callable[[State], None] | None = None

    @cached_property
    def examples(self) -> Rows:
        """Row numbers of the training examples that this trial draws."""
        return subsample(len(self.task.train), self.trial.size, self.trial.seeds.subsample, self.task.name)

    @property
    def protocol(self) -> Protocol:
        return self.trial.protocol

    @cached_property
    def body(self) -> Encoder:
        """The encoder in the trial's own architecture: without the layers that are deleted."""
        encoder = self.encoder
        for intervention in self.trial.interventions:
            if isinstance(intervention, DeleteLayers):
                encoder = without(encoder, intervention.layers)
        return encoder

    @property
    def outputs(self) -> int:
        return {"classification": len(self.task.labels), "regression": 1, "spans": 2}[self.task.kind]

    def training_rows(self, windows_of: npt.NDArray[np.int64] | None = None) -> Rows:
        """Row numbers per step, [steps, batch]; with spans, rows are the windows of the drawn examples."""
        rows = self.examples
        if windows_of is not None:
            rows = np.flatnonzero(np.isin(windows_of, rows)).astype(np.int64)
        return batch_rows(rows, self.protocol.epochs, self.protocol.batch_size, self.trial.seeds.order)

    def rates(self, steps: int) -> npt.NDArray[np.float64]:
        """The learning rate at each step."""
        p = self.protocol
        step = np.arange(steps, dtype=np.float64)
        warm = round(p.warmup * steps)
        factor = np.ones(steps)
        if p.schedule == "linear":
            factor = (steps - step) / max(steps - warm, 1)
        if warm:
            factor = np.where(step < warm, step / warm, factor)
        return p.learning_rate * factor

    def layer_rates(self) -> dict[int, float]:
        """Factors on the learning rate of single layers; a layer that is not named has 1."""
        depth = self.body.anatomy.depth
        rates: dict[int, float] = {}
        for intervention in self.trial.interventions:
            if isinstance(intervention, Reinitialize):
                rates |= dict.fromkeys(intervention.layers, self.protocol.reinitialized_rate)
            elif isinstance(intervention, PermuteLayers) and self.protocol.reinitialized_rate != 1:
                rates = {i + 1: rates[j] for i, j in enumerate(intervention.order) if j in rates}
            elif isinstance(intervention, DeleteLayers):
                gone = intervention.layers
                rates = {i - sum(g < i for g in gone): rate for i, rate in rates.items() if i not in gone}
        for layer in self.protocol.frozen_layers:
            position = layer if layer > 0 else depth + 1 + layer
            if not 1 <= position <= depth:
                raise SurgeryError(f"frozen layer {layer} is out of range: this encoder has {depth} layers")
            rates[position] = 0.0
        return {layer: rate for layer, rate in rates.items() if rate != 1.0}

    def dropout_keys(self, steps: int) -> npt.NDArray[np.int32]:
        return streams.step_keys(steps, "dropout", self.trial.seeds.dropout)

    def initial_state(self, pretrained: State | None = None, drawn: Drawn | None = None) -> dict[str, torch.Tensor]:
        """The weights before the first step, under the names of :class:`Network`.

        `pretrained` may be the encoder's weights on another device: surgery then happens there. `drawn` is kept by
        those who ask several trials, which may have weights in common.
        """
        source, law, seed = self.source(pretrained), self.protocol.initialiser, self.trial.seeds.reinit
        body = operate(source, self.trial.interventions, self.encoder.anatomy, law, seed, drawn)
        state = {f"encoder.{name}": w for name, w in body.items() if "pooler" not in name}
        return state | self.head_state(source)

    def source(self, pretrained: State | None = None) -> State:
        """The encoder's weights that surgery starts from; what the trial before this one has learnt is among them."""
        source = self.encoder.state if pretrained is None else pretrained
        if self.start is None:
            return source
        device = next(iter(source.values())).device
        return {**source, **{name: weight.to(device) for name, weight in self.start.items()}}

    def learnt(self, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Weights by the names of :class:`Network` → those of the encoder, by its own names; the head is left out."""
        pooler = _pooler(self.encoder.anatomy)
        state = {n.removeprefix("encoder."): w.detach() for n, w in weights.items() if n.startswith("encoder.")}
        return state | {
            n.replace("pooler", pooler, 1): w.detach() for n, w in weights.items() if n.startswith("pooler.")
        }

    def head_state(self, pretrained: State | None = None) -> dict[str, torch.Tensor]:
        """The part of :meth:`initial_state` put on top of the encoder: the head, and the pooler if it is used."""
        source = self.source(pretrained)
        anatomy, p = self.encoder.anatomy, self.protocol
        device = next(iter(source.values())).device
        seed = self.trial.seeds.classifier
        hidden = anatomy.hidden
        # A pooler that the encoder lacks, but a trial before this one has learnt, is carried over like the rest.
        known = set(self.start or ()) | (set(source) if self.encoder.has_pooler else set())
        state: dict[str, torch.Tensor] = {}
        if p.pooling == "pooler" and self.task.kind != "spans":
            own = _pooler(anatomy)
            if f"{own}.weight" in known and p.pooler == "keep":
                state["pooler.weight"], state["pooler.bias"] = source[f"{own}.weight"], source[f"{own}.bias"]
            else:
                state["pooler.weight"], state["pooler.bias"] = fresh_pooler(hidden, seed, device)
        state["head.weight"] = draw((self.outputs, hidden), _HEAD_LAW, "classifier", seed, "head", device=device)
        state["head.bias"] = torch.zeros(self.outputs, device=device)
        return state

    def evaluated_every(self, steps: int) -> int:
        """After how many steps each the validation set is looked at, in a training of this many steps."""
        every = self.protocol.evaluate == "epoch" or self.protocol.converge is not None
        return steps // self.protocol.epochs if every else steps

    def epochs_after(self, evaluations: int) -> int:
        """How many epochs a training took that ended with the last of this many evaluations."""
        return self.protocol.epochs if self.protocol.converge is None else evaluations

    def converged(self, train_losses: npt.NDArray[np.float64], epochs: int) -> bool:
        """Whether training is to stop after this many epochs, of which these are the losses at every step."""
        criterion = self.protocol.converge
        return criterion is not None and is_flat([float(e.mean()) for e in np.split(train_losses, epochs)], criterion)

    def steps(self) -> int:
        """How many optimiser steps this trial takes (for tasks whose examples are one row each)."""
        return steps_per_epoch(len(self.examples), self.protocol.batch_size) * self.protocol.epochs
