"""YAML of unknown origin, read without trusting it."""

from __future__ import annotations

from typing import Any

import yaml

from palimpsest.errors import SpecError


def load_yaml(text: str, where: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SpecError(f"{where}{line} is not valid YAML: {error.problem or error.context}") from None
    except Exception as error:  # the constructors of YAML's own types fail in many ways: KeyError, RecursionError, …
        raise SpecError(f"{where} is not valid YAML: {error or type(error).__name__}") from None
    if not _is_small(value):
        raise SpecError(f"{where}: is nested too deeply, refers to itself, or is much too large for a study")
    return value


def _is_small(value: Any) -> bool:
    """Whether a value, its YAML aliases written out, has at most 50 levels and 100,000 parts."""
    level, parts = [value], 0
    for _ in range(50):
        level = [
            part for v in level if isinstance(v, list | dict) for part in (v.values() if isinstance(v, dict) else v)
        ]
        parts += len(level)
        if not level:
            return True
        if parts > 100_000:
            return False
    return False
