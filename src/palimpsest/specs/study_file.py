"""Studies in YAML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palimpsest.errors import SpecError
from palimpsest.specs.settings import apply_settings
from palimpsest.specs.spelling import listed
from palimpsest.specs.study import Study
from palimpsest.specs.yaml_text import load_yaml


def read(path: Path, settings: dict[str, Any] | None = None, *, name: str | None = None) -> Study:
    """A study from a YAML file, with `settings` (see :func:`apply_settings`) laid over it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"cannot be read: {error}"
        raise SpecError(f"the study {path} {reason}") from None
    data = load_yaml(text, str(path))
    if not isinstance(data, dict):
        raise SpecError(f"{path}: a study is a mapping with the keys name, tasks, experiments, …")
    data.setdefault("name", name or path.stem)
    if "tasks" in data:
        data["tasks"] = [_beside(task, path.parent) for task in listed(data["tasks"])]
    if isinstance(data.get("encoder"), str) and data["encoder"].startswith(("./", "../")):
        beside = path.parent / data["encoder"]
        plain = beside.is_absolute() or beside.parts[0] == ".."
        data["encoder"] = str(beside) if plain else f"./{beside}"  # a path, and not the name of one in the hub
    return Study.parse(apply_settings(data, settings or {}, str(path)), str(path))


def _beside(task: Any, folder: Path) -> Any:
    """Data files are named relative to the study file that names them."""
    if isinstance(task, dict):
        return task | {k: str(folder / task[k]) for k in ("train", "validation") if isinstance(task.get(k), str)}
    return task
