"""Do the same permutations hurt different tasks: paired correlations between tasks (Table 1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from palimpsest.analysis import selection
from palimpsest.analysis.names import size_name, task_name
from palimpsest.analysis.published import published as published_table
from palimpsest.errors import PalimpsestError
from palimpsest.figures.text_table import TextTable, number

Floats = npt.NDArray[np.float64]
_FEW = 8  # permutations whose orders are all counted


def correlations(
    table: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    size: str | int | float | None = None,
    published: bool = False,
) -> TextTable:
    """One row per pair of tasks: Spearman's and Pearson's coefficients over the same permutations, two-sided p.

    Options: `experiment`, the label of the permutation experiment (by default the first); `tasks`; `size` (by default
    the largest); `published`, whether to lay the paper's own numbers beside.
    """
    rows = selection.experiment(table, "permutation", label=experiment, tasks=tasks)
    rows, label = selection.one_size(rows, size)
    done = selection.need_something(rows).drop_duplicates(["task", "permutation", "id"])
    names = selection.tasks(rows)
    if len(names) < 2:
        raise PalimpsestError("correlations between tasks need a permutation experiment on at least two tasks")
    scores = done.pivot_table(index="permutation", columns="task", values="score").reindex(columns=names)
    found = []
    for a, b in itertools.combinations(names, 2):
        pair = scores[[a, b]].dropna().to_numpy(dtype=np.float64)
        spearman, spearman_p, pearson, pearson_p = _correlate(pair[:, 0], pair[:, 1])
        found.append((a, b, spearman, spearman_p, pearson, pearson_p, len(pair)))
    data = pd.DataFrame(found, columns=["task_a", "task_b", "spearman", "spearman_p", "pearson", "pearson_p", "n"])
    shown = [
        [f"{task_name(a)}, {task_name(b)}", _with_p(s, sp), _with_p(p, pp), str(n)] for a, b, s, sp, p, pp, n in found
    ]
    note = f"{size_name(label)}; two-sided p values in parentheses."
    note = "\n".join(part for part in (note, selection.missing_note(rows)) if part)
    columns = ["Tasks compared", "Spearman", "Pearson", "N"]
    if published:
        known = published_table("correlations")
        theirs = [known.find(tasks=[a, b]) or known.find(tasks=[b, a]) for a, b, *_ in found]
        for name in ("spearman", "pearson"):
            columns.append(f"Published {name.title()}")
            for key in (name, f"{name}_p"):
                data[f"published_{key}"] = [row[key] if row else math.nan for row in theirs]
            for i, row in enumerate(theirs):
                shown[i].append(_with_p(row[name], row[f"{name}_p"]) if row else "–")
        note += f"\nPublished: {known.source}."
    return TextTable(columns, shown, data, note=note, right=frozenset(columns[1:]))


def _correlate(a: Floats, b: Floats) -> tuple[float, float, float, float]:
    """Spearman's ρ and p, Pearson's r and p; NaN for less than three pairs or for constant scores."""
    if a.size < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan, math.nan, math.nan, math.nan
    spearman, pearson = stats.spearmanr(a, b), stats.pearsonr(a, b)
    p = _exact_p(a, b) if a.size <= _FEW else float(spearman.pvalue)
    return float(spearman.statistic), p, float(pearson.statistic), float(pearson.pvalue)


def _exact_p(a: Floats, b: Floats) -> float:
    """The part of all orders of b whose rank correlation with a is as far from zero."""
    x, y = (stats.rankdata(values) - (values.size + 1) / 2 for values in (a, b))
    found = np.abs(np.array(list(itertools.permutations(y))) @ x)
    return float(np.mean(found >= abs(float(y @ x)) - 1e-9))


def _with_p(coefficient: float, p: float) -> str:
    return "–" if math.isnan(coefficient) else f"{number(coefficient, 2)} ({number(p, 2)})"
