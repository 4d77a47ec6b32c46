"""A study: which trials are run and which figures are drawn from them, as data."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from palimpsest.specs.base import Spec
from palimpsest.specs.experiment import AnyExperiment, Experiment, Interleaved, Sequential
from palimpsest.specs.protocol import Protocol, resolve
from palimpsest.specs.spelling import task_names
from palimpsest.specs.task_file import TaskFile

AnyTask = Annotated[
    Annotated[str, Tag("name")] | Annotated[TaskFile, Tag("file")],
    Discriminator(lambda value: "file" if isinstance(value, dict | TaskFile) else "name"),
]
Tasks = Annotated[tuple[AnyTask, ...], BeforeValidator(task_names)]


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
    tasks: Tasks = Field(
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
