"""Is training long enough: validation loss and score after every epoch (Appendix E)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from palimpsest.analysis import selection
from palimpsest.analysis.names import metric_name, size_name, size_order, task_name
from palimpsest.analysis.statistics import finished
from palimpsest.errors import PalimpsestError, SpecError
from palimpsest.figures import style
from palimpsest.specs.experiment import Incremental
from palimpsest.specs.study import Study

_MOST = 4  # pairs of panels side by side: their labels can still be read on a page
_REMEDY = (
    "give the experiment protocol: {evaluate: epoch} (or the command --set protocol.evaluate=epoch), and run it again"
)


def check_looks(study: Study, experiment: str | None = None) -> None:
    """Complain about a study whose trials, once run, would have nothing to be drawn over the epochs."""
    known = [e for e in study.experiments if isinstance(e, Incremental)]
    for e in known:
        protocol = e.protocol or study.protocol
        if (
            (e.label or e.kind) == (experiment or known[0].label or e.kind)
            and protocol.evaluate == "end"
            and not (e.converge or protocol.converge)
        ):
            raise SpecError(
                f"{study.name}: the figure epochs needs the validation set looked at after every epoch; {_REMEDY}"
            )


@style.house_style
def epochs(
    table: pd.DataFrame,
    epochs: pd.DataFrame,
    *,
    experiment: str | None = None,
    tasks: Sequence[str] | None = None,
    sizes: Sequence[str | int | float] | None = None,
) -> Figure:
    """Two panels per task and size, loss above score; in them, a line per number of layers preserved.

    Thin lines are single trials, thick ones their means. At most four pairs of panels stand side by side.

    Options: `experiment`, the label of the incremental experiment (by default the first); `tasks` and `sizes`, some of
    its own.
    """
    rows = selection.experiment(table, "incremental", label=experiment, tasks=tasks, sizes=sizes)
    selection.need_something(rows)
    keys = ["experiment", "task", "size"]
    long = epochs[selection.is_(epochs, "kind", "incremental") & finished(epochs)]
    long = long.merge(rows[keys].drop_duplicates(), on=keys).drop_duplicates([*keys, "preserved", "id", "epoch"])
    if long.empty:
        raise PalimpsestError("the finished trials of this experiment have no epochs to be drawn")
    if (long.groupby("id")["epoch"].min() > 1).any():
        raise PalimpsestError(
            "the validation set was looked at only after the last epoch: there is nothing to draw over the epochs; "
            + _REMEDY
        )
    pairs = _pairs(rows)
    preserved = sorted(int(k) for k in rows["preserved"].dropna().unique())
    colors = dict(zip(preserved, style.shades(len(preserved)), strict=True))
    figure, grid = _grid(len(pairs), _columns(len(pairs), len(selection.tasks(rows))))
    handles: dict[int, Any] = {}
    for (task, size), (above, below) in zip(pairs, grid, strict=True):
        here = long[selection.is_(long, "task", task) & selection.is_(long, "size", size)]
        metric = metric_name(selection.metric(here))
        for ax, value, name in ((above, "validation_loss", "Validation loss"), (below, "score", metric)):
            for i, k in enumerate(preserved):
                runs = here[selection.is_(here, "preserved", k)].pivot_table(index="epoch", columns="id", values=value)
                if runs.empty:
                    continue
                x = runs.index.to_numpy(dtype=float)
                ax.plot(x, runs.to_numpy(dtype=np.float64), color=colors[k], linewidth=0.6, alpha=0.6, zorder=2)
                (handles[k],) = ax.plot(
                    x, runs.mean(axis=1).to_numpy(dtype=np.float64),
                    color=colors[k], linewidth=2, marker=style.MARKERS[i % len(style.MARKERS)], zorder=3,
                )  # fmt: skip
            ax.set_ylabel(style.literal(name))
            style.integer_axis(ax, 1, int(long["epoch"].max()))
        above.set_title(f"{style.literal(task_name(task))}, {size}")
        above.tick_params(labelbottom=False)
        below.set_xlabel("Epoch")
    figure.align_ylabels()
    order = sorted(handles)
    style.legend(figure, [handles[k] for k in order], [str(k) for k in order], title="Layers preserved (k)")
    runs_per_line = long.groupby([*keys, "preserved"])["id"].nunique()
    low, high = int(runs_per_line.min()), int(runs_per_line.max())
    count = f"n = {low}" if low == high else f"n = {low} to {high}"
    what = "" if len({size for _, size in pairs}) > 1 else size_name(pairs[0][1])
    style.footnote(
        figure, what, f"thin lines: single trials; thick lines: their mean ({count})", selection.missing_note(rows)
    )
    return figure


def _pairs(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Tasks and sizes: the sizes of a task beside each other while all fit into one row, otherwise a row per size."""
    found = [(t, s) for t in selection.tasks(rows) for s in selection.sizes(rows[rows["task"] == t])]
    return found if len(found) <= _MOST else sorted(found, key=lambda pair: size_order(pair[1]))


def _columns(count: int, tasks: int) -> int:
    """How many pairs stand in a row: all tasks of as many sizes as fit, or rows of equal length if that can be."""
    if count <= _MOST:
        return count
    return _MOST // tasks * tasks if 1 < tasks <= _MOST else -(-count // -(-count // _MOST))


def _grid(count: int, columns: int) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """A figure with `count` pairs of panels, one above the other."""
    rows = -(-count // columns)
    figure = Figure(
        figsize=(max(2.3 * columns, 3.6), 4.0 * rows + 0.8), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06)
    )
    grid = figure.add_gridspec(2 * rows, columns)
    places = [(2 * (i // columns), i % columns) for i in range(count)]
    return figure, [(figure.add_subplot(grid[r, c]), figure.add_subplot(grid[r + 1, c])) for r, c in places]
