"""Steps of the stacked engine on a GPU: bf16 working weights, one CUDA graph per padded length, compiled if it pays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from palimpsest.specs.protocol import Protocol
from palimpsest.training.adam import device_update
from palimpsest.training.data import Data
from palimpsest.training.network import Batch
from palimpsest.training.preparation import Prepared
from palimpsest.training.stacked import Stack, Stepper, assemble, gradients

# Few lengths mean few programs: at most twice as many tokens as needed, and usually far fewer.
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_SAVED = 2.4e-3 / 86e6  # seconds that compiling saves per trial-step and weight
_COMPILING = 240.0  # seconds that compiling takes, for a few lengths
_COMPILED_LENGTHS = (32, 64, 128, 256, 384, 512)


class GraphStepper(Stepper):
    """All that a step needs lies on the device: it finds its examples, rates and dropout keys by a step counter."""

    def __init__(self, stack: Stack, precision: torch.dtype = torch.bfloat16, compiled: bool = True) -> None:
        pack, device = stack.pack, stack.device
        trials, width = stack.weights.shape
        protocol = pack.trials[0].protocol
        self.stack, self.compiled = stack, compiled
        self._capacity = pack.steps
        self._rows = torch.as_tensor(pack.rows, device=device)
        self._rates = torch.as_tensor(pack.rates, dtype=torch.float32, device=device)
        self._keys = torch.as_tensor(pack.keys, device=device)
        self._step = torch.zeros(1, dtype=torch.long, device=device)
        self._losses = torch.full((trials, pack.steps), float("nan"), device=device)

        self._work = torch.zeros(trials, width, dtype=precision, device=device)
        self._moments = torch.zeros(2, trials, width, device=device)
        self._gradients = torch.zeros(trials, width, dtype=precision, device=device)
        self._weights_of = stack.layout.views(self._work)
        self._gradients_of = stack.layout.views(self._gradients)

        depth = pack.trials[0].encoder.anatomy.depth
        own = [p.layer_rates() for p in pack.trials]
        self._factors = torch.tensor([[r.get(i, 1.0) for i in range(depth + 1)] for r in own], device=device)
        columns = np.zeros(width, dtype=np.int32)
        for layer, begin, end in stack.layout.stretches():
            columns[begin:end] = layer
        self._layers = torch.as_tensor(columns, device=device)
        clips = [p.protocol.clip for p in pack.trials]
        self._clip = torch.tensor([c if c is not None else float("inf") for c in clips], device=device)
        self._update = _update(_adam_fields(protocol), any(own), any(c is not None for c in clips))

        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._pool: Any = torch.cuda.graph_pool_handle()
        self._move()  # compiles the optimiser, on weights that are still zero
        stack.load()
        self._work.copy_(stack.weights)
        self._moments.zero_()
        self._step.zero_()
        stack.network.train()

    def _batch(self, length: int) -> tuple[Batch, torch.Tensor]:
        rows = self._rows.index_select(1, self._step)[:, 0]
        keys = self._keys.index_select(1, self._step)[:, 0]
        return self.stack.renumber(self.stack.training.take(rows, length)), keys

    def _differentiate(self, length: int) -> torch.Tensor:
        batch, keys = self._batch(length)
        compute = _compiled(self.stack.network) if self.compiled else gradients
        found, losses = compute(self.stack.network, self._weights_of, batch, keys)
        torch._foreach_copy_(list(self._gradients_of.values()), [found[n] for n in self._gradients_of])
        return losses

    def _move(self) -> None:
        rate = self._rates.index_select(1, self._step)[:, 0]
        self._update(
            self.stack.weights, self._moments[0], self._moments[1], self._work, self._gradients,
            rate, (self._step + 1).float(), self._factors, self._layers, self._clip,
        )  # fmt: skip

    def _capture(self, length: int) -> torch.cuda.CUDAGraph:
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # compiles and warms up; has no effect on weights
                self._differentiate(length)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            losses = self._differentiate(length)
            self._losses.index_copy_(1, self._step, losses.float()[:, None])
            self._move()
            self._step += 1
        return graph

    def length_at(self, step: int) -> int:
        """The padded length of all trials' batches at a step."""
        stack = self.stack
        if stack.padding == "max":
            return stack.limit
        longest = stack.training.longest(stack.pack.rows[:, step])
        lengths = _COMPILED_LENGTHS if self.compiled else _LENGTHS
        fitting = next((n for n in lengths if n >= longest), longest)
        return min(fitting, stack.training.ids.shape[1])

    def advance(self, step: int) -> None:
        length = self.length_at(step)
        if length not in self._graphs:
            self._graphs[length] = self._capture(length)
        self.stack.network.train()
        self._graphs[length].replay()

    def losses(self) -> npt.NDArray[np.float64]:
        return self._losses.double().cpu().numpy()

    def working(self) -> dict[str, torch.Tensor]:
        return self._weights_of


def _adam_fields(protocol: Protocol) -> Protocol:
    """Only what the optimiser's kernel depends on, so that protocols that differ elsewhere share it."""
    return Protocol(
        optimizer=protocol.optimizer, beta1=protocol.beta1, beta2=protocol.beta2, epsilon=protocol.epsilon,
        weight_decay=protocol.weight_decay,
    )  # fmt: skip


@lru_cache(maxsize=16)
def _update(protocol: Protocol, per_layer: bool, clipped: bool) -> Any:
    return torch.compile(device_update(protocol, per_layer, clipped), dynamic=False, fullgraph=True)


def _compiled(network: Any) -> Any:
    """The compiled gradient function of a network; kept with the network, so that later packs reuse it."""
    if not hasattr(network, "compiled_gradients"):
        torch._dynamo.config.cache_size_limit = 64
        network.compiled_gradients = torch.compile(gradients, dynamic=False, fullgraph=True)
    return network.compiled_gradients


def pays(stack: Stack, trial_steps: int) -> bool:
    """Whether this many trial-steps are worth the time that compiling takes."""
    return trial_steps * stack.layout.width * _SAVED > _COMPILING


def fitting_trials(trials: Sequence[Prepared], data: Data, device: torch.device) -> int:
    """How many trials fit: weights, moments and gradients are counted, activations are measured on one trial."""
    stack = Stack(assemble(trials[:1], data), device)
    stack.load()
    stack.network.train()
    work = stack.layout.views(stack.weights.to(torch.bfloat16))
    lengths = stack.training.host_lengths[stack.pack.rows]
    worst = int(lengths.max(axis=-1).argmax())
    length = min(-(-int(lengths.max()) // 16) * 16, stack.training.ids.shape[1])
    batch = stack.renumber(stack.training.take(torch.as_tensor(stack.pack.rows[:, worst], device=device), length))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gradients(stack.network, work, batch, torch.as_tensor(stack.pack.keys[:, worst], device=device))
    activations = torch.cuda.max_memory_allocated() - before
    each = activations + stack.layout.width * (3 * 4 + 2 + 2)
    del stack, work, batch
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    # Trials of a pack share the words of all of them, so their tables grow with it: a fifth is left for that.
    return int(max(1, min(len(trials), 0.8 * free // each)))
