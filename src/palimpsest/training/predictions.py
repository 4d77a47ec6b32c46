"""Per-example validation predictions, packed into a short text: one record must stay a few kilobytes."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

_DTYPES = {"u1": np.uint8, "u2": np.uint16, "f4": np.float32}


def pack(values: npt.ArrayLike | list[str]) -> str:
    """Class numbers, regression scores or answer texts as ``kind:base85(zlib(bytes))``."""
    if isinstance(values, list) and (not values or isinstance(values[0], str)):
        kind, raw = "js", json.dumps(values, ensure_ascii=False).encode()
    else:
        array = np.asarray(values)
        smallest = "u1" if array.size == 0 or array.max() < 256 else "u2"
        kind = "f4" if array.dtype.kind == "f" else smallest
        raw = array.astype(_DTYPES[kind]).tobytes()
    return f"{kind}:{base64.b85encode(zlib.compress(raw, 9)).decode()}"


def unpack(text: str) -> npt.NDArray[Any] | list[str]:
    """The inverse of :func:`pack`."""
    kind, _, body = text.partition(":")
    raw = zlib.decompress(base64.b85decode(body))
    if kind == "js":
        texts: list[str] = json.loads(raw)
        return texts
    return np.frombuffer(raw, dtype=_DTYPES[kind])
