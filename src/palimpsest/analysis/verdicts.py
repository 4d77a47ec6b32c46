"""The claims, tested on what a store holds of some studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from palimpsest.analysis.claims import Finding, claims
from palimpsest.analysis.resampling import evidence
from palimpsest.analysis.statistics import finished
from palimpsest.analysis.table import table
from palimpsest.execution.facts import answers
from palimpsest.execution.plan import Resources
from palimpsest.specs.expansion import Cell
from palimpsest.store import Store


def judge(cells: Sequence[Cell], store: Store | None, resources: Resources) -> list[Finding]:
    """Test the claims on these cells, with the predictions that are stored and the tasks' own answers."""
    rows = table(cells, store)
    judged = set(rows.loc[finished(rows), "id"])
    targets = _targets([cell for cell in cells if cell.trial.identity in judged], resources)
    return claims(rows, evidence(cells, store, targets))


def _targets(cells: Sequence[Cell], resources: Resources) -> dict[str, npt.NDArray[Any]]:
    """The classes of the validation examples, by task; tasks with other kinds of answers are left out.

    Data may not be at hand of a task that nothing is finished of, so only the others are asked for.
    """
    found = {}
    for key, trial in {(cell.trial.task, cell.trial.data): cell.trial for cell in cells}.items():
        if (classes := answers(resources.task_of(trial), key, resources)) is not None:
            found[trial.task] = classes
    return found
