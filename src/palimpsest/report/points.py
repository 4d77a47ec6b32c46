"""The points of a study's figures: the trials at each place of the grid, their means and intervals.

Everything here is plain data in the form in which the page's scripts read it. A point is recomputed only when one of
its trials has changed, so that a page can follow a running study of many thousand trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from palimpsest.analysis.names import mode_name
from palimpsest.analysis.selection import POINT
from palimpsest.analysis.statistics import bootstrap_interval, mean_interval
from palimpsest.figures.tables import point_name
from palimpsest.report.gathering import Gathered
from palimpsest.specs.expansion import Cell
from palimpsest.store import Record

LOSS = "validation_loss"

# Along which coordinate each kind of experiment walks; other kinds have a place for each name.
_AXES = {"incremental": "preserved", "probing": "layer", "localized": "first", "permutation": "permutation"}
_NOT_A_PLACE = frozenset({"study", "trial", "part"})


@dataclass(eq=False)
class Point:
    """One place of the grid, and the trials that belong to it."""

    at: dict[str, Any]
    trials: dict[str, int] = field(default_factory=dict)  # identity → index, in the order of the grid


@dataclass(frozen=True, eq=False)
class Points:
    """All points of a study, with an index from trials to the points that they stand at."""

    points: list[Point]
    by_trial: dict[str, list[int]]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> Points:
        """Group cells into points. Parts of an experiment stay apart where they have different trials at one place."""
        apart = _ambiguous(cells)
        points: dict[tuple[Any, ...], Point] = {}
        by_trial: dict[str, list[int]] = {}
        numbers: dict[tuple[Any, ...], int] = {}
        for cell in cells:
            key = _place(cell.at)
            series = ""
            if cell.at["experiment"] in apart:
                key += (("part", cell.at["part"]),)
                series = f"part {cell.at['part'] + 1}"
            if key not in points:
                points[key] = Point({**cell.at, "series": series})
                numbers[key] = len(numbers)
            id = cell.trial.identity
            if id not in points[key].trials:
                points[key].trials[id] = cell.at["trial"]
                by_trial.setdefault(id, []).append(numbers[key])
        return cls(list(points.values()), by_trial)

    def touched(self, ids: Iterable[str]) -> list[int]:
        """The numbers of the points that these trials stand at."""
        return sorted({number for id in ids for number in self.by_trial.get(id, ())})


def _place(at: dict[str, Any]) -> tuple[Any, ...]:
    return tuple((name, value) for name, value in at.items() if name not in _NOT_A_PLACE)


def _ambiguous(cells: Sequence[Cell]) -> set[str]:
    """The experiments that have different trials of the same index at the same place."""
    seen: dict[tuple[Any, ...], str] = {}
    found = set()
    for cell in cells:
        key = (*_place(cell.at), cell.at["trial"])
        if seen.setdefault(key, cell.trial.identity) != cell.trial.identity:
            found.add(cell.at["experiment"])
    return found


def name_of(at: dict[str, Any]) -> str:
    """A point in words."""
    return point_name(dict.fromkeys(POINT) | at)


def where(at: dict[str, Any], blocks: bool = True) -> dict[str, Any]:
    """What of a point never changes: its coordinates, its place on the axis and its name.

    `blocks` says whether the size of localized blocks tells lines apart.
    """
    kind = at["kind"]
    x = at.get(_AXES.get(kind, ""))
    name = name_of(at)
    series = at["series"]
    if kind == "localized":
        size = f"blocks of {at['block_size']}" if blocks else ""
        series = ", ".join(s for s in (mode_name(at["mode"]), size, series) if s)
    found = {"e": at["experiment"], "k": kind, "t": at["task"], "s": at["size"], "p": at["protocol"], "l": series}
    found |= {"x": name if x is None else x, "name": name}
    if kind == "heads":
        found |= {"layer": at["layer"], "head": at["head"]}
    if kind == "localized":
        found["block"] = at["block_size"]
    return found


def results(point: Point, gathered: Gathered) -> dict[str, Any]:
    """What of a point changes while a study runs: its trials, and per metric n, mean and both intervals."""
    records = {record.id: record for record in gathered.records(point.trials)}
    states = "".join(_state(records.get(id)) for id in point.trials)
    done = {id: r for id, r in records.items() if r.outcome.status == "finished"}
    values = {id: _values(record) for id, record in done.items()}
    names = dict.fromkeys(name for found in values.values() for name in found)
    columns = {name: [_rounded(values.get(id, {}).get(name)) for id in point.trials] for name in names}
    return {
        "n": list(point.trials.values()),
        "id": list(point.trials),
        "st": states,
        "sec": [_seconds(records.get(id)) for id in point.trials],
        "v": columns,
        "stat": {name: _statistics([v[name] for v in values.values() if name in v]) for name in names},
        "ep": _epochs(list(done.values())),
    }


def _state(record: Record | None) -> str:
    return "m" if record is None else "d" if record.outcome.status == "finished" else "f"


def _values(record: Record) -> dict[str, float]:
    outcome = record.outcome
    loss = {LOSS: outcome.epochs[-1].validation_loss} if outcome.epochs else {}
    return {name: value for name, value in {**outcome.metrics, **loss}.items() if math.isfinite(value)}


def _seconds(record: Record | None) -> float | None:
    seconds = record.provenance.get("seconds") if record is not None else None
    return _rounded(seconds, 1) if isinstance(seconds, int | float) else None


def _statistics(values: list[float]) -> list[float | None]:
    t, bootstrap = mean_interval(values), bootstrap_interval(values)
    return [t.n, *(_rounded(v) for v in (t.mean, t.low, t.high, bootstrap.low, bootstrap.high))]


def _epochs(records: list[Record]) -> list[list[float | None]]:
    """The means per epoch over the trials that reached it: training loss, validation loss, score.

    Trials whose validation set was looked at only in the end have nothing to show here.
    """
    records = [r for r in records if r.outcome.epochs and r.outcome.epochs[0].epoch == 1]
    longest = max((len(r.outcome.epochs) for r in records), default=0)
    rows = []
    for number in range(longest):
        reached = [(r.outcome.epochs[number], r.outcome.metric) for r in records if len(r.outcome.epochs) > number]
        columns = [
            [e.train_loss for e, _ in reached],
            [e.validation_loss for e, _ in reached],
            [e.metrics.get(metric, math.nan) for e, metric in reached],
        ]
        rows.append([_rounded(sum(column) / len(column), 4) for column in columns])
    return rows


def _rounded(value: float | None, digits: int = 5) -> float | None:
    return round(float(value), digits) if value is not None and math.isfinite(value) else None


def failures(points: Points, gathered: Gathered) -> list[dict[str, Any]]:
    """The trials that failed, with where they stand and why."""
    return [
        _stands(points, record) | {"reason": _shortened(record.outcome.reason)}
        for record in sorted(gathered.failed, key=lambda record: points.by_trial.get(record.id, [-1]))
        if record.id in points.by_trial
    ]


def newest(points: Points, gathered: Gathered) -> list[dict[str, Any]]:
    """The trials that ended last, newest first."""
    found = []
    for record in gathered.recent:
        if record.id in points.by_trial:
            outcome = record.outcome
            score = outcome.metrics.get(outcome.metric)
            found.append(
                _stands(points, record) | {"status": outcome.status, "metric": outcome.metric, "score": _rounded(score)}
            )
    return found


def _stands(points: Points, record: Record) -> dict[str, Any]:
    point = points.points[points.by_trial[record.id][0]]
    at = point.at
    return {"id": record.id, "e": at["experiment"], "t": at["task"], "s": at["size"], "name": name_of(at),
            "trial": point.trials[record.id]}  # fmt: skip


def _shortened(reason: str) -> str:
    return reason if len(reason) <= 400 else reason[:399] + "…"
