"""Sizes of training sets: a count, a fraction, or all."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

Size = int | float | None


def parse_size(value: Any) -> Size:
    """``500``, ``"5k"``, ``"10%"``, ``0.1``, or ``"all"`` → a count, a fraction, or None."""
    if value is None or value == "all":
        return None
    number: Any = value
    if isinstance(value, str) and (
        match := re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)\s*([%k]?)", value.strip().lower().replace("_", ""))
    ):
        # As decimals: 0.7% is 0.007, where 0.7 / 100 as floats is a little less.
        number = Decimal(match[1]) * {"%": Decimal("0.01"), "k": Decimal(1000), "": Decimal(1)}[match[2]]
        if match[2] == "%" and number == 1:
            return None
    if isinstance(number, int | float | Decimal) and not isinstance(number, bool):
        if 0 < number < 1:
            return float(number)
        if 1 <= number < 2**63 and number == int(number):
            return int(number)
    raise ValueError(f"{value!r} is not a size: give a count (500, 5k), a fraction (10%, 0.1) or all")


def size_label(size: Size) -> str:
    """A size as people write it: 500, 5k, 10%, all."""
    if size is None:
        return "all"
    if isinstance(size, float):
        return f"{size * 100:g}%"
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else str(size)


def _sizes(value: Any) -> tuple[Size, ...]:
    return tuple(dict.fromkeys(parse_size(v) for v in (value if isinstance(value, list | tuple) else [value])))


def _by_size(value: Any) -> Any:
    if isinstance(value, dict):
        return {("default" if k == "default" else size_label(parse_size(k))): v for k, v in value.items()}
    return {"default": value}


Sizes = Annotated[tuple[Size, ...], BeforeValidator(_sizes)]
BySize = Annotated[dict[str, Annotated[int, Field(ge=1, strict=True)]], Field(min_length=1), BeforeValidator(_by_size)]
