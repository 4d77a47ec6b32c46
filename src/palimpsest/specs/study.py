"""A study: which trials are run and which figures are drawn from them, as data."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from palimpsest.errors import SpecError, UnknownName
from palimpsest.specs.base import Spec
from palimpsest.specs.intervention import Intervention
from palimpsest.specs.protocol import Convergence, Count, Protocol, resolve, until_converged
from palimpsest.specs.task_file import TaskFile
from palimpsest.specs.trial import Measure
from palimpsest.tasks.known import find

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


def _layer_refs(value: Any) -> Any:
    if value == "all":
        return value
    refs = value if isinstance(value, list | tuple) else [value]
    for ref in refs:
        if isinstance(ref, bool) or not (ref in ("L", "L/2") or (isinstance(ref, int) and ref >= 0)):
            raise ValueError(f"{ref!r} is not a layer: give numbers, L, L/2, or all")
    return tuple(dict.fromkeys(refs))


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _task_name(value: Any) -> Any:
    """Known tasks in the one spelling that trials use."""
    known = find(value) if isinstance(value, str) else None
    return known.name if known else value


def _task_names(value: Any) -> Any:
    return None if value is None else tuple(_task_name(v) for v in _listed(value))


def _groups(value: Any) -> Any:
    return value if value is None else tuple(_task_names(group) for group in _listed(value))


def _distinct(values: Any) -> Any:
    return tuple(dict.fromkeys(values)) if isinstance(values, tuple) else values


BySize = Annotated[dict[str, Annotated[int, Field(ge=1, strict=True)]], Field(min_length=1), BeforeValidator(_by_size)]
LayerRefs = Annotated[
    Literal["all"] | Annotated[tuple[int | Literal["L", "L/2"], ...], Field(min_length=1)], BeforeValidator(_layer_refs)
]
AnyTask = Annotated[
    Annotated[str, Tag("name")] | Annotated[TaskFile, Tag("file")],
    Discriminator(lambda value: "file" if isinstance(value, dict | TaskFile) else "name"),
]
TaskGroups = Annotated[
    tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...], BeforeValidator(lambda value: _groups(value))
]
SeedName = Literal["subsample", "classifier", "reinit", "order", "dropout"]


class Experiment(Spec):
    """What all experiments share; each kind adds the axis that it walks along."""

    label: str = Field("", description="How legends call it; by default its kind.")
    tasks: Annotated[
        Annotated[tuple[str, ...], Field(min_length=1)] | None, AfterValidator(_distinct), BeforeValidator(_task_names)
    ] = Field(None, description="Some of the study's tasks; by default all.")
    sizes: Annotated[tuple[Size, ...], BeforeValidator(_sizes)] = Field(
        (None,), min_length=1, description="Numbers of training examples: counts, fractions or all."
    )
    trials: BySize = Field(
        {"default": 3}, description="Trials per point: a number, or one per size, {500: 50, default: 3}."
    )
    epochs: BySize | None = Field(
        None,
        description="Epochs, likewise, or `converge`; by default the protocol's. With `converge`, the most epochs.",
    )
    converge: Convergence | None = Field(None, description="Train until the loss is flat by this criterion.")
    protocol: Protocol | None = Field(
        None,
        description="A protocol name or {extends: NAME, …}; by default, both as a whole and to extend, the study's.",
    )
    hold: tuple[SeedName, ...] = Field((), description="Seeds that stay 0 instead of following the trial's index.")
    unavailable: Literal["error", "skip"] = Field(
        "error", description="Sizes larger than a task's training set are refused, or left out for that task."
    )
    fixed: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        (), description="Keys that --set leaves alone here, unless it names the kind: probing.sizes=500."
    )
    measure: Annotated[tuple[Measure, ...], BeforeValidator(_listed)] = Field(
        (), description="What is measured at the end of each trial besides its metrics: drift, cka."
    )

    @model_validator(mode="before")
    @classmethod
    def _until_converged(cls, data: Any) -> Any:
        return until_converged(data)

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
    preserved: LayerRefs = Field(
        "all", description="Values of k: all of 0..L, or a list; L and L/2 stand for the depth."
    )


class Localized(Experiment):
    """Re-initialise a block of consecutive layers, or preserve it while all others are re-initialised."""

    kind: Literal["localized"]
    block_size: Count = Field(3, description="How many layers a block has.")
    mode: Annotated[
        tuple[Literal["reinitialized", "preserved"], ...],
        Field(min_length=1),
        AfterValidator(_distinct),
        BeforeValidator(_listed),
    ] = Field(("reinitialized", "preserved"), description="What is done to the block: either, or both in turn.")


class Permutation(Experiment):
    """Shuffle the layers. The nth permutation is the same for every task; each is a trial index of its own."""

    kind: Literal["permutation"]
    permutations: Count = Field(10, description="How many orders of the layers are drawn.")
    trials: BySize = Field({"default": 1}, description="Trials of each permutation.")


class Probing(Experiment):
    """Train a linear classifier on a layer's pooled hidden states; the encoder is frozen."""

    kind: Literal["probing"]
    layers: LayerRefs = Field("all", description="Layers that are probed; 0 is the embeddings.")
    trials: BySize = Field({"default": 8}, description="Trials per layer.")
    patience: Count = Field(3, description="Stop after so many epochs without a better held-out loss.")
    epochs: BySize | None = Field({"default": 40}, description="The most epochs.")


class Heads(Experiment):
    """Re-initialise one attention head at a time."""

    kind: Literal["heads"]
    layers: LayerRefs = Field((1, 2, 11, 12), description="Layers whose heads are taken.")
    heads: Annotated[
        Literal["all"] | Annotated[tuple[Count, ...], Field(min_length=1)],
        AfterValidator(_distinct),
        BeforeValidator(lambda value: value if value == "all" else _listed(value)),
    ] = Field("all", description="Heads of each of these layers, counted from 1.")


class Custom(Experiment):
    """Named variants, each a list of interventions written out."""

    kind: Literal["custom"]
    variants: dict[str, tuple[Intervention, ...]] = Field(
        min_length=1, description="A name for each list of interventions; an empty list is the intact encoder."
    )


class Sequential(Experiment):
    """Finetune on one or several intermediate tasks, then on the final one; `tasks` are the final ones."""

    kind: Literal["sequential"]
    intermediate: Annotated[tuple[str, ...] | None, AfterValidator(_distinct), BeforeValidator(_task_names)] = Field(
        None, description="Tasks that come before each final task (other than itself), one at a time; by default all."
    )
    chains: TaskGroups = Field((), description="Several intermediate tasks in a row: [[mrpc, rte], …].")
    direct: bool = Field(True, description="Also finetune on the final task directly: the baseline.")


class Interleaved(Experiment):
    """Learn several tasks at once: batches of all of them in a random order, one encoder, a head for each."""

    kind: Literal["interleaved"]
    together: TaskGroups | None = Field(
        None, description="Groups of tasks; each trial is judged by one of its group's. By default all together."
    )
    direct: bool = Field(True, description="Also finetune on each task alone: the baseline.")


AnyExperiment = Annotated[
    Incremental | Localized | Permutation | Probing | Heads | Custom | Sequential | Interleaved,
    Field(discriminator="kind"),
]


class Drawing(Spec):
    """A figure or a table that is computed from the study's trials."""

    kind: str = Field(description="Which figure or table.")
    title: str = Field("", description="Above the drawing.")
    options: dict[str, Any] = Field({}, description="What this kind of drawing understands.")


class Study(Spec):
    """Which trials, and which figures."""

    name: str = Field(min_length=1, max_length=200, description="By default the file's own, without its ending.")
    title: str = Field("", description="The question, in a line.")
    description: str = Field("", description="More about it.")
    encoder: str = Field(
        "pocket",
        description="A hub name, a directory (./ and ../ start from the study file), or a built-in encoder.",
    )
    protocol: Protocol = Field(Protocol(), description="A protocol name or {extends: NAME, field: value, …}.")
    tasks: Annotated[tuple[AnyTask, ...], BeforeValidator(_task_names)] = Field(
        min_length=1, description="Names of known tasks (`palimpsest tasks`), and tasks of your own files."
    )
    experiments: tuple[AnyExperiment, ...] = Field(min_length=1, description="What is done to the encoder.")
    figures: tuple[Drawing, ...] = Field((), description="What `palimpsest figures` draws.")
    tables: tuple[Drawing, ...] = Field((), description="What `palimpsest tables` prints; by default a summary.")
    aside: bool = Field(
        False, description="Not meant when the folder of a shipped study is named; only by its own name."
    )

    @field_validator("protocol", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return resolve(value)

    @model_validator(mode="before")
    @classmethod
    def _extend_the_studys(cls, data: Any) -> Any:
        """A protocol of an experiment's own that does not say what it extends extends the study's."""
        if not isinstance(data, dict) or not isinstance(data.get("experiments"), list | tuple):
            return data
        base = {"extends": data.get("protocol", "paper")}
        experiments = [
            e | {"protocol": base | e["protocol"]} if isinstance(e, dict) and isinstance(e.get("protocol"), dict) else e
            for e in data["experiments"]
        ]
        return data | {"experiments": experiments}

    @model_validator(mode="after")
    def _tasks_exist(self) -> Study:
        names = self.task_names
        if len(set(names)) < len(names):
            raise ValueError(f"a task is named twice: {', '.join(names)}")
        for experiment in self.experiments:
            for task in (*(experiment.tasks or ()), *_others(experiment)):
                if task not in names:
                    raise ValueError(f"the experiment's task {task!r} is not among the study's: {', '.join(names)}")
        return self

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(t if isinstance(t, str) else t.name for t in self.tasks)


def _others(experiment: Experiment) -> Iterator[str]:
    """The tasks that an experiment names besides those that its trials are judged by."""
    match experiment:
        case Sequential():
            yield from experiment.intermediate or ()
            yield from itertools.chain.from_iterable(experiment.chains)
        case Interleaved():
            yield from itertools.chain.from_iterable(experiment.together or ())


def read(path: Path, settings: dict[str, Any] | None = None, *, name: str | None = None) -> Study:
    """A study from a YAML file, with `settings` (see :func:`apply_settings`) laid over it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"cannot be read: {error}"
        raise SpecError(f"the study {path} {reason}") from None
    data = _load(text, str(path))
    if not isinstance(data, dict):
        raise SpecError(f"{path}: a study is a mapping with the keys name, tasks, experiments, …")
    data.setdefault("name", name or path.stem)
    if "tasks" in data:
        data["tasks"] = [_beside(task, path.parent) for task in _listed(data["tasks"])]
    if isinstance(data.get("encoder"), str) and data["encoder"].startswith(("./", "../")):
        data["encoder"] = str(path.parent / data["encoder"])  # a path, and not the name of one in the hub
    return Study.parse(apply_settings(data, settings or {}, str(path)), str(path))


def _load(text: str, where: str) -> Any:
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
        value = _load(text, f"--set {key}")
        if isinstance(value, str) and "," in value:
            value = [_load(part, f"--set {key}") for part in value.split(",")]
        settings[key.strip()] = value
    return settings


def apply_settings(data: dict[str, Any], settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Lay settings over a study that is still plain data.

    A key of the study itself (tasks, protocol, encoder) replaces that key; a key of experiments (sizes, trials,
    epochs, block_size, …) is set in every experiment of a kind that has it and does not hold it `fixed`;
    ``KIND.KEY`` is set in the experiments of that kind only, fixed or not; ``protocol.FIELD`` changes one field of the
    study's protocol and of every experiment's.
    """
    kinds: dict[str, type[Experiment]] = {
        "incremental": Incremental, "localized": Localized, "permutation": Permutation, "probing": Probing,
        "heads": Heads, "custom": Custom, "sequential": Sequential, "interleaved": Interleaved,
    }  # fmt: skip
    data = dict(data)
    experiments = [dict(e) if isinstance(e, dict) else e for e in _listed(data.get("experiments"))]
    known = {"tasks", "protocol", "encoder", *(f"protocol.{f}" for f in Protocol.model_fields)}
    for model in kinds.values():
        known |= set(model.model_fields) - {"kind", "label", "fixed"}
    for name, value in sorted(settings.items(), key=lambda item: item[0].partition(".")[0] in kinds):
        kind, _, key = name.partition(".") if name.partition(".")[0] in kinds else ("", "", name)
        if key not in known:
            raise UnknownName("setting", key, known, hint=f"({where})")
        if kind:
            for place in _places(experiments, kinds, kind, key, where):
                place[key] = value
        elif key.startswith("protocol."):
            field = key.removeprefix("protocol.")
            data["protocol"] = _extended(data.get("protocol", "paper"), field, value)
            for place in experiments:
                if isinstance(place, dict) and place.get("protocol") is not None:
                    place["protocol"] = _extended(place["protocol"], field, value)
        elif key == "tasks":
            data["tasks"], experiments = _only(value, data.get("tasks"), experiments, where)
        elif key in ("protocol", "encoder"):
            data[key] = value
        else:
            for place in _places(experiments, kinds, kind, key, where):
                place[key] = value
    if settings:
        data["experiments"] = experiments
    return data


def _only(chosen: Any, tasks: Any, experiments: list[Any], where: str) -> tuple[list[Any], list[Any]]:
    """The study's tasks replaced by the chosen ones, and its experiments restricted to them.

    A chosen name may be that of a task of the user's own files, which the study describes.
    """
    files = {
        task["name"]: task for task in _listed(tasks) if isinstance(task, dict) and isinstance(task.get("name"), str)
    }
    names = [_task_name(name) for name in _listed(chosen)]
    kept = []
    for place in experiments:
        if isinstance(place, dict) and place.get("tasks") is not None:
            place["tasks"] = [task for task in _task_names(place["tasks"]) if task in names]
        if isinstance(place, dict):
            place |= _without_strangers(place, names)
        if not isinstance(place, dict) or place.get("tasks") != []:
            kept.append(place)
    if not kept:
        raise SpecError(f"{where}: no experiment of this study is about {', '.join(map(str, names))}")
    return [files.get(name, name) if isinstance(name, str) else name for name in names], kept


def _without_strangers(place: dict[str, Any], names: list[Any]) -> dict[str, Any]:
    """The other tasks that an experiment names, as far as they are among the chosen ones."""
    changed: dict[str, Any] = {}
    if place.get("intermediate") is not None:
        changed["intermediate"] = [task for task in _task_names(place["intermediate"]) if task in names]
    for key in ("chains", "together"):
        if isinstance(place.get(key), list):
            groups = [list(_task_names(group)) for group in place[key]]
            changed[key] = [group for group in groups if all(task in names for task in group)]
    return changed


def _places(
    experiments: list[Any], kinds: dict[str, type[Experiment]], kind: str, key: str, where: str
) -> list[dict[str, Any]]:
    """The experiments that a setting is laid over: of the kind it names, or those which do not hold the key fixed."""
    able = [
        e for e in experiments
        if isinstance(e, dict) and key in _fields(kinds, e) and (not kind or e.get("kind") == kind)
    ]  # fmt: skip
    name = f"{kind}.{key}" if kind else key
    if not able:
        raise SpecError(f"{where}: no experiment of this study has the setting {name!r}")
    free = able if kind else [e for e in able if key not in _listed(e.get("fixed", ()))]
    if not free:
        say = " or ".join(sorted({f"{e['kind']}.{key}=…" for e in able}))
        raise SpecError(f"{where}: the setting {name!r} is fixed in this study; say --set {say} to change it there")
    return free


def _fields(kinds: dict[str, type[Experiment]], experiment: dict[str, Any]) -> set[str]:
    model = kinds.get(str(experiment.get("kind")))
    return set(model.model_fields) if model else set()


def _extended(protocol: Any, field: str, value: Any) -> dict[str, Any]:
    base = protocol if isinstance(protocol, dict) else {"extends": protocol}
    return base | {field: value}
