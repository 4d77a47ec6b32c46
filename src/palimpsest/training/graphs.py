"""Steps of the stacked engine on a GPU: bf16 working weights, a CUDA graph per shape of batch, compiled if it pays."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.specs.protocol import Protocol
from palimpsest.training.adam import corrections, device_update
from palimpsest.training.data import Data
from palimpsest.training.network import Batch
from palimpsest.training.preparation import Prepared
from palimpsest.training.shapes import Shape, places_made, shapes, worth_compiling
from palimpsest.training.sharing import share
from palimpsest.training.stack import Stack, assemble, folded_gradients, gradients
from palimpsest.training.stepper import Stepper

_PLACES = 8  # few sizes of packs mean few programs
_IDLE = 2  # with so many times the places, a program that is there is still faster than none


class GraphStepper(Stepper):
    """All that a step needs lies on the device: it finds its examples, rates and dropout keys by a step counter."""

    def __init__(
        self, stack: Stack, precision: torch.dtype = torch.bfloat16, compiled: bool | None = None, ahead: int = 0
    ) -> None:
        """Compiled or not, or where it pays; `ahead` are the trial-steps that will run the same programs later."""
        pack, device = stack.pack, stack.device
        trials = pack.places
        protocol = pack.trials[0].protocol
        self.stack = stack
        self._rows = torch.as_tensor(pack.rows, device=device)
        ends = torch.as_tensor(pack.lengths + (0,) * (trials - len(pack.lengths)), device=device)
        self._active = torch.arange(pack.steps, device=device) < ends[:, None]
        self._rates = torch.as_tensor(pack.rates, dtype=torch.float32, device=device)
        self._keys = torch.as_tensor(pack.keys, device=device)
        self._tasks = None if pack.tasks is None else torch.as_tensor(pack.tasks, device=device)
        self._step = torch.zeros(1, dtype=torch.long, device=device)
        self._losses = torch.full((trials, pack.steps), float("nan"), device=device)

        self._work = {n: torch.zeros_like(w, dtype=precision).requires_grad_() for n, w in stack.weights.items()}
        self._slots = {
            name: (weight, torch.zeros_like(weight), torch.zeros_like(weight), self._work[name].detach())
            for name, weight in stack.weights.items()
        }

        depth = pack.trials[0].encoder.anatomy.depth
        idle = trials - len(pack.trials)
        own = [p.layer_rates() for p in pack.trials] + [dict[int, float]() for _ in range(idle)]
        self._factors = torch.tensor([[r.get(i, 1.0) for r in own] for i in range(depth + 1)], device=device)
        clips = [p.protocol.clip for p in pack.trials] + idle * [None]
        self._clipped = any(c is not None for c in clips)
        self._clip = torch.tensor([c if c is not None else float("inf") for c in clips], device=device)
        self._update = _update(_adam_fields(protocol))

        self.shapes = shapes(stack, compiled, ahead)
        self._starts = torch.as_tensor(self.shapes.starts, device=device)
        self._graphs: dict[Shape, torch.cuda.CUDAGraph] = {}
        self._pool: Any = None  # graphs of different shapes never run at once: they share their memory
        stack.load()
        for weight, _, _, work in self._slots.values():
            work.copy_(weight)
        stack.network.train()

    def _batch(self, shape: Shape) -> tuple[Batch, torch.Tensor]:
        rows, keys, starts = (x.index_select(1, self._step)[:, 0] for x in (self._rows, self._keys, self._starts))
        tasks = None if self._tasks is None else self._tasks.index_select(1, self._step)[:, 0]
        batch = self.stack.batch(rows, tasks, shape[1])
        return share(batch, starts, *shape) if self.shapes.shared(shape) else batch, keys

    def _turn(self, shape: Shape, active: torch.Tensor) -> torch.Tensor:
        """Gradients of all trials, and the weights of the active ones moved; returns the losses [T].

        Adam goes weight by weight, each one pass over memory, straight from the gradient. It waits for all gradients:
        on a stream beside the backward pass it was slower (the two get in each other's way), and clipping needs them.
        """
        batch, keys = self._batch(shape)
        compute = folded_gradients if shape in self.shapes.compiled else gradients
        found, losses = compute(self.stack.network, self._work, batch, keys)
        rates = self._rates.index_select(1, self._step)[:, 0] * self._factors
        scale = self._scale(found)
        usual = active, corrections(self.stack.pack.trials[0].protocol, self._step + 1)
        heads = self._heads(active)
        for name, gradient in found.items():
            on, correction = usual if name not in self.stack.heads else heads[self.stack.heads[name]]
            each = (*self._slots[name], gradient, on, rates[self.stack.layers[name]], scale)
            for tensor in each:
                torch._dynamo.maybe_mark_dynamic(tensor, 0)  # packs of all sizes share the program
            with torch.no_grad():
                self._update(*each, correction)
        return losses

    def _heads(self, active: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """For every task of several: whose head learns at this step, and Adam's corrections for its own steps."""
        if self._tasks is None:
            return []
        steps = torch.arange(self._tasks.shape[1], device=self._step.device)
        found = []
        for number in range(len(self.stack.network.tasks)):
            own = self._tasks == number
            count = (own & (steps <= self._step)).sum(dim=1).clamp(min=1)
            on = active & own.index_select(1, self._step)[:, 0]
            found.append((on, corrections(self.stack.pack.trials[0].protocol, count)))
        return found

    def _scale(self, found: dict[str, torch.Tensor]) -> torch.Tensor:
        """The factor [T] by which clipping shortens the gradients."""
        if not self._clipped:
            return torch.ones_like(self._clip)
        # Norms of norms, as clip_grad_norm_ takes them; each reads its gradient once, and writes nothing as large.
        norms = [torch.linalg.vector_norm(g.flatten(1), dim=1, dtype=torch.float32) for g in found.values()]
        norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        return (self._clip / (norm + 1e-6)).clamp(max=1.0)

    def _capture(self, shape: Shape) -> torch.cuda.CUDAGraph:
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # compiles and warms up; with no trial active, nothing is changed
                self._turn(shape, torch.zeros_like(self._active[:, 0]))
        torch.cuda.current_stream().wait_stream(stream)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self.compute(shape)
        return graph

    def compute(self, shape: Shape) -> None:
        """One step of all trials, with batches of this shape: what a graph is captured from."""
        losses = self._turn(shape, self._active.index_select(1, self._step)[:, 0])
        self._losses.index_copy_(1, self._step, losses.float()[:, None])
        self._step += 1

    def prepare(self, step: int) -> float:
        shape = self.shapes.at[step]
        if shape in self._graphs:
            return 0.0
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self.stack.network.train()
        self._graphs[shape] = self._capture(shape)
        if shape in self.shapes.compiled:
            self.stack.network.parts.made.add((self.stack.pack.places, shape))
        return time.perf_counter() - begin

    def advance(self, step: int) -> None:
        self.prepare(step)
        self._graphs[self.shapes.at[step]].replay()

    def losses(self) -> npt.NDArray[np.float64]:
        return self._losses.double().cpu().numpy()

    def working(self) -> dict[str, torch.Tensor]:
        return self._work


def _adam_fields(protocol: Protocol) -> Protocol:
    """Only what the optimiser's kernel depends on, so that protocols that differ elsewhere share it."""
    return Protocol(
        optimizer=protocol.optimizer, beta1=protocol.beta1, beta2=protocol.beta2, epsilon=protocol.epsilon,
        weight_decay=protocol.weight_decay,
    )  # fmt: skip


@lru_cache(maxsize=16)
def _update(protocol: Protocol) -> Any:
    torch._dynamo.config.cache_size_limit = 64  # one program per shape of weight
    # Trying out several kernels would restore the written weights after each try: gigabytes, through the host.
    fixed: dict[str, Any] = {"triton.autotune_pointwise": False}
    return torch.compile(device_update(protocol), dynamic=False, fullgraph=True, options=fixed)


def roomy(trials: int, usual: int = 0) -> int:
    """The `usual` number of places, or a few more than trials: packs of nearly the same size run the same program.

    As many as there are trials, if too many places would be idle.
    """
    if trials < usual <= 1.25 * trials:
        return usual
    rounded = -(-trials // _PLACES) * _PLACES
    return rounded if rounded <= 1.125 * trials else trials


def roomy_stack(trials: Sequence[Prepared], data: Data, device: torch.device, ahead: int, usual: int = 0) -> Stack:
    """The trials stacked, with idle places where a compiled program is shared by that."""
    stack = Stack(assemble(trials, data), device)
    made = [places for places in places_made(stack) if len(trials) <= places <= _IDLE * len(trials)]
    places = min(made) if made else roomy(len(trials), usual)
    if places == len(trials) or not (made or worth_compiling(stack, ahead)):
        return stack
    del stack
    return Stack(assemble(trials, data, places), device)


def fitting_trials(trials: Sequence[Prepared], data: Data, device: torch.device) -> int:
    """How many trials fit: weights, moments and gradients are counted, activations are measured on one trial."""
    stack = Stack(assemble(trials[:1], data), device)
    stack.load()
    stack.network.train()
    work = {name: weight.to(torch.bfloat16).requires_grad_() for name, weight in stack.weights.items()}
    lengths = stack.training.host_lengths[stack.pack.rows]
    worst = int(lengths.max(axis=-1).argmax())
    length = min(-(-int(lengths.max()) // 16) * 16, stack.training.ids.shape[1])
    tasks = None if stack.pack.tasks is None else torch.as_tensor(stack.pack.tasks[:, worst], device=device)
    batch = stack.batch(torch.as_tensor(stack.pack.rows[:, worst], device=device), tasks, length)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gradients(stack.network, work, batch, torch.as_tensor(stack.pack.keys[:, worst], device=device))
    activations = torch.cuda.max_memory_allocated() - before
    each = activations + stack.size * (3 * 4 + 2 + 2)
    del stack, work, batch
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    # Trials of a pack share the words of all of them, so their tables grow with it: a fifth is left for that.
    fitting = int(max(1, min(len(trials), 0.8 * free // each)))
    return fitting // _PLACES * _PLACES if _PLACES < fitting < len(trials) else fitting
