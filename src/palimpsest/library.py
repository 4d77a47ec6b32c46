"""The command line's work as functions, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palimpsest.errors import SpecError
from palimpsest.execution.plan import make_plan
from palimpsest.execution.run import run_plan
from palimpsest.specs.study import Study
from palimpsest.store import open_store
from palimpsest.studies import load

if TYPE_CHECKING:
    import pandas as pd


def run(
    study: str | PathLike[str] | Study,
    store: str | PathLike[str],
    *,
    data: str | PathLike[str] | None = None,
    model: str | None = None,
    device: str = "auto",
    settings: Mapping[str, Any] | None = None,
    on_event: Callable[[Any], None] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Run what is missing of a study and return its table: one row per trial of its grid.

    `study` is a shipped name, a path to a YAML file, or a :class:`Study`. `settings` are what ``--set`` takes.
    `options` go to :func:`palimpsest.execution.run.run_plan` (``limit``, ``engine``, ``processes``, ``retry_failed``).
    """
    from palimpsest.analysis.table import table

    if isinstance(study, Study):
        if settings or model:
            raise SpecError("settings and model change a study that is read; give a Study with what you want in it")
        studies: tuple[Study, ...] = (study,)
    else:
        studies = load(str(study), {**(settings or {}), **({"encoder": model} if model else {})})
    place = open_store(store, create=True)
    plan = make_plan(studies, place, Path(data) if data else None)
    run_plan(plan, place, str(store), on_event or (lambda _: None), device, **options)
    return table(plan.cells, place)
