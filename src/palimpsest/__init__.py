"""Palimpsest: find out which pretrained layers matter for your task.

import palimpsest

palimpsest.reinitialize(model, layers=range(9, 13))    # on any supported Hugging Face model, in place
palimpsest.permute_layers(model, [3, 1, 2, …])
palimpsest.delete_layers(model, [9, 10, 11])
table = palimpsest.run("study.yaml", store="results")  # a pandas DataFrame, one row per trial
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Initialiser", "PalimpsestError", "delete_layers", "permute_layers", "reinitialize", "run"]

_HOMES = {
    "reinitialize": "palimpsest.surgery.models",
    "permute_layers": "palimpsest.surgery.models",
    "delete_layers": "palimpsest.surgery.models",
    "Initialiser": "palimpsest.specs.protocol",
    "PalimpsestError": "palimpsest.errors",
    "run": "palimpsest.library",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def __getattr__(name: str) -> Any:
    """Imported when first used: ``palimpsest --help`` should not wait for torch."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'palimpsest' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
