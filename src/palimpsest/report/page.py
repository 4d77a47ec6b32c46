"""What the page shows of a study, as plain data for its scripts."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pandas as pd

from palimpsest import __version__
from palimpsest.analysis import selection
from palimpsest.analysis.claims import CLAIMS as TEXTS
from palimpsest.analysis.claims import Finding, overall
from palimpsest.analysis.names import metric_name, mode_name, size_name, size_order, task_name
from palimpsest.analysis.table import epochs_table, table
from palimpsest.analysis.verdicts import judge
from palimpsest.errors import PalimpsestError
from palimpsest.execution.facts import dataset_rows
from palimpsest.execution.plan import Plan
from palimpsest.figures.registry import table_of
from palimpsest.figures.schematic import layers_after
from palimpsest.figures.text_table import TextTable
from palimpsest.report.gathering import Gathered
from palimpsest.report.points import LOSS, Points, failures, name_of, newest, results, where
from palimpsest.report.reproduce import study_yaml
from palimpsest.specs.expansion import Cell
from palimpsest.specs.study import Drawing, Study
from palimpsest.store import Store

CLAIMS = frozenset({"claims", "claims-by-protocol"})
"""The kinds of tables that are about claims."""

_CONDITIONS = 16  # rows of the schematic, at most, per experiment


@dataclass(frozen=True, eq=False)
class StudyPage:
    """One study of a page."""

    study: Study
    cells: list[Cell]
    gathered: Gathered
    plan: Plan
    _known: dict[int, dict[str, Any]] = field(default_factory=dict)  # the points' results, as far as computed

    @cached_property
    def points(self) -> Points:
        return Points.of(self.cells)

    def payload(self, judged: bool = True) -> dict[str, Any]:
        """Everything, as it stands now. `judged` says whether claims are tested too, if the study asks for it.

        That reads all predictions: a page that follows a run does without.
        """
        first = {number: cell for cell in reversed(self.cells) for number in self.points.by_trial[cell.trial.identity]}
        frame = table(
            [first[number] for number in sorted(first)], None
        )  # a cell of each point: what there is to choose
        records = list(self.gathered.records(cell.trial.identity for cell in self.cells))
        metrics: dict[str, str] = {}  # task → its own metric
        names: dict[str, None] = {}
        for record in records:
            if record.outcome.metric:
                metrics.setdefault(record.trial.task, record.outcome.metric)
            names |= dict.fromkeys(record.outcome.metrics)
        sizes = sorted(selection.unique(frame["size"]), key=size_order)
        shown = [*((name, metric_name(name)) for name in names), (LOSS, "Validation loss")]
        depth = self.plan.depths.get(self.study.encoder) or selection.depth(frame)
        blocks = len({point.at.get("block_size") for point in self.points.points} - {None}) > 1
        tables = self._tables({d.kind for d in self.study.tables if d.kind not in CLAIMS or judged})
        own = {at["task"]: metrics.get(trial_task) for at, trial_task in self._tasks()}
        return {
            "name": self.study.name,
            "title": self.study.title or self.study.name,
            "description": self.study.description,
            "encoder": self.study.encoder,
            "tasks": [{"name": t, "label": task_name(t), "metric": own.get(t)} for t in selection.tasks(frame)],
            "sizes": [{"name": s, "label": size_name(s)} for s in sizes],
            "protocols": self._protocols(),
            "experiments": selection.unique(frame["experiment"]),
            "metrics": [{"name": name, "label": label} for name, label in shown],
            "depth": depth,
            "drawn": bool(self.study.figures),
            "points": [where(p.at, blocks) | self._results(i) for i, p in enumerate(self.points.points)],
            "failures": failures(self.points, self.gathered),
            "newest": newest(self.points, self.gathered),
            "tables": [found for kind, found in tables if kind not in CLAIMS],
            "claims": {
                "verdicts": _verdicts(self._findings) if judged and CLAIMS & {kind for kind, _ in tables} else [],
                "tables": [found for kind, found in tables if kind in CLAIMS],
            },
            "schematic": _schematic(self.cells, depth),
            "provenance": _provenance(records),
            "yaml": study_yaml(self.study),
        }  # fmt: skip

    def changes(self, ids: set[str]) -> dict[str, Any] | None:
        """What these trials change on the page; None when they are not of this study."""
        touched = self.points.touched(ids)
        if not touched:
            return None
        return {
            "study": self.study.name,
            "points": [[number, self._results(number)] for number in touched],
            "metrics": {
                self._task_of(id): self.gathered.get(id).outcome.metric for id in ids if id in self.points.by_trial
            },
            "failures": failures(self.points, self.gathered),
            "newest": newest(self.points, self.gathered),
        }

    def forget(self, ids: set[str]) -> None:
        """These trials have changed: their points are computed anew when they are next asked for."""
        for number in self.points.touched(ids):
            self._known.pop(number, None)

    def _results(self, number: int) -> dict[str, Any]:
        if number not in self._known:
            self._known[number] = results(self.points.points[number], self.gathered)
        return self._known[number]

    def _task_of(self, id: str) -> str:
        return str(self.points.points[self.points.by_trial[id][0]].at["task"])

    def _tasks(self) -> list[tuple[dict[str, Any], str]]:
        return list({cell.at["task"]: (cell.at, cell.trial.task) for cell in self.cells}.values())

    def _protocols(self) -> list[dict[str, str]]:
        found = {cell.at["protocol"]: cell.trial.protocol.summary for cell in self.cells}
        return [{"name": name, "summary": summary} for name, summary in found.items()]

    def _tables(self, kinds: set[str]) -> list[tuple[str, dict[str, Any]]]:
        """The study's tables of these kinds; the summary is left out, because the page makes it from its points."""
        material: dict[str, Callable[[], Any]] = {
            "epochs": lambda: epochs_table(self.cells, self.gathered),
            "datasets": lambda: dataset_rows(self.study, self.plan.resources),
            "claims": lambda: self._findings,
        }
        found: list[tuple[str, dict[str, Any]]] = []
        frame = table(self.cells, self.gathered) if kinds - {"summary"} else pd.DataFrame()
        for drawing in self.study.tables:
            if drawing.kind == "summary" or drawing.kind not in kinds:
                continue
            title = {"title": drawing.title or drawing.kind.replace("-", " ").capitalize()}
            try:
                found.append((drawing.kind, title | _shown(table_of(frame, drawing, **material))))
            except PalimpsestError as error:  # nothing finished yet, most likely: the page says what is in the way
                found.append((drawing.kind, title | {"columns": [], "rows": [], "right": [], "note": str(error)}))
        return found

    @cached_property
    def _findings(self) -> list[Finding]:
        return judge(self.cells, self.gathered.source, self.plan.resources)


def study_pages(plan: Plan, gathered: Gathered) -> list[StudyPage]:
    """The studies of a plan, each with its cells."""
    return [
        StudyPage(study, [c for c in plan.cells if c.at["study"] == study.name], gathered, plan)
        for study in plan.studies
    ]


def gather(plan: Plan, store: Store) -> Gathered:
    """What the store holds of a plan's trials."""
    gathered = Gathered(store, plan.trials)
    gathered.refresh()
    return gathered


def payload(
    pages: Sequence[StudyPage], store: str, command: str, judged: bool = True, claims: bool = False
) -> dict[str, Any]:
    """The whole page. With `claims`, they are tested on the trials of all studies together, and shown with each."""
    studies = [page.payload(judged) for page in pages]
    if claims:
        tested = _claims(pages)
        studies = [study | {"claims": tested} for study in studies]
    return {
        "version": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "store": store,
        "command": command,
        "studies": studies,
        "live": None,
    }


def _claims(pages: Sequence[StudyPage]) -> dict[str, Any]:
    """The claims on the trials of all pages, which are of one plan."""
    plan, gathered = pages[0].plan, pages[0].gathered
    findings = judge(plan.cells, gathered.source, plan.resources)
    try:
        shown = _shown(table_of(pd.DataFrame(), Drawing(kind="claims"), claims=findings))
    except PalimpsestError as error:
        shown = {"columns": [], "rows": [], "right": [], "note": str(error)}
    title = f"Every test, on the trials of all {len(pages)} studies" if len(pages) > 1 else "Every test"
    return {"verdicts": _verdicts(findings), "tables": [{"title": title, **shown}]}


def _verdicts(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Claim by claim, under the protocols under which there was anything to look at."""
    looked_at = {f.protocol for f in findings if not math.isnan(f.effect)}
    return [
        {"claim": number, "text": TEXTS[number], "protocol": protocol, "verdict": verdict}
        for (protocol, number), verdict in sorted(overall(findings).items(), key=lambda item: item[0][1])
        if protocol in looked_at
    ]


def _shown(found: TextTable) -> dict[str, Any]:
    rows = [list(row) for row in found.rows]
    return {"columns": list(found.columns), "rows": rows, "right": sorted(found.right), "note": found.note}


def _schematic(cells: Sequence[Cell], depth: int) -> list[dict[str, Any]]:
    """Per experiment its conditions, and for each layer which pretrained layer it holds and what was done to it."""
    panels: dict[tuple[Any, ...], dict[str, str]] = {}
    for cell in cells:
        at = cell.at
        if at["kind"] != "probing":
            panel = panels.setdefault((at["experiment"], at.get("mode"), at.get("block_size")), {})
            if name_of(at) not in panel:
                panel[name_of(at)] = _interventions(cell)
    found = []
    for (experiment, mode, _), conditions in panels.items():
        step = max(1, -(-len(conditions) // _CONDITIONS))
        rows = []
        for name, interventions in list(conditions.items())[::step]:
            try:
                rows.append({"name": name, "layers": layers_after(interventions, depth)})
            except PalimpsestError:
                continue  # an intervention without a picture
        title = f"{experiment}: block {mode_name(mode)}" if mode else experiment
        if rows:
            found.append({"title": title, "rows": rows, "of": len(conditions)})
    return found


def _interventions(cell: Cell) -> str:
    return json.dumps([i.canonical for i in cell.trial.interventions])


def _provenance(records: Sequence[Any]) -> dict[str, Any]:
    """On what, with which versions, when and how long."""
    kinds: Counter[tuple[str, ...]] = Counter()
    seconds: dict[tuple[str, ...], float] = {}
    encoders: dict[str, Any] = {}
    dates = []
    for record in records:
        given = record.provenance
        versions = given.get("versions") if isinstance(given.get("versions"), dict) else {}
        key = (
            str(given.get("device", "unknown")), str(given.get("precision", "")), str(given.get("engine", "")),
            ", ".join(f"{k} {v}" for k, v in {"palimpsest": given.get("palimpsest", "?"), **versions}.items()),
        )  # fmt: skip
        kinds[key] += 1
        took = given.get("seconds")
        seconds[key] = seconds.get(key, 0.0) + (took if isinstance(took, int | float) else 0)
        trial = record.trial
        name = trial.encoder + (f" ({trial.weights[:12]})" if trial.weights else "")
        encoders.setdefault(name, given.get("parameters"))
        if given.get("ended"):
            dates.append(str(given["ended"]))
    return {
        "runs": [
            dict(zip(("device", "precision", "engine", "versions"), key, strict=True))
            | {"trials": count, "seconds": round(seconds[key])}
            for key, count in kinds.most_common()
        ],
        "seconds": round(sum(seconds.values())),
        "first": min(dates, default=None),
        "last": max(dates, default=None),
        "encoders": [{"name": name, "parameters": parameters} for name, parameters in encoders.items()],
    }  # fmt: skip
