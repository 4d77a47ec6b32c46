"""How to get the same results again: the study as YAML, and the command that runs it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from palimpsest.specs.experiment import Experiment
from palimpsest.specs.protocol import PROTOCOLS, Protocol
from palimpsest.specs.size import size_label
from palimpsest.specs.study import Study
from palimpsest.specs.task_file import TaskFile


def study_yaml(study: Study) -> str:
    """A study, with all settings laid over it, as a YAML file that says the same.

    Of one's own data it has the names of the files, and not in which directory they are.
    """
    data = dict(study.canonical)
    data["tasks"] = [
        {**plain, "train": given.train.name, "validation": given.validation.name}
        if isinstance(given, TaskFile) else plain
        for given, plain in zip(study.tasks, data["tasks"], strict=True)
    ]  # fmt: skip
    if "protocol" in data:
        data["protocol"] = _protocol(study.protocol)
    data["experiments"] = [
        _experiment(given, plain) for given, plain in zip(study.experiments, data["experiments"], strict=True)
    ]
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None)


def _experiment(given: Experiment, plain: dict[str, Any]) -> dict[str, Any]:
    found = {"kind": plain["kind"], **plain}
    if given.protocol is not None:
        found["protocol"] = _protocol(given.protocol)
    if "sizes" in found:
        found["sizes"] = [size if isinstance(size, int) else size_label(size) for size in given.sizes]
    for name in ("trials", "epochs"):
        table = found.get(name)
        if isinstance(table, dict) and set(table) == {"default"}:
            found[name] = table["default"]
    return found


def _protocol(protocol: Protocol) -> Any:
    """By its name alone, if that says everything."""
    known = PROTOCOLS.get(protocol.name) == protocol
    return protocol.name if known else {"name": protocol.name, **protocol.canonical}


def command(
    study: str, store: str, data: Path | None = None, model: str | None = None, settings: Sequence[str] = ()
) -> str:
    """What to type in a shell."""
    words = ["palimpsest", "run", study, "--store", store]
    words += ["--model", model] if model else []
    words += ["--data", str(data)] if data else []
    for setting in settings:
        words += ["--set", setting]
    return shlex.join(words)
