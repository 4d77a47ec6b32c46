"""What all specs have in common: they are immutable, strict, self-documenting values with a canonical form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from palimpsest.errors import PalimpsestError, SpecError, UnknownName

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_SCALARS = frozenset({str, int, float, bool, type(None)})


class Spec(BaseModel):
    """An immutable value. Its identity is the hash of its canonical JSON.

    Rules of identity, for whoever adds a field:

    * A field that equals its default is left out of the canonical form, so a new field with a default does not change
      any older identity. Hence **a default never changes** once it is released; a better value gets a new protocol or
      a new field.
    * ``kind`` is always kept: it tells apart specs whose other fields look alike.
    * Fields named in ``NOT_IDENTITY`` (names, descriptions) never count.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    NOT_IDENTITY: ClassVar[frozenset[str]] = frozenset()

    @cached_property
    def canonical(self) -> dict[str, Any]:
        """The fields that count, as plain JSON values."""
        kept: dict[str, Any] = {}
        fields = self.__dict__
        for name, default in _plain_defaults(type(self)).items():
            value = fields[name]
            if type(value) not in _SCALARS:
                value = _plain(value)
            if value != default or name == "kind":
                kept[name] = value
        return kept

    @cached_property
    def canonical_json(self) -> str:
        """The canonical form as text: keys sorted, no spaces, ASCII. Parts that trials share are written once."""
        parts = [f'"{name}":{_text(getattr(self, name))}' for name in sorted(self.canonical)]
        return "{" + ",".join(parts) + "}"

    @cached_property
    def identity(self) -> str:
        """32 hexadecimal digits: the same in every process, on every machine."""
        return hashlib.sha256(self.canonical_json.encode()).hexdigest()[:32]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with its own identity: pydantic would hand down the canonical form already computed for `self`."""
        copy = super().model_copy(update=update, deep=deep)
        for name in ("canonical", "canonical_json", "identity"):
            copy.__dict__.pop(name, None)
        return copy

    @classmethod
    def parse(cls, data: Any, where: str) -> Self:
        """Validate data read from a file or the command line; errors say where, what and how to mend it."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise explain(error, cls, where) from None
        except PalimpsestError as error:  # a part of the data was parsed on its own, and does not know its place
            error.args = (f"{where}: {error}",)
            raise


@cache
def _plain_defaults(model: type[Spec]) -> dict[str, Any]:
    """The defaults in canonical form, so that a default protocol with another summary is still the default."""
    return {
        name: _plain(field.get_default(call_default_factory=True))
        for name, field in model.model_fields.items()
        if name not in model.NOT_IDENTITY
    }


def _plain(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Spec):
        return value.canonical
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return value


def _text(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, Spec):
        return value.canonical_json
    if isinstance(value, tuple | list):
        return f"[{','.join(_text(v) for v in value)}]"
    return _encode(_plain(value))


def not_truth(value: Any) -> Any:
    """For numbers: pydantic would take true for 1, but in a file it is a slip."""
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")
    return value


def explain(error: ValidationError, model: type[BaseModel], where: str) -> SpecError | UnknownName:
    """One readable error out of pydantic's list of them."""
    lines = []
    items = error.errors()
    for item in items:
        place = ".".join(str(p) for p in item["loc"] if not str(p).startswith("function-"))
        if item["type"] == "extra_forbidden":
            key = str(item["loc"][-1])
            return UnknownName("key", key, _siblings(model, item["loc"]) - {key}, hint=f"({where}: {place})")
        if item["type"] == "union_tag_invalid":
            kinds = [kind.strip("'") for kind in item["ctx"]["expected_tags"].split(", ")]
            return UnknownName("kind", item["ctx"]["tag"], kinds, hint=f"({where}: {place})")
        if item["type"] == "union_tag_not_found":
            lines.append(f"{where}: {place}: there is no {item['ctx']['discriminator']} here, which says what it is")
            continue
        if item["type"] == "too_short" and any(_inside(other["loc"], item["loc"]) for other in items):
            continue  # what is missing is what was wrong
        message = item["msg"].removeprefix("Value error, ")
        given = item.get("input")
        shown = f" (given: {_short(given)})" if isinstance(given, str | int | float | bool) or given is None else ""
        lines.append(f"{where}: {place + ': ' if place else ''}{message}{shown}")
    return SpecError("\n".join(dict.fromkeys(lines)))


def _short(value: str | int | float | bool | None) -> str:
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a very large number"  # Python refuses to write out the largest ones
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def _inside(inner: tuple[Any, ...], outer: tuple[Any, ...]) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _siblings(model: type[BaseModel], loc: tuple[Any, ...]) -> set[str]:
    """The keys that would have been allowed where an unknown one was given: those of all specs at that depth."""
    level: set[type[BaseModel]] = {model}
    for _ in [part for part in loc[:-1] if isinstance(part, str)]:
        inner = {m for owner in level for field in owner.model_fields.values() for m in _models(field.annotation)}
        level |= inner
    deepest = level - {model} if len(loc) > 1 else level
    return {name for owner in deepest for name in owner.model_fields}


def _models(annotation: Any) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {m for part in get_args(annotation) for m in _models(part)}
