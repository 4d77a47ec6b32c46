"""Facts about encoders and tasks: gathered where both are at hand, for those who look where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from palimpsest.encoders.identity import identify, locate
from palimpsest.errors import PalimpsestError, UnknownName
from palimpsest.execution.plan import Resources
from palimpsest.specs.expansion import EncoderIdentity
from palimpsest.specs.study import Study
from palimpsest.specs.task_file import TaskFile
from palimpsest.store.facts import Facts, Key, TaskFacts
from palimpsest.tasks.registry import load
from palimpsest.training.predictions import pack, unpack

if TYPE_CHECKING:
    from palimpsest.store.archive import Contents


def gather(found: Contents, resources: Resources, given: Facts) -> tuple[Facts, list[str]]:
    """The facts about what an archive's records are about, and in words what they could not be had of, and why.

    They come from the archive that the records are copied from (`given`), if it has them, or else from the encoders
    and data that `resources` name.
    """
    encoders = {(e.name, e.weights): e for e in given.encoders}
    tasks = {(t.name, t.data): t for t in given.tasks}
    missing = []
    for key in found.encoders:
        if key not in encoders and (reason := _add_encoder(encoders, key, resources)):
            missing.append(f"the encoder {_named(key)}: {reason}")
    for key in found.tasks:
        if key not in tasks and (reason := _add_task(tasks, key, resources)):
            missing.append(f"the task {_named(key)}: {reason}")
    return Facts(tuple(encoders[k] for k in found.encoders if k in encoders),
                 tuple(tasks[k] for k in found.tasks if k in tasks)), missing  # fmt: skip


def guessed(found: Contents, model: str | None, data: Path | None) -> Resources:
    """Where the encoders and tasks of some records may be, if no study says it: under their own names."""
    given = {locate(model).name: model} if model else {}
    encoders = {(name, weights): given.get(name, name) for name, weights in found.encoders}
    return Resources(encoders, {(name, version): name for name, version in found.tasks}, data)


def _add_encoder(known: dict[Key, EncoderIdentity], key: Key, resources: Resources) -> str:
    ref = resources.encoders.get(key, key[0])
    try:
        identity = identify(ref)
    except PalimpsestError as error:
        return f"{_first_line(error)} Give its directory with --model."
    if (identity.name, identity.weights) != key:
        return f"{ref} is another one: {_named((identity.name, identity.weights))}"
    known[key] = identity
    return ""


def _add_task(known: dict[Key, TaskFacts], key: Key, resources: Resources) -> str:
    try:
        facts = facts_of(resources.tasks.get(key, key[0]), resources.data)
    except UnknownName:
        return "its files: name the study that says where they are (palimpsest export STUDY …)"
    except PalimpsestError as error:
        return _first_line(error)
    if (facts.name, facts.data) != key:
        return "the data are others: give those that were used, with --data or a study that names them"
    known[key] = facts
    return ""


def _first_line(error: PalimpsestError) -> str:
    return str(error).splitlines()[0]


def _named(key: Key) -> str:
    return f"{key[0]}@{key[1]}" if key[1] else key[0]


def facts_of(ref: str | TaskFile, data: Path | None) -> TaskFacts:
    """The facts about a task whose data are here."""
    task = load(ref, data)
    classes = task.kind == "classification"
    return TaskFacts(
        task.name, task.data, len(task.train), len(task.validation), task.kind, task.train.second is not None,
        task.labels, task.metrics[0], pack(np.asarray(task.validation.targets)) if classes else "",
    )  # fmt: skip


def answers(ref: str | TaskFile, key: Key, resources: Resources) -> npt.NDArray[np.int64] | None:
    """The classes of a task's validation examples; None for a task with other kinds of answers."""
    if key in resources.known:
        packed = resources.known[key].answers
        return np.asarray(unpack(packed)).astype(np.int64) if packed else None
    task = load(ref, resources.data)
    return np.asarray(task.validation.targets) if task.kind == "classification" else None


def dataset_rows(study: Study, resources: Resources) -> list[tuple[str, int, int, str, str, str]]:
    """The study's data sets for a table: task, training and validation examples, input, labels, metric."""
    rows = []
    for ref in study.tasks:
        known = (resources.known.get(key) for key, of in resources.tasks.items() if of == ref)
        task = next((facts for facts in known if facts), None) or facts_of(ref, resources.data)
        pair = "sentence pair" if task.pair else "sentence"
        labels = ", ".join(task.labels) if task.labels else {"regression": "a number", "spans": "an answer"}[task.kind]
        rows.append((task.name, task.train_rows, task.validation_rows, pair, labels, task.metric))
    return rows
