"""Pretraining from a corpus file to a checkpoint directory: the order of things, and the training loop."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from palimpsest import streams
from palimpsest.errors import TrainingError
from palimpsest.pretraining.objectives import Batch, Objective
from palimpsest.pretraining.packing import Rows
from palimpsest.pretraining.settings import PretrainSettings
from palimpsest.pretraining.state import load_state, save_state

_TICK = 2.0  # seconds between two looks at the losses; each look waits for the device
_HELD_OUT_ROWS = 2048


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    step: int
    fraction: float  # of the budget
    tokens: int  # pieces of the student seen so far, padding included
    tokens_per_second: float
    seconds_left: float
    losses: dict[str, Any]  # means since the last report
    held_out: dict[str, Any] | None = None  # when they were just taken


class Trainer:
    """A run that has its rows and networks: steps, held-out losses, and a state that survives interruption.

    The step number alone decides which rows and which hidden pieces come next, so an interrupted run that is resumed
    does what it would have done.
    """

    def __init__(
        self,
        objective: Objective,
        train: Rows,
        held_out: Rows,
        settings: PretrainSettings,
        device: torch.device,
        log: Path,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.objective = objective.to(device)
        self.train, self.held_out = train, held_out
        self.settings, self.device = settings, device
        self.log, self.progress = log, progress
        self.optimizer = _optimizer(objective, settings, device)
        self.step, self.seconds = 0, 0.0
        if settings.compile and device.type == "cuda":
            objective.compile_parts()

    def run(self, state: Path) -> dict[str, Any]:
        """Train until the budget is spent; the held-out losses at the end."""
        settings = self.settings
        if self.step == 0:
            self._record({"held_out": self.evaluate()})
        begun = tick = evaluated = saved = time.monotonic()
        before = self.seconds
        recent, since = _Mean(), self.step
        batches = self._batches()
        while (fraction := self._fraction()) < 1:
            rate = settings.learning_rate * min(1.0, (self.step + 1) / max(1, settings.warmup_steps)) * (1 - fraction)
            recent.add(self._update(next(batches), rate))
            self.step += 1
            now = time.monotonic()
            self.seconds = before + now - begun
            save = now - saved >= 60 * settings.checkpoint_minutes
            evaluate = now - evaluated >= 60 * settings.evaluate_minutes
            if not (save or evaluate or now - tick >= _TICK):
                continue
            losses = self._named(recent.take())
            if not math.isfinite(losses["total"]):
                raise TrainingError(
                    f"the loss is not a finite number any more (step {self.step}). Lower learning_rate = "
                    f"{settings.learning_rate:g} or raise warmup_steps = {settings.warmup_steps}."
                )
            now = time.monotonic()
            self.seconds = before + now - begun
            speed = (self.step - since) * settings.rows * settings.max_length / max(now - tick, 1e-9)
            held_out = self.evaluate() if evaluate else None
            self._record({"learning_rate": rate, "tokens_per_second": round(speed), "train": losses})
            if held_out:
                self._record({"held_out": held_out})
                evaluated = time.monotonic()
            if save:
                save_state(state, self)
                saved = time.monotonic()
            tick, since = time.monotonic(), self.step
            self._report(speed, losses, held_out)
        final = self.evaluate()
        self._record({"held_out": final})
        save_state(state, self)
        return final

    def resume(self, state: Path) -> None:
        load_state(state, self, self.device)

    def state_dict(self) -> dict[str, Any]:
        return {
            "weights": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.objective.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]

    def tokens(self) -> int:
        return self.step * self.settings.rows * self.settings.max_length

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        """Held-out losses: means over rows that are never trained on, always with the same hidden pieces."""
        total = _Mean()
        # A handful of batches of other sizes and without gradients is not worth compiling for.
        with torch.compiler.set_stance("force_eager"):
            limit = min(len(self.held_out), _HELD_OUT_ROWS)
            for first in range(0, limit, self.settings.rows):
                rows = np.arange(first, min(first + self.settings.rows, limit))
                with self._precision():
                    losses = self.objective(
                        self._take(self.held_out, rows), streams.key("held-out", self.settings.seed, first)
                    )
                total.add(losses.flat(), len(rows))
        return self._named(total.take())

    def _update(self, batch: Batch, rate: float) -> torch.Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self._precision():
            losses = self.objective(batch, streams.key("hide", self.settings.seed, self.step))
        losses.total.backward()
        nn.utils.clip_grad_norm_(self.objective.parameters(), self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        flat: torch.Tensor = losses.flat()
        return flat

    def _batches(self) -> Iterator[Batch]:
        """From the current step on: every epoch all training rows once, in a new order."""
        size, n = self.settings.rows, len(self.train)
        epoch, order = -1, np.empty(0, dtype=np.int64)
        position = self.step * size
        while True:
            rows: list[int] = []
            while len(rows) < size:
                if position // n != epoch:
                    epoch = position // n
                    order = streams.permutation(n, "rows", self.settings.seed, epoch)
                part = order[position % n :][: size - len(rows)]
                rows.extend(part.tolist())
                position += len(part)
            yield self._take(self.train, np.array(rows))

    def _take(self, source: Rows, rows: np.ndarray[Any, Any]) -> Batch:
        batch = {}
        for side in source.ids:
            for name, array in (("ids", source.ids[side]), ("words", source.words[side])):
                values = torch.from_numpy(array[rows].astype(np.int32))
                if self.device.type == "cuda":
                    values = values.pin_memory()
                batch[f"{side}_{name}"] = values.to(self.device, non_blocking=True).long()
        return batch

    def _fraction(self) -> float:
        if self.settings.steps is not None:
            return self.step / self.settings.steps
        assert self.settings.minutes is not None
        return self.seconds / (60 * self.settings.minutes)

    def _precision(self) -> Any:
        return torch.autocast("cuda", torch.bfloat16) if self.device.type == "cuda" else nullcontext()

    def _named(self, values: list[float]) -> dict[str, Any]:
        names: dict[str, Any] = {"total": values[0]}
        rest = values[1:]
        if self.objective.teacher is not None:
            layers = rest[: self.settings.layers + 1]
            rest = rest[self.settings.layers + 1 :]
            names |= {"distillation": sum(layers) / len(layers), "per_layer": layers}
        if rest:
            names |= {"mlm": rest[0], "accuracy": rest[1]}
        return names

    def _report(self, speed: float, losses: dict[str, Any], held_out: dict[str, Any] | None) -> None:
        if self.progress is None:
            return
        fraction = self._fraction()
        if self.settings.minutes is not None:
            left = max(0.0, 60 * self.settings.minutes - self.seconds)
        else:
            left = self.seconds * (1 - fraction) / fraction
        self.progress(Progress(self.step, min(1.0, fraction), self.tokens(), speed, left, losses, held_out))

    def _record(self, facts: dict[str, Any]) -> None:
        line = {"step": self.step, "seconds": round(self.seconds, 1), "tokens": self.tokens(), **_rounded(facts)}
        with self.log.open("a") as file:
            file.write(json.dumps(line) + "\n")


class _Mean:
    """A running mean of loss vectors that stays on the device until it is asked for."""

    def __init__(self) -> None:
        self.sum: torch.Tensor | None = None
        self.weight = 0.0

    def add(self, values: torch.Tensor, weight: float = 1.0) -> None:
        self.sum = values * weight if self.sum is None else self.sum + values * weight
        self.weight += weight

    def take(self) -> list[float]:
        assert self.sum is not None
        result: list[float] = (self.sum / self.weight).tolist()
        self.sum, self.weight = None, 0.0
        return result


def _optimizer(objective: Objective, settings: PretrainSettings, device: torch.device) -> torch.optim.AdamW:
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in objective.named_parameters():
        (decayed if parameter.ndim == 2 and "embeddings" not in name else others).append(parameter)
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98), fused=device.type == "cuda")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list) else value
