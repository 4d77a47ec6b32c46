"""How to get the same results again: the study as YAML, and the command that runs it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from palimpsest.specs.protocol import PROTOCOLS
from palimpsest.specs.study import Study, size_label


def study_yaml(study: Study) -> str:
    """A study, with all settings laid over it, as a YAML file that says the same."""
    data = study.model_dump(mode="json", exclude_defaults=True)
    data["name"] = study.name
    if "protocol" in data:
        data["protocol"] = _protocol(study.protocol.name, study.protocol, data["protocol"])
    for number, given in enumerate(study.experiments):
        experiment = {"kind": None, **data["experiments"][number]}
        data["experiments"][number] = experiment
        if given.protocol is not None:
            experiment["protocol"] = _protocol(given.protocol.name, given.protocol, experiment["protocol"])
        if "sizes" in experiment:
            experiment["sizes"] = [size if isinstance(size, int) else size_label(size) for size in given.sizes]
        for name in ("trials", "epochs"):
            table = experiment.get(name)
            if isinstance(table, dict) and set(table) == {"default"}:
                experiment[name] = table["default"]
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None)


def _protocol(name: str, protocol: Any, fields: dict[str, Any]) -> Any:
    """By its name alone, if that says everything."""
    return name if PROTOCOLS.get(name) == protocol else fields


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
