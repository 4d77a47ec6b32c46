"""Settings, ``--set KEY=VALUE``, and what they change in a study that is still plain data."""

from __future__ import annotations

from typing import Any

from palimpsest.errors import SpecError, UnknownName
from palimpsest.specs.experiment import KINDS
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.spelling import listed, task_name, task_names
from palimpsest.specs.yaml_text import load_yaml
from palimpsest.tasks.known import KNOWN, is_known


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``["sizes=500,5000", "trials=10"]`` → a mapping; values are read as YAML, and commas make lists."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise SpecError(f"--set takes key=value, not {pair!r}")
        if not text.strip():
            raise SpecError(f"--set {key.strip()}= has no value; say null for what is nothing, or all for all examples")
        value = load_yaml(text, f"--set {key}")
        if isinstance(value, str) and "," in value:
            value = [load_yaml(part, f"--set {key}") for part in value.split(",")]
        settings[key.strip()] = value
    return settings


def apply_settings(data: dict[str, Any], settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Lay settings over a study that is still plain data.

    A key of the study itself (tasks, protocol, encoder) replaces that key; a key of experiments (sizes, trials,
    epochs, block_size, …) is set in every experiment of a kind that has it and does not hold it `fixed`;
    ``KIND.KEY`` is set in the experiments of that kind only, fixed or not; ``protocol.FIELD`` changes one field of the
    study's protocol and of every experiment's.
    """
    data = dict(data)
    experiments = [dict(e) if isinstance(e, dict) else e for e in listed(data.get("experiments"))]
    known = {"tasks", "protocol", "encoder", *(f"protocol.{f}" for f in Protocol.model_fields)}
    for model in KINDS.values():
        known |= set(model.model_fields) - {"kind", "label", "fixed"}
    for name, value in sorted(settings.items(), key=lambda item: item[0].partition(".")[0] in KINDS):
        kind, _, key = name.partition(".") if name.partition(".")[0] in KINDS else ("", "", name)
        if key not in known:
            raise UnknownName("setting", key, known, hint=f"({where})")
        if kind:
            for place in _places(experiments, kind, key, where):
                place[key] = value
        elif key.startswith("protocol."):
            field = key.removeprefix("protocol.")
            data["protocol"] = _extended(data.get("protocol", "paper"), field, value)
            for place in experiments:
                if isinstance(place, dict) and place.get("protocol") is not None:
                    place["protocol"] = _extended(place["protocol"], field, value)
        elif key == "tasks":
            data["tasks"], experiments = _only(value, data.get("tasks"), experiments, where)
            for drawings in ("figures", "tables"):
                if isinstance(data.get(drawings), list):
                    data[drawings] = _about(data[drawings], value)
        elif key in ("protocol", "encoder"):
            data[key] = value
        else:
            for place in _places(experiments, kind, key, where):
                place[key] = value
    if settings:
        data["experiments"] = experiments
    return data


def _only(chosen: Any, tasks: Any, experiments: list[Any], where: str) -> tuple[list[Any], list[Any]]:
    """The study's tasks replaced by the chosen ones, and its experiments restricted to them.

    A chosen name may be that of a task of the user's own files, which the study describes.
    """
    files = {
        task["name"]: task for task in listed(tasks) if isinstance(task, dict) and isinstance(task.get("name"), str)
    }
    names = [task_name(name) for name in listed(chosen)]
    for name in names:
        if files and isinstance(name, str) and name not in files and not is_known(name):
            raise UnknownName("task", name, [*files, *KNOWN], hint=f"({where})")
    kept = []
    for place in experiments:
        if isinstance(place, dict) and place.get("tasks") is not None:
            place["tasks"] = [task for task in task_names(place["tasks"]) if task in names]
        if isinstance(place, dict):
            place |= _without_strangers(place, names)
        if not isinstance(place, dict) or place.get("tasks") != []:
            kept.append(place)
    if not kept:
        raise SpecError(f"{where}: no experiment of this study is about {', '.join(map(str, names))}")
    return [files.get(name, name) if isinstance(name, str) else name for name in names], kept


def _about(drawings: list[Any], chosen: Any) -> list[Any]:
    """Figures or tables restricted to the chosen tasks; those that are about others only are left out."""
    names = [name.get("name") if isinstance(name, dict) else task_name(name) for name in listed(chosen)]
    kept = []
    for drawing in drawings:
        options = drawing.get("options") if isinstance(drawing, dict) else None
        if not isinstance(options, dict) or options.get("tasks") is None:
            kept.append(drawing)
        elif tasks := [name for name in task_names(options["tasks"]) if name in names]:
            kept.append({**drawing, "options": {**options, "tasks": tasks}})
    return kept


def _without_strangers(place: dict[str, Any], names: list[Any]) -> dict[str, Any]:
    """The other tasks that an experiment names, as far as they are among the chosen ones."""
    changed: dict[str, Any] = {}
    if place.get("intermediate") is not None:
        changed["intermediate"] = [task for task in task_names(place["intermediate"]) if task in names]
    for key in ("chains", "together"):
        if isinstance(place.get(key), list):
            groups = [list(task_names(group)) for group in place[key]]
            changed[key] = [group for group in groups if all(task in names for task in group)]
    return changed


def _places(experiments: list[Any], kind: str, key: str, where: str) -> list[dict[str, Any]]:
    """The experiments that a setting is laid over: of the kind it names, or those which do not hold the key fixed."""
    able = [
        e for e in experiments
        if isinstance(e, dict) and key in _fields(e) and (not kind or e.get("kind") == kind)
    ]  # fmt: skip
    name = f"{kind}.{key}" if kind else key
    if not able:
        raise SpecError(f"{where}: no experiment of this study has the setting {name!r}")
    free = able if kind else [e for e in able if key not in listed(e.get("fixed", ()))]
    if not free:
        say = " or ".join(sorted({f"{e['kind']}.{key}=…" for e in able}))
        raise SpecError(f"{where}: the setting {name!r} is fixed in this study; say --set {say} to change it there")
    return free


def _fields(experiment: dict[str, Any]) -> set[str]:
    model = KINDS.get(str(experiment.get("kind")))
    return set(model.model_fields) if model else set()


def _extended(protocol: Any, field: str, value: Any) -> dict[str, Any]:
    base = protocol if isinstance(protocol, dict) else {"extends": protocol}
    return base | {field: value}
