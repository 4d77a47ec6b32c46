"""The papers' experiments, as data. A folder is a paper; naming the folder means its studies, but for those aside."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from palimpsest.errors import SpecError, UnknownName
from palimpsest.specs.study import Study
from palimpsest.specs.study_file import read

_HOME = Path(__file__).parent


def names() -> list[str]:
    """The shipped studies."""
    return sorted(str(path.relative_to(_HOME).with_suffix("")) for path in _HOME.rglob("*.yaml"))


def load(ref: str, settings: dict[str, Any] | None = None) -> tuple[Study, ...]:
    """One study by name or path, or the studies of a folder by the folder's name."""
    shipped = names()
    if ref in shipped:
        return (read(_HOME / f"{ref}.yaml", settings, name=ref),)
    members = [name for name in shipped if name.startswith(f"{ref}/")]
    if members:
        studies = (_lenient(name, settings or {}) for name in members)
        return tuple(study for study in studies if not study.aside)
    path = Path(ref).expanduser()
    if path.is_file():
        return (read(path, settings),)
    if path.suffix in (".yaml", ".yml"):
        beside = sorted(str(path.parent / other.name) for other in path.parent.glob("*.y*ml"))
        near = difflib.get_close_matches(str(path), beside, n=1)
        raise SpecError(f"there is no study file {ref}" + (f". Did you mean {near[0]}?" if near else ""))
    if ref and path.is_dir():
        raise SpecError(f"{ref} is a directory; a study is a YAML file")
    raise UnknownName("study", ref, [*shipped, *{name.split("/")[0] for name in shipped if "/" in name}],
                      hint="A study is a shipped name (palimpsest studies) or a path to a YAML file.")  # fmt: skip


def _lenient(name: str, settings: dict[str, Any]) -> Study:
    """A study of a folder takes those settings that mean something to it."""
    kept = dict(settings)
    while True:
        try:
            return read(_HOME / f"{name}.yaml", kept, name=name)
        except SpecError as error:
            stranger = next((k for k in kept if f"setting {k!r}" in str(error)), None)
            if stranger is None:
                raise
            del kept[stranger]
