"""The claims, tested on what a store holds of some studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from palimpsest.analysis.claims import Finding, claims
from palimpsest.analysis.resampling import evidence
from palimpsest.analysis.table import table
from palimpsest.execution.plan import Resources
from palimpsest.specs.expansion import Cell
from palimpsest.store import Store
from palimpsest.tasks.registry import load


def judge(cells: Sequence[Cell], store: Store | None, resources: Resources) -> list[Finding]:
    """Test the claims on these cells, with the predictions that are stored and the tasks' own answers."""
    return claims(table(cells, store), evidence(cells, store, _targets(cells, resources)))


def _targets(cells: Sequence[Cell], resources: Resources) -> dict[str, npt.NDArray[Any]]:
    """The classes of the validation examples, by task; tasks with other kinds of answers are left out."""
    found = {}
    for trial in {(cell.trial.task, cell.trial.data): cell.trial for cell in cells}.values():
        task = load(resources.task_of(trial), resources.data)
        if task.kind == "classification":
            found[trial.task] = np.asarray(task.validation.targets)
    return found
