"""A study: which trials are run and which figures are drawn from them, as data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, field_validator, model_validator

from palimpsest.errors import SpecError, UnknownName
from palimpsest.specs.base import Spec
from palimpsest.specs.intervention import Intervention
from palimpsest.specs.protocol import Protocol, resolve
from palimpsest.specs.task_file import TaskFile

Size = int | float | None


def parse_size(value: Any) -> Size:
    """``500``, ``"5k"``, ``"10%"``, ``0.1``, or ``"all"`` → a count, a fraction, or None."""
    if value is None or value == "all":
        return None
    if isinstance(value, str):
        text = value.strip().lower().replace("_", "")
        if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([%k]?)", text):
            number, unit = float(match[1]), match[2]
            value = number / 100 if unit == "%" else number * 1000 if unit == "k" else number
            if unit == "%" and value == 1:
                return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a size: give a count (500, 5k), a fraction (10%, 0.1) or all")
    if 0 < value < 1:
        return float(value)
    if value >= 1 and value == int(value):
        return int(value)
    raise ValueError(f"{value!r} is not a size: give a count (500, 5k), a fraction (10%, 0.1) or all")


def size_label(size: Size) -> str:
    """A size as people write it: 500, 5k, 10%, all."""
    if size is None:
        return "all"
    if isinstance(size, float):
        return f"{size * 100:g}%"
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else str(size)


def _sizes(value: Any) -> tuple[Size, ...]:
    return tuple(parse_size(v) for v in (value if isinstance(value, list | tuple) else [value]))


def _by_size(value: Any) -> Any:
    if isinstance(value, dict):
        return {("default" if k == "default" else size_label(parse_size(k))): v for k, v in value.items()}
    return {"default": value}


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str | dict) else value


BySize = Annotated[dict[str, Annotated[int, Field(ge=1)]], BeforeValidator(_by_size)]
LayerRef = Annotated[int, Field(ge=0)] | Literal["L", "L/2"]
LayerRefs = Annotated[Literal["all"] | tuple[LayerRef, ...], BeforeValidator(lambda v: (v,) if isinstance(v, int) else v)]
SeedName = Literal["subsample", "classifier", "reinit", "order", "dropout"]


class Experiment(Spec):
    """What all experiments share; each kind adds the axis that it walks along."""

    label: str = Field("", description="How legends call it; by default its kind.")
    tasks: Annotated[tuple[str, ...] | None, BeforeValidator(_names)] = Field(
        None, description="Some of the study's tasks; by default all."
    )
    sizes: Annotated[tuple[Size, ...], BeforeValidator(_sizes)] = Field(
        (None,), description="Numbers of training examples: counts, fractions or all."
    )
    trials: BySize = Field({"default": 3}, description="Trials per point: a number, or one per size, {500: 50, default: 3}.")
    epochs: BySize | None = Field(None, description="Epochs, likewise; by default the protocol's.")
    protocol: Protocol | None = Field(None, description="A protocol name or {extends: NAME, …}; by default the study's.")
    hold: tuple[SeedName, ...] = Field((), description="Seeds that stay 0 instead of following the trial's index.")

    @field_validator("protocol", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return None if value is None else resolve(value)

    def at_size(self, table: dict[str, int], size: Size) -> int:
        try:
            return table.get(size_label(size)) or table["default"]
        except KeyError:
            raise SpecError(f"nothing is said for size {size_label(size)}; add it or a default") from None


class Incremental(Experiment):
    """Re-initialise every layer after the kth."""

    kind: Literal["incremental"]
    preserved: LayerRefs = Field("all", description="Values of k: all of 0..L, or a list; L and L/2 stand for the depth.")


class Localized(Experiment):
    """Re-initialise a block of consecutive layers, or preserve it while all others are re-initialised."""

    kind: Literal["localized"]
    block_size: Annotated[int, Field(ge=1)] = 3
    mode: Annotated[tuple[Literal["reinitialized", "preserved"], ...], BeforeValidator(_names)] = (
        "reinitialized",
        "preserved",
    )


class Permutation(Experiment):
    """Shuffle the layers. The nth permutation is the same for every task; each is a trial index of its own."""

    kind: Literal["permutation"]
    permutations: Annotated[int, Field(ge=1)] = 10
    trials: BySize = {"default": 1}


class Probing(Experiment):
    """Train a linear classifier on a layer's pooled hidden states; the encoder is frozen."""

    kind: Literal["probing"]
    layers: LayerRefs = "all"
    trials: BySize = {"default": 8}
    patience: Annotated[int, Field(ge=1)] = 3
    epochs: BySize | None = {"default": 40}


class Heads(Experiment):
    """Re-initialise one attention head at a time."""

    kind: Literal["heads"]
    layers: LayerRefs = (1, 2, 11, 12)
    heads: Literal["all"] | tuple[Annotated[int, Field(ge=1)], ...] = "all"


class Custom(Experiment):
    """Named variants, each a list of interventions written out."""

    kind: Literal["custom"]
    variants: dict[str, tuple[Intervention, ...]] = Field(min_length=1)


AnyExperiment = Annotated[
    Incremental | Localized | Permutation | Probing | Heads | Custom, Field(discriminator="kind")
]


class Drawing(Spec):
    """A figure or a table that is computed from the study's trials."""

    kind: str = Field(description="Which figure or table.")
    title: str = ""
    options: dict[str, Any] = Field({}, description="What this kind of drawing understands.")


class Study(Spec):
    """Which trials, and which figures."""

    name: str = Field(min_length=1, max_length=200)
    title: str = ""
    description: str = ""
    encoder: str = Field("pocket", description="A hub name, a directory, or a built-in encoder.")
    protocol: Protocol = Field(Protocol(), description="A protocol name or {extends: NAME, field: value, …}.")
    tasks: Annotated[tuple[str | TaskFile, ...], BeforeValidator(_names)] = Field(min_length=1)
    experiments: tuple[AnyExperiment, ...] = Field(min_length=1)
    figures: tuple[Drawing, ...] = ()
    tables: tuple[Drawing, ...] = ()

    @field_validator("protocol", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return resolve(value)

    @model_validator(mode="after")
    def _tasks_exist(self) -> Study:
        names = self.task_names
        if len(set(names)) < len(names):
            raise ValueError(f"a task is named twice: {', '.join(names)}")
        for experiment in self.experiments:
            for task in experiment.tasks or ():
                if task not in names:
                    raise ValueError(f"the experiment's task {task!r} is not among the study's: {', '.join(names)}")
        return self

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(t if isinstance(t, str) else t.name for t in self.tasks)


def read(path: Path, settings: dict[str, Any] | None = None, *, name: str | None = None) -> Study:
    """A study from a YAML file, with `settings` (see :func:`apply_settings`) laid over it."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"cannot read the study {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path} is not UTF-8 text") from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise SpecError(f"{path}{line} is not valid YAML: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(data, dict):
        raise SpecError(f"{path}: a study is a mapping with the keys name, tasks, experiments, …")
    data.setdefault("name", name or path.stem)
    data = apply_settings(data, settings or {}, str(path))
    if isinstance(data.get("tasks"), list):
        data["tasks"] = [_beside(task, path.parent) for task in data["tasks"]]
    return Study.parse(data, str(path))


def _beside(task: Any, folder: Path) -> Any:
    """Data files are named relative to the study file that names them."""
    if isinstance(task, dict):
        return task | {k: str(folder / task[k]) for k in ("train", "validation") if isinstance(task.get(k), str)}
    return task


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``["sizes=500,5000", "trials=10"]`` → a mapping; values are read as YAML, and commas make lists."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise SpecError(f"--set takes key=value, not {pair!r}")
        try:
            value = yaml.safe_load(text)
            if isinstance(value, str) and "," in value:
                value = [yaml.safe_load(part) for part in value.split(",")]
        except yaml.YAMLError:
            raise SpecError(f"--set {key}: {text!r} is not a value") from None
        settings[key.strip()] = value
    return settings


def apply_settings(data: dict[str, Any], settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Lay settings over a study that is still plain data.

    A key of the study itself (tasks, protocol, encoder) replaces that key; a key of experiments (sizes, trials,
    epochs, block_size, …) is set in every experiment of a kind that has it; ``protocol.FIELD`` changes one field of
    the study's protocol and of every experiment's.
    """
    kinds: dict[str, type[Experiment]] = {
        "incremental": Incremental, "localized": Localized, "permutation": Permutation, "probing": Probing,
        "heads": Heads, "custom": Custom,
    }  # fmt: skip
    data = dict(data)
    experiments = [dict(e) if isinstance(e, dict) else e for e in data.get("experiments") or []]
    known = {"tasks", "protocol", "encoder", *(f"protocol.{f}" for f in Protocol.model_fields)}
    for model in kinds.values():
        known |= set(model.model_fields) - {"kind", "label"}
    for key, value in settings.items():
        if key not in known:
            raise UnknownName("setting", key, known)
        if key.startswith("protocol."):
            field = key.removeprefix("protocol.")
            for place in [data, *experiments]:
                if isinstance(place, dict) and (place is data or "protocol" in place):
                    place["protocol"] = _extended(place.get("protocol", "paper"), field, value)
            continue
        if key in ("tasks", "protocol", "encoder"):
            data[key] = value
            if key == "tasks" and isinstance(value, str):
                data[key] = [value]
            continue
        places = [e for e in experiments if isinstance(e, dict) and key in _fields(kinds, e)]
        if not places:
            raise SpecError(f"{where}: no experiment of this study has the setting {key!r}")
        for place in places:
            place[key] = [value] if key in ("preserved", "layers") and isinstance(value, int) else value
    if data.get("tasks") and "tasks" in settings:
        keep = set(data["tasks"])
        for place in experiments:
            if isinstance(place, dict) and place.get("tasks"):
                place["tasks"] = [t for t in place["tasks"] if t in keep]
        experiments = [e for e in experiments if not isinstance(e, dict) or e.get("tasks") != []]
    if experiments:
        data["experiments"] = experiments
    return data


def _fields(kinds: dict[str, type[Experiment]], experiment: dict[str, Any]) -> set[str]:
    model = kinds.get(str(experiment.get("kind")))
    return set(model.model_fields) if model else set()


def _extended(protocol: Any, field: str, value: Any) -> dict[str, Any]:
    base = protocol if isinstance(protocol, dict) else {"extends": protocol}
    return base | {field: value}
