"""Numbers that the documents print, as data with their source, to be laid beside one's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from palimpsest.errors import UnknownName

_HOME = Path(__file__).parent


@dataclass(frozen=True)
class Published:
    """One printed table: where it is from, what it holds, and its rows."""

    name: str
    source: str
    what: str
    rows: tuple[dict[str, Any], ...]
    encoder: str = ""

    def find(self, **keys: Any) -> dict[str, Any] | None:
        """The first row with these values."""
        return next((row for row in self.rows if all(row.get(k) == v for k, v in keys.items())), None)


def names() -> list[str]:
    """The printed tables there are."""
    return sorted(path.stem for path in _HOME.glob("*.yaml"))


@cache
def published(name: str) -> Published:
    """A printed table by name."""
    if name not in names():
        raise UnknownName("published table", name, names())
    data = yaml.safe_load((_HOME / f"{name}.yaml").read_text(encoding="utf-8"))
    return Published(name, data["source"], data["what"], tuple(data["rows"]), data.get("encoder", ""))
