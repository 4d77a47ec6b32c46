"""What a command works on: the plan of the study that was named, the store, and the tables of the two together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palimpsest.cli.terminal import escape, new_console
from palimpsest.errors import MissingStore, NothingFinished, NotInStudy
from palimpsest.paths import file_name

if TYPE_CHECKING:
    from palimpsest.execution.plan import Plan
    from palimpsest.specs.study import Study
    from palimpsest.store import Store


def planned(
    study: str, store: Store | None, data: Path | None, model: str | None, set_: list[str] | None, to_run: bool = False
) -> Plan:
    """The plan of a study. Unless it is to be run, an archive's facts stand in for what is not on this machine."""
    from palimpsest.execution.plan import make_plan
    from palimpsest.specs.settings import parse_settings
    from palimpsest.studies import load

    settings = parse_settings(set_ or []) | ({"encoder": model} if model else {})
    facts = None if to_run or store is None else store.facts
    made = make_plan(load(study, settings), store, data, facts)
    for note in made.left_out:
        new_console(stderr=True).print(f"[yellow]left out[/] {escape(note)}", highlight=False, soft_wrap=True)
    return made


def open_at(where: str) -> Store:
    from palimpsest.store import open_store

    return open_store(where)


def open_if_there(where: str) -> Store | None:
    try:
        return open_at(where)
    except MissingStore:
        return None


def open_to_write(where: str) -> Store | None:
    """The store that a run will write to, if it is there; what can never be one is refused before anything is done."""
    if where.endswith(".parquet"):
        from palimpsest.store.archive import is_archive, refusal

        if is_archive(where):
            raise refusal(where)
    return open_if_there(where)


def frame_of(made: Plan, store: Store) -> Any:
    from palimpsest.analysis.table import table

    return table(made.cells, store)


def parts(made: Plan, store: Store | None) -> Any:
    """Study by study: its table, and what some figures are drawn from besides."""
    from functools import cache

    from palimpsest.analysis.table import cka_table, curves_table, drift_table, epochs_table, table
    from palimpsest.analysis.verdicts import judge
    from palimpsest.execution.facts import dataset_rows

    for study in made.studies:
        cells = [cell for cell in made.cells if cell.at["study"] == study.name]
        material = {
            "epochs": lambda cells=cells: epochs_table(cells, store),
            "curves": lambda cells=cells: curves_table(cells, store),
            "drift": lambda cells=cells: drift_table(cells, store),
            "cka": lambda cells=cells: cka_table(cells, store),
            "datasets": lambda study=study: dataset_rows(study, made.resources),
            "claims": cache(lambda cells=tuple(cells): judge(cells, store, made.resources)),
        }
        frame = table(cells, store)
        frame.attrs["depth"] = made.depths.get(study.encoder)
        yield study, frame, material
    if store is not None:
        warn_of_problems(store)


class GoingOn:
    """Drawings that nothing is there of yet are named and passed over; an error if all of a study's are.

    Where a kind of drawing was `asked` for, studies that it is not made for are passed over too, if others are.
    """

    def __init__(self, made: Plan, asked: bool = False) -> None:
        self._several, self._asked = len(made.studies) > 1, asked
        self._drawn = False
        self._missed: list[tuple[Study, NothingFinished]] = []
        self._strange: NotInStudy | None = None

    @contextmanager
    def past(self, study: Study) -> Iterator[None]:
        try:
            yield
            self._drawn = True
        except NothingFinished as error:
            self._missed.append((study, error))
        except NotInStudy as error:
            if not (self._asked and self._several):
                raise
            self._strange = error

    def __enter__(self) -> GoingOn:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        if self._strange and not (self._drawn or self._missed):
            raise self._strange
        if self._missed and not (self._drawn or self._several):
            raise self._missed[0][1]
        for study, error in self._missed:
            new_console(stderr=True).print(f"[yellow]{escape(study.name)}[/] {escape(str(error))}", soft_wrap=True)


def folder_of(out: Path, study: Study, made: Plan) -> Path:
    """Several studies draw into folders of their own: tamkin2020/figure2, …"""
    return out.joinpath(*map(file_name, study.name.split("/"))) if len(made.studies) > 1 else out


def warn_of_problems(store: Store) -> None:
    for problem in store.problems:
        new_console(stderr=True).print(f"[yellow]skipped[/] {escape(problem.path)}: {escape(problem.reason)}")
