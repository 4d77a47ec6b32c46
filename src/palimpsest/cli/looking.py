"""Commands that show what was found: figures, tables, export, report, serve."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palimpsest.cli.options import (
    DEFAULT_STORE,
    ClaimsOpt,
    DataOpt,
    ModelOpt,
    OutOpt,
    PublishedOpt,
    SetOpt,
    StoreOpt,
    StudyArg,
    check_choice,
)
from palimpsest.cli.studied import (
    GoingOn,
    folder_of,
    frame_of,
    open_at,
    open_if_there,
    parts,
    planned,
    warn_of_problems,
)
from palimpsest.cli.terminal import escape, new_console
from palimpsest.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palimpsest.execution.plan import Plan
    from palimpsest.specs.study import Drawing
    from palimpsest.store import Store

OUT = {"csv": "palimpsest.csv", "parquet": "palimpsest.parquet", "archive": "palimpsest-archive.parquet", "store": ""}
"""The formats of `export`, and where each goes if nothing else is said."""


def figures(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    out: OutOpt = Path("figures"),
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="Only figures of this kind: incremental, scatter, curves …"),
    ] = None,
    schematic: Annotated[
        bool, typer.Option("--schematic", help="Draw what is done to the layers, not results: --kind schematic.")
    ] = False,
    published: PublishedOpt = False,
) -> None:
    """Draw a study's figures (PNG and PDF) from what is in the store, finished or not."""
    from palimpsest.figures.kinds import FIGURES
    from palimpsest.figures.registry import check, draw, with_published

    kind = "schematic" if schematic else kind
    if kind is not None:
        check_choice("kind", kind, tuple(FIGURES))
    place = open_if_there(store)
    made = planned(study, place, data, model, set_)
    for one in made.studies:
        check(one)
    with GoingOn(made, kind is not None) as going:
        for one, frame, material in parts(made, place):
            shown = with_published(one) if published else one
            drawings = _of_kind(kind, shown.figures, ())
            if not drawings and len(made.studies) == 1:
                raise SpecError(f"the study {one.name} names no figures; see its `figures:` key, or use --kind")
            for drawing in drawings:
                if place is None and drawing.kind != "schematic":
                    open_at(store)  # says that there is none
                with going.past(one):
                    for path in draw(shown, frame, drawing, folder_of(out, one, made), **material):
                        typer.echo(path)


def tables(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write text, Markdown, CSV and LaTeX.")
    ] = None,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="Only tables of this kind: summary, by-layer, gains …"),
    ] = None,
    claims: ClaimsOpt = False,
    published: PublishedOpt = False,
) -> None:
    """Print a study's tables, and write them as text, Markdown, CSV and LaTeX with --out."""
    from palimpsest.analysis.verdicts import judge
    from palimpsest.figures.kinds import TABLES
    from palimpsest.figures.registry import DEFAULT_TABLES, table_of, tabulate, with_published
    from palimpsest.specs.study import Drawing

    if kind is not None:
        check_choice("kind", kind, tuple(TABLES))
    place = open_if_there(store)
    made = planned(study, place, data, model, set_)
    if claims:
        findings = judge(made.cells, open_at(store), made.resources)
        drawing = Drawing(kind="claims")
        frame = frame_of(made, open_at(store))
        typer.echo(table_of(frame, drawing, claims=findings).text())
        for path in tabulate(made.studies[0], frame, drawing, out, claims=findings) if out else ():
            typer.echo(path)
        return
    with GoingOn(made, kind is not None) as going:
        for one, frame, material in parts(made, place):
            shown = with_published(one) if published else one
            for drawing in _of_kind(kind, shown.tables, DEFAULT_TABLES):
                if place is None and drawing.kind != "datasets":
                    open_at(store)  # says that there is none
                with going.past(one):
                    typer.echo(table_of(frame, drawing, **material).text())
                    if out:
                        for path in tabulate(shown, frame, drawing, folder_of(out, one, made), **material):
                            typer.echo(path)


def _of_kind(kind: str | None, named: Sequence[Drawing], usual: Sequence[Drawing]) -> Sequence[Drawing]:
    """What a study names, or what is `usual` where it names nothing; of one kind, whether it names that or not."""
    from palimpsest.specs.study import Drawing

    if kind is None:
        return named or usual
    return [drawing for drawing in named if drawing.kind == kind] or [Drawing(kind=kind)]


def export(
    study: Annotated[
        str | None, typer.Argument(metavar="[STUDY]", help="A study; without one, the whole store.")
    ] = None,
    store: StoreOpt = DEFAULT_STORE,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="csv|parquet|archive|store",
            help="A table; or whole records: in one file that commands take as --store, or in another store.",
        ),
    ] = "csv",
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Where to; for --format store a directory or URL.")
    ] = None,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
) -> None:
    """Write the tidy table, one row per trial, as CSV or Parquet; or whole records, as an archive or into a store."""
    from palimpsest.analysis.table import everything
    from palimpsest.store.export import copy
    from palimpsest.store.export import export as write

    check_choice("format", format, tuple(OUT))
    place = open_at(store)
    target = out or OUT[format]
    if not target:
        raise SpecError("--format store needs a place to write to: --out DIR_OR_URL")
    made = planned(study, place, data, model, set_) if study else None
    if format == "archive":
        typer.echo(_archive(made, place, target, data, model))
    elif format == "store":
        count, new = copy(place, target, made.trials if made else None)
        typer.echo(f"{target}: {count:,} records of {store}, {new:,} of them new")
    else:
        typer.echo(write(frame_of(made, place) if made else everything(place), target))
    warn_of_problems(place)


def _archive(made: Plan | None, place: Store, target: str, data: Path | None, model: str | None) -> Path:
    from palimpsest.execution.facts import gather, guessed
    from palimpsest.store.archive import contents, write_archive

    found = contents(place, made.trials if made else None)
    facts, missing = gather(found, made.resources if made else guessed(found, model, data), place.facts)
    for note in missing:
        new_console(stderr=True).print(
            f"[yellow]not self-contained[/] To look at these results one will need {escape(note)}",
            highlight=False,
            soft_wrap=True,
        )
    return write_archive(place, found, facts, target)


def report(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The HTML file.")] = Path("report.html"),
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    claims: ClaimsOpt = False,
) -> None:
    """Write a study's page: one HTML file with interactive figures that opens anywhere, without a network."""
    from palimpsest.report.document import write_report
    from palimpsest.report.page import gather, payload, study_pages

    place = open_at(store)
    made = planned(study, place, data, model, set_)
    pages = study_pages(made, gather(made, place))
    content = payload(pages, store, _run_command(study, store, data, model, set_ or []), claims=claims)
    typer.echo(write_report(content, out))
    warn_of_problems(place)


def serve(
    study: Annotated[
        str | None, typer.Argument(metavar="[STUDY]", help="A study; without one, what was last run with the store.")
    ] = None,
    store: StoreOpt = DEFAULT_STORE,
    host: Annotated[str, typer.Option("--host", help="Who may look: by default this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8765,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
) -> None:
    """Show a study's page live while it runs, for a browser. Changes nothing; stop it with Ctrl-C."""
    from palimpsest.execution.plan import make_plan
    from palimpsest.report.document import need
    from palimpsest.store.running import remembered

    for module in ("plotly", "starlette", "uvicorn"):
        need(module, "the live page")
    from palimpsest.report import server

    place = open_at(store)
    if study is None:
        known = remembered(place)
        if known is None:
            raise SpecError(
                f"nothing has been run with {store} yet: name the study, palimpsest serve STUDY --store {store}"
            )
        made, data = make_plan(known[:1], place, known[1]), known[1]
        name = known[0].name
    else:
        made, name = planned(study, place, data, model, set_), study
    with server.listen(host, port) as listening:
        typer.echo(f"http://{host}:{port}/  (Ctrl-C ends it)")
        watched = server.Watched(made, place, store, _run_command(name, store, data, model, set_ or []))
        server.serve(watched, host, listening)


def _run_command(study: str, store: str, data: Path | None, model: str | None, settings: list[str]) -> str:
    """The command on a page that runs what is missing. An archive is unpacked for it: nothing is written to one."""
    from palimpsest.report.reproduce import command
    from palimpsest.store.archive import is_archive

    if not is_archive(store):
        return command(study, store, data, model, settings)
    unpack = shlex.join(["palimpsest", "export", "--store", store, "--format", "store", "--out", DEFAULT_STORE])
    return f"{unpack} && {command(study, DEFAULT_STORE, data, model, settings)}"
