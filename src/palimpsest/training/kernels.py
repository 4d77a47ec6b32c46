"""Which of torch's CPU kernels are used."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

_ARM = platform.machine() in ("aarch64", "arm64")


def good_kernels(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function run without oneDNN on ARM.

    There, oneDNN's matrix products take a hundred times longer than BLAS for many small matrices of which one is
    transposed, which is what attention is made of (torch 2.13: 156 ms against 1.4 ms for 256 products of 24 × 40 × 24).
    """
    if not _ARM:
        return function

    @wraps(function)
    def with_blas(*args: P.args, **kwargs: P.kwargs) -> R:
        # Not mkldnn.flags(): it sets TF32 too, and torch warns of that wherever there is no Intel GPU.
        set_flags: Callable[..., tuple[bool, ...]] = torch.backends.mkldnn.set_flags
        enabled, *_ = set_flags(_enabled=False)
        try:
            return function(*args, **kwargs)
        finally:
            set_flags(_enabled=enabled)

    return with_blas
