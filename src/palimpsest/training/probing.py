"""Probing: linear classifiers on the layers of a frozen encoder, all trained together.

The encoder never changes, so it is run once (see :mod:`palimpsest.training.features`), and what is left of a trial is a
linear problem. All probes, whatever their layers, trials and seeds, are stacked and trained as one batched product.
Each keeps its own examples, order, initial weights, dropout stream, learning rate and early stopping, so a probe's
result does not depend on what it is trained with, beyond rounding. A part of the training examples is held out; a probe
stops when the loss on it has not improved for `patience` epochs, and what counts is the probe after its best epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.func import vmap
from torch.nn import functional as F

from palimpsest.errors import TrainingError
from palimpsest.specs.intervention import deleted
from palimpsest.training.batches import Rows, epoch_rows, steps_per_epoch
from palimpsest.training.data import Data
from palimpsest.training.dropout import Stream, StreamDropout
from palimpsest.training.early_stopping import Account, Draw
from palimpsest.training.features import Array, Features, Source, features
from palimpsest.training.kernels import good_kernels
from palimpsest.training.network import HEAD_SITE
from palimpsest.training.outcome import Outcome
from palimpsest.training.preparation import Prepared
from palimpsest.training.probe_steps import ProbeSteps, Recipe, losses_and_slopes

OnStep = Callable[[int, int], None]
OnFinish = Callable[[Prepared, Outcome], None]

_GATHERED = {"cpu": 1 << 24, "cuda": 1 << 28}  # bytes of features that are gathered at a time, for some steps ahead
_RESIDENT = 0.6  # features go to the device when they take less than this part of its free memory
_HELD_OUT_BATCH = 64


@good_kernels
def train(
    trials: Sequence[Prepared],
    data: Data,
    device: torch.device | str = "cpu",
    on_step: OnStep | None = None,
    on_finish: OnFinish | None = None,
) -> list[Outcome]:
    """Train the probes of these trials, which are of one encoder and one task.

    `on_step(step, running)` after each step, `on_finish` as each probe ends. The learning rate's schedule runs over the
    largest number of epochs that a probe may take: where it stops is not known beforehand.
    """
    device = torch.device(device)
    for prepared in trials:
        _check(prepared)
    found: dict[Source, Features] = {}
    for prepared in trials:
        source = Source.of(prepared)
        if source not in found:
            found[source] = features(prepared.encoder, data, device, source)
    groups: dict[Recipe, list[int]] = {}
    for t, prepared in enumerate(trials):
        groups.setdefault(Recipe.of(prepared), []).append(t)
    outcomes: dict[int, Outcome] = {}
    for recipe, members in groups.items():
        stack = _Stack([trials[t] for t in members], data, found, recipe, device)
        outcomes |= zip(members, stack.run(on_step, on_finish), strict=True)
    return [outcomes[t] for t in range(len(trials))]


def _check(prepared: Prepared) -> None:
    probe, task, depth = prepared.trial.probe, prepared.task, prepared.encoder.anatomy.depth
    if probe is None:
        raise TrainingError(f"a finetuning trial ({task.name}) was given to probing: it has no probe")
    if task.kind == "spans":
        raise TrainingError(
            f"{task.name} cannot be probed: a probe sees one vector per example and needs a task with one label per "
            "example, not answers that are spans of text"
        )
    if prepared.trial.after is not None or deleted(prepared.trial.interventions):
        raise TrainingError("probes are of the pretrained encoder: they cannot come after a trial or delete layers")
    if probe.layer > depth:
        raise TrainingError(f"layer {probe.layer} cannot be probed: this encoder has layers 0 (embeddings) to {depth}")


class _Stack:
    """Probes of one recipe on a device: weights [P, outputs, hidden + 1], of which the last column is the bias."""

    def __init__(
        self,
        trials: Sequence[Prepared],
        data: Data,
        found: dict[Source, Features],
        recipe: Recipe,
        device: torch.device,
    ) -> None:
        self.recipe, self.device = recipe, device
        self.kind = data.task.kind
        self.accounts = self._open(trials)
        layers = [(Source.of(a.prepared), a.probe.layer) for a in self.accounts]
        slabs = list(dict.fromkeys(layers))
        slab_of = [slabs.index(key) for key in layers]
        self.training = _Bank([found[s].train[k] for s, k in slabs], slab_of, device)
        self.validation = [torch.as_tensor(found[s].validation[k]).to(device) for s, k in slabs]
        self.slab_of = np.array(slab_of)
        self.goals, self.validation_goals = (self._goals(e.targets) for e in (data.train, data.validation))
        pretrained = trials[0].encoder.state
        heads = [a.prepared.head_state(pretrained) for a in self.accounts]
        joined = [torch.cat([h["head.weight"], h["head.bias"][:, None]], 1) for h in heads]
        self.weights = torch.stack(joined).to(device)
        self.first, self.second = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.clips = [a.prepared.protocol.clip for a in self.accounts]
        self.stream = Stream()
        self.dropout = StreamDropout(recipe.dropout, self.stream, HEAD_SITE)
        self._rates: dict[tuple[Any, ...], npt.NDArray[np.float64]] = {}
        self._keys: dict[tuple[int, int], npt.NDArray[np.int32]] = {}
        self._done = 0

    def _open(self, trials: Sequence[Prepared]) -> list[Account]:
        """Accounts; trials that differ in their layer only share one draw."""
        draws: dict[tuple[Any, ...], Draw] = {}
        accounts = []
        for prepared in trials:
            trial, probe = prepared.trial, prepared.trial.probe
            assert probe is not None
            key = (trial.size, trial.seeds.subsample, probe.held_out)
            draw = draws[key] if key in draws else draws.setdefault(key, Draw.of(prepared))
            steps = steps_per_epoch(len(draw.training), self.recipe.batch)
            accounts.append(Account(prepared, probe, draw, steps))
        return accounts

    def _goals(self, targets: npt.NDArray[Any]) -> torch.Tensor:
        """What the outputs should be, [n, outputs]: 0 and 1 for classes."""
        given = torch.as_tensor(targets)
        outputs = self.accounts[0].prepared.outputs
        hot = F.one_hot(given, outputs) if self.kind == "classification" else given[:, None]
        return hot.float().to(self.device)

    @torch.no_grad()
    def run(self, on_step: OnStep | None, on_finish: OnFinish | None) -> list[Outcome]:
        epoch = 0
        while running := [p for p, a in enumerate(self.accounts) if a.outcome is None]:
            losses = self._epoch(epoch, running, on_step)
            held_out = self._held_out(running)
            validation, predictions = self._validate(running)
            for n, p in enumerate(running):
                account = self.accounts[p]
                account.note(losses[: account.per_epoch, n], held_out[n], validation[n], predictions[n])
                if account.outcome is not None and on_finish:
                    on_finish(account.prepared, account.outcome)
            epoch += 1
        return [a.outcome for a in self.accounts if a.outcome is not None]

    def _epoch(self, epoch: int, running: list[int], on_step: OnStep | None) -> npt.NDArray[np.float32]:
        """One pass of all running probes over their examples; training losses [steps, running]."""
        longest = max(self.accounts[p].per_epoch for p in running)
        losses = torch.zeros(longest, len(running), device=self.device)
        begin = 0
        # Probes with fewer examples have fewer steps in an epoch: they are left out of its later stretches.
        for end in sorted({self.accounts[p].per_epoch for p in running}):
            places = [n for n, p in enumerate(running) if self.accounts[p].per_epoch >= end]
            active = [running[n] for n in places]
            where = torch.as_tensor(places, device=self.device)
            step = begin
            for found in self._stretch(epoch, active, begin, end):
                losses[step : step + len(found)].index_copy_(1, where, found)
                for _ in range(len(found)):
                    self._done += 1
                    if on_step:
                        on_step(self._done, len(running))
                step += len(found)
            begin = end
        return losses.cpu().numpy()

    def _stretch(self, epoch: int, active: list[int], begin: int, end: int) -> Iterator[torch.Tensor]:
        """Steps begin..end of an epoch for the active probes; yields training losses [some steps, active]."""
        index = torch.as_tensor(active, device=self.device)
        steps = ProbeSteps(self.recipe, self.kind, *(t[index] for t in (self.weights, self.first, self.second)))
        clips = [self.clips[p] for p in active]
        if any(c is not None for c in clips):
            given = [float("inf") if c is None else c for c in clips]
            steps.clip = torch.tensor(given, device=self.device)[:, None, None]
        rows = self._rows(epoch, active, begin, end)
        paces = [self._to_device(x).float()[..., None, None] for x in self._steps(epoch, active, begin, end)]
        keys = self._dropout_keys(epoch, active, begin, end)
        for chunk in self._chunks(len(rows), rows[0].numel()):
            x, goals, share = self._take(rows[chunk], active)
            if keys is not None:
                self._drop(x, keys[chunk])
            yield steps.advance((x, goals, share, *(pace[chunk] for pace in paces)))
        self.weights[index], self.first[index], self.second[index] = steps.weights, steps.first, steps.second

    def _take(self, rows: torch.Tensor, probes: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Features, goals, and each example's share in its batch (0 for those that only fill it), of rows [S, P, B]."""
        present = (rows >= 0).float()
        share = present / present.sum(-1, keepdim=True).clamp(min=1.0)
        rows = rows.clamp(min=0)
        return self.training.take(rows, probes), self.goals[rows], share[..., None]

    def _chunks(self, steps: int, rows: int) -> Iterator[slice]:
        """Stretches of so many steps, of this many rows each, as are gathered at a time."""
        size = max(1, _GATHERED[self.device.type] // (rows * self.weights.shape[2] * 4))
        for begin in range(0, steps, size):
            yield slice(begin, min(begin + size, steps))

    def _rows(self, epoch: int, active: list[int], begin: int, end: int) -> torch.Tensor:
        """Row numbers [steps, active, batch]."""
        orders: dict[tuple[int, int], int] = {}
        drawn: list[Rows] = []
        which = []
        for p in active:
            account = self.accounts[p]
            seed = account.prepared.trial.seeds.order
            key = (id(account.draw), seed)
            if key not in orders:
                orders[key] = len(drawn)
                drawn.append(epoch_rows(account.draw.training, epoch, self.recipe.batch, seed)[begin:end])
            which.append(orders[key])
        return self._to_device(np.stack(drawn, 1))[:, torch.as_tensor(which, device=self.device)]

    def _steps(self, epoch: int, active: list[int], begin: int, end: int) -> tuple[npt.NDArray[np.float64], ...]:
        """[steps, active]: the learning rate, and Adam's step size and root of the second moment's correction."""
        rates, counts = np.zeros((2, end - begin, len(active)))
        for n, p in enumerate(active):
            account = self.accounts[p]
            protocol, total = account.prepared.protocol, account.per_epoch * account.probe.epochs
            key = (protocol.learning_rate, protocol.schedule, protocol.warmup, total)
            if key not in self._rates:
                self._rates[key] = account.prepared.rates(total)
            done = epoch * account.per_epoch
            rates[:, n] = self._rates[key][done + begin : done + end]
            counts[:, n] = np.arange(done + begin, done + end) + 1
        size = rates / (1 - self.recipe.beta1**counts)
        root = np.sqrt(1 - self.recipe.beta2**counts)
        return rates, size, root

    def _dropout_keys(self, epoch: int, active: list[int], begin: int, end: int) -> torch.Tensor | None:
        """[steps, active, 2]: the dropout stream of each probe at each step."""
        if not self.recipe.dropout:
            return None
        keys = np.zeros((end - begin, len(active), 2), np.int32)
        for n, p in enumerate(active):
            account = self.accounts[p]
            total = account.per_epoch * account.probe.epochs
            key = (account.prepared.trial.seeds.dropout, total)
            if key not in self._keys:
                self._keys[key] = account.prepared.dropout_keys(total)
            done = epoch * account.per_epoch
            keys[:, n] = self._keys[key][done + begin : done + end]
        return self._to_device(keys)

    def _drop(self, x: torch.Tensor, keys: torch.Tensor) -> None:
        """Dropout of features [S, P, B, H + 1], in place; the last column is no feature."""

        def drop(examples: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            self.stream.key = key
            dropped: torch.Tensor = self.dropout(examples)
            return dropped

        x[..., :-1] = vmap(vmap(drop))(x[..., :-1], keys)

    def _held_out(self, running: list[int]) -> list[float]:
        """The loss of each running probe on the examples held out from it."""
        weights = self.weights[torch.as_tensor(running, device=self.device)]
        held = [self.accounts[p].draw.held_out for p in running]
        longest = -(-max(map(len, held)) // _HELD_OUT_BATCH) * _HELD_OUT_BATCH
        padded = np.full((len(running), longest), -1, dtype=np.int64)
        for n, own in enumerate(held):
            padded[n, : len(own)] = own
        rows = self._to_device(padded.reshape(len(running), -1, _HELD_OUT_BATCH).swapaxes(0, 1))
        total = torch.zeros(len(running), dtype=torch.float64, device=self.device)
        for chunk in self._chunks(len(rows), rows[0].numel()):
            x, goals, _ = self._take(rows[chunk], running)
            losses = losses_and_slopes(torch.einsum("spbh,pch->spbc", x, weights), goals, self.kind)[0]
            total += torch.where(rows[chunk] >= 0, losses, 0.0).double().sum((0, 2))
        return (total / torch.tensor([len(own) for own in held], device=self.device)).tolist()

    def _validate(self, running: list[int]) -> tuple[list[float], npt.NDArray[Any]]:
        """The loss [running] and the predictions [running, n] on the validation set."""
        count, outputs = self.validation_goals.shape
        losses = torch.zeros(len(running), dtype=torch.float64, device=self.device)
        values = torch.zeros(len(running), count, device=self.device)
        slabs = self.slab_of[running]
        for slab in np.unique(slabs):
            places = torch.as_tensor(np.flatnonzero(slabs == slab), device=self.device)
            weights = self.weights[torch.as_tensor(running, device=self.device)[places]]
            # All probes of one layer in one product.
            flat = weights.flatten(0, 1)
            logits = torch.addmm(flat[:, -1], self.validation[slab].float(), flat[:, :-1].T)
            logits = logits.reshape(count, len(places), outputs).swapaxes(0, 1)
            losses[places] = losses_and_slopes(logits, self.validation_goals, self.kind)[0].double().mean(1)
            values[places] = logits.argmax(-1).float() if self.kind == "classification" else logits[..., 0]
        found = values.cpu().numpy()
        return losses.tolist(), found.astype(np.int64) if self.kind == "classification" else found

    def _to_device(self, array: npt.NDArray[Any]) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(array)).to(self.device)


class _Bank:
    """The layers that probes read their training features from: on the device if they fit, else mapped from disk."""

    def __init__(self, slabs: Sequence[Array], slab_of: Sequence[int], device: torch.device) -> None:
        self._slab_of, self._device = np.array(slab_of), device
        self._slabs = [torch.as_tensor(slab) for slab in slabs]
        self._resident: torch.Tensor | None = None
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if sum(slab.nbytes for slab in self._slabs) < _RESIDENT * free:
                first = self._slabs[0]
                self._resident = torch.empty(len(slabs), *first.shape, dtype=first.dtype, device=device)
                for n, slab in enumerate(self._slabs):
                    self._resident[n] = slab

    def take(self, rows: torch.Tensor, probes: list[int]) -> torch.Tensor:
        """The features of rows [S, P, B] for these probes, [S, P, B, hidden + 1]; the last column is all ones."""
        own = self._slab_of[probes]
        hidden = self._slabs[0].shape[1]
        taken = torch.ones(*rows.shape, hidden + 1, device=self._device)
        if self._resident is not None:
            which = torch.as_tensor(own, device=self._device)
            taken[..., :-1] = self._resident[which[None, :, None], rows]
            return taken
        for slab in np.unique(own):
            places = torch.as_tensor(np.flatnonzero(own == slab), device=self._device)
            part = rows[:, places].cpu()
            taken[:, places, :, :-1] = self._slabs[slab][part].to(self._device).float()
        return taken
