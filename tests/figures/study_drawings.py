"""Drawings of a whole study on made-up results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from palimpsest.analysis.table import cka_table, curves_table, drift_table
from palimpsest.figures.registry import figure_of, table_of
from palimpsest.specs.study import Drawing
from palimpsest.store import Record


def drawn(tables: Any, figure_kind: str, **options: Any) -> Any:
    material = {
        "drift": lambda: drift_table(tables.cells, tables.store),
        "cka": lambda: cka_table(tables.cells, tables.store),
        "curves": lambda: curves_table(tables.cells, tables.store),
    }
    figure = figure_of(tables.table, Drawing(kind=figure_kind, options=options), **material)
    figure.canvas.draw()
    return figure


def tabled(tables: Any, kind: str, **options: Any) -> Any:
    return table_of(tables.table, Drawing(kind=kind, options=options))


def set_scores(tables: Any, score: Any) -> None:
    """Give every trial the score that a function of its coordinates says."""
    for cell in tables.cells:
        held = tables.store.held[cell.trial.identity]
        metric = held.outcome.metric
        outcome = replace(held.outcome, metrics={metric: float(score(cell.at))}, curve=((1, 0.7), (2, 0.5), (3, 0.4)))
        tables.store.held[cell.trial.identity] = Record(cell.trial, outcome, held.provenance)


def line(figure: Any, panel: int = 0, number: int = 0) -> Any:
    """A line with error bars, or a plain one where there are none."""
    ax = figure.axes[panel]
    return ax.containers[number][0] if ax.containers else ax.lines[number]
