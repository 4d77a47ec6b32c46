"""Values that may be spelt in several ways, in the one that is kept: lists of one, names of tasks."""

from __future__ import annotations

from typing import Any

from palimpsest.tasks.known import find


def listed(value: Any) -> Any:
    """One value is a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def distinct(values: Any) -> Any:
    """Each value once, where it first stood."""
    return tuple(dict.fromkeys(values)) if isinstance(values, tuple) else values


def task_name(value: Any) -> Any:
    """Known tasks in the one spelling that trials use."""
    known = find(value) if isinstance(value, str) else None
    return known.name if known else value


def task_names(value: Any) -> Any:
    """The same of one name or several."""
    return None if value is None else tuple(task_name(v) for v in listed(value))


def task_groups(value: Any) -> Any:
    """The same of lists of names."""
    return value if value is None else tuple(task_names(group) for group in listed(value))
