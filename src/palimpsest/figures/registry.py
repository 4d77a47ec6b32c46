"""Drawings of the kinds that there are, and the files they are written to."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from pydantic import ConfigDict, ValidationError, validate_call

from palimpsest.errors import PalimpsestError, SpecError, StoreError, UnknownName
from palimpsest.figures import style
from palimpsest.figures.kinds import FIGURES, TABLES, check_kinds
from palimpsest.figures.style import STYLE
from palimpsest.figures.text_table import TextTable
from palimpsest.specs.study import Drawing, Study

DEFAULT_TABLES = (Drawing(kind="summary"),)
"""What a study gets that names no tables."""

Material = pd.DataFrame | Sequence[Any] | Callable[[], Any] | None


def figure_of(table: pd.DataFrame, drawing: Drawing, **material: Material) -> Figure:
    """One drawing as a matplotlib figure.

    `material` is what some kinds are drawn from instead of the table: ``epochs``, the epochs table. It may be given as
    a function, which is called only if the kind needs it.
    """
    figure = _make("figure", FIGURES, drawing, {"table": table, **material})
    if drawing.title:
        with mpl.rc_context(STYLE):
            style.title(figure, drawing.title)
    assert isinstance(figure, Figure)
    return figure


def table_of(table: pd.DataFrame, drawing: Drawing, **material: Material) -> TextTable:
    """One drawing as a table of text. `material`: ``datasets``, for the kind of this name."""
    found = _make("table", TABLES, drawing, {"table": table, **material})
    assert isinstance(found, TextTable)
    return found


def draw(study: Study, table: pd.DataFrame, drawing: Drawing, out_dir: Path, **material: Material) -> list[Path]:
    """Write a figure of the study as PNG and PDF; returns their paths."""
    figure = figure_of(table, drawing, **material)
    stem = _stem(study.figures, drawing)

    def save(path: Path) -> None:
        with mpl.rc_context(STYLE), warnings.catch_warnings():
            # A script that the font does not have is drawn as boxes; that is no reason to fail.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            dates: Any = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
            figure.savefig(path, metadata=dates)

    return [_write(out_dir / f"{stem}.{ending}", save) for ending in ("png", "pdf")]


def tabulate(study: Study, table: pd.DataFrame, drawing: Drawing, out_dir: Path, **material: Material) -> list[Path]:
    """Write a table of the study as plain text, Markdown, CSV and LaTeX; returns their paths."""
    found = table_of(table, drawing, **material)
    stem = _stem(study.tables, drawing)
    texts = {"txt": found.text(), "md": found.markdown(), "csv": found.csv(), "tex": found.latex()}
    return [
        _write(out_dir / f"{stem}.{ending}", partial(Path.write_text, data=text, encoding="utf-8"))
        for ending, text in texts.items()
    ]


def with_published(study: Study) -> Study:
    """The study with published numbers laid beside its own, in those drawings that know any."""

    def beside(what: str, kinds: Mapping[str, str], drawing: Drawing) -> Drawing:
        if "published" not in inspect.signature(_find(what, kinds, drawing)).parameters:
            return drawing
        return drawing.model_copy(update={"options": {**drawing.options, "published": True}})

    figures = tuple(beside("figure", FIGURES, drawing) for drawing in study.figures)
    tables = tuple(beside("table", TABLES, drawing) for drawing in study.tables)
    return study.model_copy(update={"figures": figures, "tables": tables})


def check(study: Study) -> None:
    """Complain about drawings that cannot be made whatever the results are: unknown kinds and options, no epochs."""
    check_kinds(study)  # of all drawings, before any is imported
    for what, kinds, drawings in (("figure", FIGURES, study.figures), ("table", TABLES, study.tables)):
        for drawing in drawings:
            _options(what, drawing, _find(what, kinds, drawing))
            if what == "figure" and drawing.kind == "epochs":
                from palimpsest.figures.epochs import check_looks

                check_looks(study, drawing.options.get("experiment"))


def _find(what: str, kinds: Mapping[str, str], drawing: Drawing) -> Callable[..., Any]:
    if drawing.kind not in kinds:
        raise UnknownName(what, drawing.kind, kinds)
    module, _, name = kinds[drawing.kind].partition(":")
    function: Callable[..., Any] = getattr(import_module(f"palimpsest.figures.{module}"), name)
    return function


def _options(what: str, drawing: Drawing, function: Callable[..., Any]) -> list[str]:
    """Check the names of the options; returns what the function is drawn from, its positional parameters."""
    parameters = inspect.signature(function).parameters.values()
    known = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    for name in drawing.options:
        if name not in known:
            raise UnknownName(f"option of the {what} {drawing.kind}:", name, known)
    return [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]


def _make(what: str, kinds: Mapping[str, str], drawing: Drawing, material: Mapping[str, Material]) -> Any:
    function = _find(what, kinds, drawing)
    needed = []
    for name in _options(what, drawing, function):
        given = material.get(name)
        if given is None:
            raise PalimpsestError(f"the {what} {drawing.kind} is drawn from {name}, which were not given")
        needed.append(given() if callable(given) else given)
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
    try:
        return checked(*needed, **drawing.options)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        raise SpecError(
            f"option {place} of the {what} {drawing.kind}: {first['msg']} (given: {first['input']!r})"
        ) from None


def _stem(siblings: Sequence[Drawing], drawing: Drawing) -> str:
    """A drawing's file name: its kind, numbered when the study has several of it."""
    same = [d for d in siblings if d.kind == drawing.kind]
    return f"{drawing.kind}-{same.index(drawing) + 1}" if len(same) > 1 and drawing in same else drawing.kind


def _write(path: Path, write: Callable[[Path], Any]) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
    return path
