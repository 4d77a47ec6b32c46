"""Writes study-files.md: every key of a study, from the specs themselves. Run by `make docs`, held by a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from palimpsest.figures.kinds import FIGURES, TABLES
from palimpsest.specs.experiment import KINDS, Experiment
from palimpsest.specs.intervention import DeleteLayers, PermuteLayers, Reinitialize, ReinitializeHeads
from palimpsest.specs.protocol import PROTOCOLS, Convergence, Initialiser, Protocol
from palimpsest.specs.study import Drawing, Study
from palimpsest.specs.task_file import TaskFile

PAGE = Path(__file__).with_name("study-files.md")

INTRODUCTION = """\
# Study files

A study is a YAML file: which trials are run, and which figures and tables are drawn from them.
`palimpsest plan FILE` checks it and says what it would run. Unknown keys are errors.

```yaml
title: Which layers does my task need?
encoder: bert-base-uncased
protocol: {extends: paper, epochs: 5}
tasks: [cola, sst2]
experiments:
  - kind: incremental
    preserved: [0, L/2, L]
    sizes: [500, 5k, 10%, all]
    trials: {500: 50, default: 3}
figures:
  - kind: incremental
```

`--set KEY=VALUE` on the command line changes a study without editing it: `--set sizes=500,5000`, `--set trials=10`,
`--set protocol.epochs=5`, `--set tasks=cola`. A key of experiments is set in every experiment that has it.

This page is written by `make docs` from the specs; do not edit it.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_sections()]).rstrip() + "\n"


def sections() -> list[tuple[str, str, type[BaseModel], set[str]]]:
    """Headings, what is said under them, the specs they are about, and the keys that are said elsewhere."""
    shared = set(Experiment.model_fields)
    found: list[tuple[str, str, type[BaseModel], set[str]]] = [
        ("The study", _first(Study), Study, set()),
        ("A task of your own files", _first(TaskFile), TaskFile, set()),
        ("All experiments", _first(Experiment), Experiment, set()),
    ]
    for kind in experiments():
        own = {name for name in shared if kind.model_fields[name].description == _shared(name)}
        found.append((f"Experiment `{_kind(kind)}`", _first(kind), kind, own | {"kind"}))
    for spec in (Reinitialize, ReinitializeHeads, PermuteLayers, DeleteLayers):
        found.append((f"Intervention `{_kind(spec)}` (in `variants`)", _first(spec), spec, {"kind"}))
    found.append(("Figures and tables", _drawings(), Drawing, set()))
    found.append(("The protocol", _protocols(), Protocol, set()))
    found.append(("The protocol's `initialiser`", _first(Initialiser), Initialiser, set()))
    found.append(("`converge`", _whole(Convergence), Convergence, set()))
    return found


def experiments() -> list[type[Experiment]]:
    """Every kind of experiment."""
    return list(KINDS.values())


def _sections() -> Iterator[str]:
    for heading, text, spec, elsewhere in sections():
        yield f"## {heading}\n\n{text}\n"
        rows = [_row(name, field) for name, field in spec.model_fields.items() if name not in elsewhere]
        if rows:
            yield "\n".join(["| key | default | what it is |", "|---|---|---|", *rows]) + "\n"


def _row(name: str, field: Any) -> str:
    said = (field.description or "").replace("|", "\\|")
    default = "required" if field.is_required() else f"`{_shown(field.get_default(call_default_factory=True))}`"
    if field.is_required() and said.startswith("By default"):
        default = ""
    choices = [str(c) for c in get_args(field.annotation) if isinstance(c, str)]
    return f"| `{name}` | {default} | {said}{' One of ' + ', '.join(choices) + '.' if choices else ''} |"


def _shown(value: Any) -> str:
    if isinstance(value, Protocol):
        return value.name
    if isinstance(value, Initialiser):
        return "see below"
    if isinstance(value, dict):
        return str(value["default"]) if set(value) == {"default"} else "{}" if not value else str(value)
    if isinstance(value, tuple):
        return "all" if value == (None,) else f"[{', '.join(map(str, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value) or '""'


def _shared(name: str) -> str | None:
    return Experiment.model_fields[name].description


def _kind(spec: type[BaseModel]) -> str:
    return str(get_args(spec.model_fields["kind"].annotation)[0])


def _whole(spec: type[BaseModel]) -> str:
    return " ".join((spec.__doc__ or "").split())


def _first(spec: type[BaseModel]) -> str:
    return " ".join((spec.__doc__ or "").split("\n\n")[0].split())


def _drawings() -> str:
    kinds = (
        f"{name}: {', '.join(f'`{kind}`' for kind in known)}"
        for name, known in (("Figures", FIGURES), ("Tables", TABLES))
    )
    return f"{_first(Drawing)} {'. '.join(kinds)}."


def _protocols() -> str:
    listed = "\n".join(f"- `{name}`: {p.summary}" for name, p in PROTOCOLS.items())
    return f"{_first(Protocol)} `protocol: NAME`, or `protocol: {{extends: NAME, KEY: VALUE, …}}`. Names:\n\n{listed}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
