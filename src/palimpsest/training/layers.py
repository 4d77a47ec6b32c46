"""What stands between an encoder and its parts: the layers' own dropout streams, and their compiled program.

A network of 12 layers compiled as a whole takes minutes to compile; one layer takes seconds, and the 12 are alike. So
the stacked engine can run the encoder *folded*: the unmodified Hugging Face model sees the examples of all T trials as
one large batch, and each of its parts that has weights (the embeddings, every layer) unfolds it again and computes
all trials at once, vmapped over its stacked weights; layers do so in one program, compiled once and called 12 times.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.utils import _pytree as pytree

from palimpsest import streams
from palimpsest.training.dropout import Stream


@dataclass
class Fold:
    """The stacked weights and dropout keys of the pass that is going on, by the encoder's own names."""

    weights: Mapping[str, torch.Tensor]
    keys: torch.Tensor  # int32 [T, 2]
    shared: Any = ()  # where examples that share lines are, [T, …] each

    @property
    def dtype(self) -> torch.dtype:
        return next(iter(self.weights.values())).dtype

    @property
    def trials(self) -> int:
        return len(self.keys)


class Parts:
    """The parts of one encoder that have weights. `fold` is set while it runs folded."""

    def __init__(self, encoder: nn.Module, layers: Sequence[str], stream: Stream) -> None:
        self.fold: Fold | None = None
        self.made: set[tuple[int, tuple[int, int]]] = set()  # trials, lines and length that there is a program for
        self._stream = stream
        self._templates: dict[str, tuple[nn.Module, Stream]] = {}
        self._programs: dict[Any, Callable[..., torch.Tensor]] = {}
        others = [name for name, child in encoder.named_children() if name not in _roots(layers) and _learns(child)]
        # Weights that hang on none of these parts (MPNet's shared attention bias) cannot be unfolded.
        covered = (*(f"{name}." for name in others), *(f"{name}." for name in layers))
        self.foldable = all(name.startswith(covered) for name, _ in encoder.named_parameters())
        for name in (*others, *layers):
            part = encoder.get_submodule(name)
            key = streams.key("dropout layer", layers.index(name)) if name in layers else (0, 0)
            same = layers[0] if name in layers else name  # all layers share one program
            if name == same:
                own = Stream()
                self._templates[name] = copy.deepcopy(part, {id(stream): own}).train(), own
            part.forward = partial(self._forward, name, same, part.forward, key)

    def _forward(
        self, name: str, same: str, original: Callable[..., Any], own_key: tuple[int, int], *args: Any, **kwargs: Any
    ) -> Any:
        if self.fold is not None:
            keys = torch.stack([self.fold.keys[:, 0] ^ own_key[0], self.fold.keys[:, 1] ^ own_key[1]], dim=1)
            return self._unfold(name, same, keys, args, kwargs)
        before = self._stream.key
        if before is not None:
            self._stream.key = torch.stack([before[0] ^ own_key[0], before[1] ^ own_key[1]])
        try:
            return original(*args, **kwargs)
        finally:
            self._stream.key = before

    def _unfold(self, name: str, same: str, keys: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
        """Compute a part for all trials: tensors are unfolded, weights stacked, and the result is folded again."""
        assert self.fold is not None
        trials = self.fold.trials
        prefix = f"{name}."
        weights = {n.removeprefix(prefix): w for n, w in self.fold.weights.items() if n.startswith(prefix)}
        leaves, shape = pytree.tree_flatten((args, kwargs))
        given = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        constants = tuple(None if tensor else leaf for leaf, tensor in zip(leaves, given, strict=True))
        inputs = [leaf.view(trials, -1, *leaf.shape[1:]) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        signature = (same, str(shape), tuple(given), constants, bool(self.fold.shared))
        if signature not in self._programs:
            self._programs[signature] = self._program(same, shape, given, constants, keys.device)
        return self._programs[signature](weights, keys, inputs, self.fold.shared).flatten(0, 1)

    def _program(
        self, same: str, shape: Any, given: list[bool], constants: Any, device: torch.device
    ) -> Callable[..., torch.Tensor]:
        template, stream = self._templates[same]
        template.to(device)

        def one_trial(
            weights: dict[str, torch.Tensor], key: torch.Tensor, inputs: list[torch.Tensor], shared: Any
        ) -> Any:
            stream.key, stream.shared = key, shared or None
            tensors = iter(inputs)
            leaves = [next(tensors) if tensor else c for tensor, c in zip(given, constants, strict=True)]
            args, kwargs = pytree.tree_unflatten(leaves, shape)
            out = functional_call(template, weights, args, kwargs)
            stream.key = stream.shared = None
            return out[0] if isinstance(out, tuple) else out

        torch._dynamo.config.cache_size_limit = 64  # a program has one variant per padded length
        program: Callable[..., torch.Tensor] = torch.compile(vmap(one_trial), dynamic=False, fullgraph=True)
        return program


def _roots(layers: Sequence[str]) -> set[str]:
    return {name.split(".")[0] for name in layers}


def _learns(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())
