"""The record: a trial, what came out of it, and under which circumstances. Its JSON form is the store's file format."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from palimpsest.errors import PalimpsestError, StoreError
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Trial
from palimpsest.training.outcome import Epoch, Outcome

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """One finished or failed trial.

    `provenance` says how it came about, never where: ``versions``, ``device``, ``precision``, ``engine``, ``seconds``
    (the trial's share of wall time), ``pack_seconds`` (what the time of all trials of its pack had gone into when it
    ended) and ``ended`` are the usual keys; host names and environment variables have no place in it.
    """

    trial: Trial
    outcome: Outcome
    provenance: dict[str, Any]

    @property
    def id(self) -> str:
        return self.trial.identity

    def to_json(self) -> str:
        """One line of JSON. Floats that are not finite become null, and are read back as NaN."""
        data = {
            "format": FORMAT,
            "id": self.id,
            "trial": _named(self.trial),
            "outcome": _finite(asdict(self.outcome)),
            "provenance": _finite(self.provenance),
        }
        try:
            return json.dumps(data, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise StoreError(f"the record {self.id} holds something that is not plain data: {error}") from None

    @classmethod
    def from_json(cls, text: str | bytes) -> Record:
        """The inverse of :meth:`to_json`. A StoreError says why a text is not a record of this version."""
        try:
            data = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise StoreError(f"truncated or not JSON: {error}") from None
        if not isinstance(data, dict) or not isinstance(data.get("format"), int):
            raise StoreError("not a record: there is no format number")
        if data["format"] > FORMAT:
            raise StoreError(f"from a newer version: format {data['format']}; this Palimpsest reads up to {FORMAT}")
        if data["format"] < 1:
            raise StoreError(f"not a record: there is no format {data['format']}")
        try:
            trial = _trial(data.get("trial"))
        except PalimpsestError as error:
            raise StoreError(f"its trial cannot be read: {error}") from None
        if data.get("id") != trial.identity:
            raise StoreError(f"foreign: it is called {data.get('id')!r}, but its trial is {trial.identity}")
        return cls(trial, _outcome(data.get("outcome")), _mapping(data.get("provenance"), "provenance"))


def _named(trial: Trial) -> dict[str, Any]:
    """The canonical form, with the protocols' names: they do not count in the identity, but a reader wants them."""
    data = dict(trial.canonical)
    protocol = trial.protocol
    data["protocol"] = {"name": protocol.name, "summary": protocol.summary, **data.get("protocol", {})}
    if trial.after is not None:
        data["after"] = _named(trial.after)
    return data


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def _trial(data: Any) -> Trial:
    if isinstance(data, dict) and isinstance(data.get("protocol"), dict):
        data["protocol"] = _protocol(json.dumps(data["protocol"]))
    return Trial.parse(data, "trial")


@lru_cache(maxsize=256)
def _protocol(text: str) -> Protocol:
    """A store has many trials and few protocols: each is read, and its canonical form computed, once."""
    return Protocol.parse(json.loads(text), "trial.protocol")


def _outcome(data: Any) -> Outcome:
    data = _mapping(data, "outcome")
    status = data.get("status")
    if status not in ("finished", "failed"):
        raise StoreError(f"malformed: outcome.status is {status!r}, neither finished nor failed")
    return Outcome(
        status=status,
        reason=_text(data, "reason"),
        metric=_text(data, "metric"),
        metrics=_numbers(data.get("metrics", {}), "outcome.metrics"),
        epochs=tuple(_epoch(e, i) for i, e in enumerate(_items(data, "epochs"))),
        curve=_curve(_items(data, "curve")),
        predictions=_text(data, "predictions"),
        train_examples=_count(data.get("train_examples", 0), "outcome.train_examples"),
        steps=_count(data.get("steps", 0), "outcome.steps"),
        measures=_mapping(data.get("measures", {}), "outcome.measures"),
    )


def _epoch(data: Any, index: int) -> Epoch:
    place = f"outcome.epochs[{index}]"
    data = _mapping(data, place)
    return Epoch(
        epoch=_count(data.get("epoch"), f"{place}.epoch"),
        train_loss=_number(data.get("train_loss"), f"{place}.train_loss"),
        validation_loss=_number(data.get("validation_loss"), f"{place}.validation_loss"),
        metrics=_numbers(data.get("metrics", {}), f"{place}.metrics"),
    )


def _curve(points: list[Any]) -> tuple[tuple[int, float], ...]:
    """Checked in bulk: a store has many records, and a curve many points."""
    if not points:
        return ()
    try:
        steps, losses = zip(*points, strict=True)
    except (TypeError, ValueError):
        raise StoreError("malformed: outcome.curve is not a list of pairs") from None
    if set(map(type, steps)) != {int}:
        raise StoreError("malformed: outcome.curve has a step that is not a count")
    if set(map(type, losses)) != {float} or not math.isfinite(sum(losses)):
        losses = tuple(_number(loss, "outcome.curve") for loss in losses)
    return tuple(zip(steps, losses, strict=True))


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise StoreError(f"malformed: {place} is not a mapping")
    return value


def _items(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name, [])
    if not isinstance(value, list):
        raise StoreError(f"malformed: outcome.{name} is not a list")
    return value


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name, "")
    if not isinstance(value, str):
        raise StoreError(f"malformed: outcome.{name} is not a text")
    return value


def _count(value: Any, place: str) -> int:
    if type(value) is not int or value < 0:
        raise StoreError(f"malformed: {place} is {value!r}, not a count")
    return value


def _number(value: Any, place: str) -> float:
    if value is None:
        return math.nan
    if type(value) not in (float, int) or not math.isfinite(value):
        raise StoreError(f"malformed: {place} is {value!r}, not a number")
    return float(value)


def _numbers(value: Any, place: str) -> dict[str, float]:
    return {name: _number(v, f"{place}.{name}") for name, v in _mapping(value, place).items()}
