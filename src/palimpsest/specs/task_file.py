"""A task made of the user's own files."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from palimpsest.specs.base import Spec
from palimpsest.tasks.known import METRICS, is_known


class TaskFile(Spec):
    """Two files with one example per row: CSV (quoted), TSV (never quoted) or JSON Lines, told by their ending.

    A trial's identity holds the fingerprint of what the files say, not this spec: moving them changes nothing.
    """

    NOT_IDENTITY: ClassVar[frozenset[str]] = frozenset({"train", "validation"})

    name: str = Field(description="What the task is called in figures and records; not the name of a known task.")
    train: Path = Field(description="The training examples.")
    validation: Path = Field(description="The examples that metrics are computed on.")
    text: str | tuple[str, str] = Field(description="The column with the text, or the two columns of a sentence pair.")
    label: str = Field(description="The column with the class or, for regression, the number.")
    type: Literal["classification", "regression"] = Field("classification", description="What the labels are.")
    labels: tuple[str, ...] | None = Field(
        None, description="The classes in the order of their numbers; by default sorted (as numbers if all are)."
    )
    metrics: tuple[str, ...] | None = Field(
        None, description="accuracy, f1, mcc; or pearson, spearman. Figures show the first; by default all, so ordered."
    )

    @field_validator("name")
    @classmethod
    def _plain_label(cls, name: str) -> str:
        if not name.strip() or name != name.strip() or len(name) > 100:
            raise ValueError("a task's name has 1 to 100 characters, with no space at either end")
        if not name.isprintable() or "/" in name or "\\" in name or name in {".", ".."}:
            raise ValueError("a task's name is a plain label, without path separators or control characters")
        if is_known(name):
            raise ValueError("is the name of a task that Palimpsest knows already; call yours something else")
        return name

    @field_validator("labels", mode="before")
    @classmethod
    def _as_written(cls, labels: object) -> object:
        # YAML reads `labels: [0, 1]` as numbers, while a file has them as text.
        if not isinstance(labels, list | tuple):
            return labels
        if any(isinstance(v, bool) for v in labels):
            raise ValueError('YAML reads yes, no, true and false as truth values: put quotes around them ("yes")')
        return tuple(str(v) if isinstance(v, int | float) else v for v in labels)

    @field_validator("labels", "metrics")
    @classmethod
    def _distinct(cls, values: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if values is not None and (not values or len(set(values)) < len(values)):
            raise ValueError("is empty or names something twice")
        return values

    @model_validator(mode="after")
    def _consistent(self) -> TaskFile:
        if self.labels is not None and self.type == "regression":
            raise ValueError("labels are for classification; leave them out, or say type: classification")
        if self.labels is not None and len(self.labels) < 2:
            raise ValueError("labels: a classification needs at least two classes")
        allowed = METRICS[self.type]
        for metric in self.metrics or ():
            if metric not in allowed:
                raise ValueError(f"metrics: {metric!r} is not one of {', '.join(allowed)}, those for {self.type}")
        columns = (*self.text_columns, self.label)
        if len(set(columns)) < len(columns):
            raise ValueError("text and label name the same column twice")
        return self

    @property
    def text_columns(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text
