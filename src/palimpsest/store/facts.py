"""What an archive knows of its encoders and tasks, so that its results can be looked at where neither of them is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from pydantic import TypeAdapter, ValidationError

from palimpsest.errors import SpecError, StoreError
from palimpsest.specs.expansion import EncoderIdentity, TaskIdentity

Key = tuple[str, str | None]
"""A name with the fingerprint of what it is the name of: how a trial names its encoder and its task."""


@dataclass(frozen=True)
class TaskFacts:
    """What tables and claims want to know of a task's data; none of its sentences."""

    name: str
    data: str | None
    train_rows: int
    validation_rows: int
    kind: str
    pair: bool
    labels: tuple[str, ...]
    metric: str
    answers: str = ""  # the classes of the validation examples, packed as predictions are; empty for other kinds

    @property
    def identity(self) -> TaskIdentity:
        return TaskIdentity(self.name, self.data, self.train_rows)


@dataclass(frozen=True)
class Facts:
    """Encoders and tasks by the names that trials have for them."""

    encoders: tuple[EncoderIdentity, ...] = ()
    tasks: tuple[TaskFacts, ...] = ()

    def encoder(self, ref: str) -> EncoderIdentity | None:
        """The encoder of this name: its own, that of the directory which it was, or ``NAME@FINGERPRINT`` (or less)."""
        name, _, version = ref.partition("@")
        is_path = name.startswith((".", "/", "~")) or name.count("/") > 1
        names = {name, PurePath(name).name} if is_path else {name}
        found = [e for e in self.encoders if e.name in names and (e.weights or "").startswith(version)]
        if len(found) > 1:
            raise SpecError(f"{ref} may be any of {_listed(found)}; say which with --model")
        return found[0] if found else None

    def task(self, name: str) -> TaskFacts | None:
        """The task of this name. Of several data sets the complete official one is meant, if it is among them."""
        found = [task for task in self.tasks if task.name == name]
        official = [task for task in found if task.data is None]
        if len(found) > 1 and not official:
            versions = ", ".join(sorted(str(task.data) for task in found))
            raise SpecError(
                f"there are trials of {name} on {len(found)} data sets (fingerprints {versions}); "
                "give the data of those that are meant: --data DIR, or the files that the study names"
            )
        return next(iter(official or found), None)

    def says(self) -> str:
        """The encoders, in words."""
        return _listed(self.encoders)

    def to_json(self) -> bytes:
        return _ADAPTER.dump_json(self)

    @classmethod
    def from_json(cls, text: bytes) -> Facts:
        """The inverse of :meth:`to_json`; what a later version may know besides is passed over."""
        try:
            return _ADAPTER.validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise StoreError(f"what it says of encoders and tasks cannot be read ({place}: {first['msg']})") from None


_ADAPTER = TypeAdapter(Facts)


def _listed(encoders: Iterable[EncoderIdentity]) -> str:
    return ", ".join(sorted(f"{e.name}@{e.weights}" if e.weights else e.name for e in encoders))
