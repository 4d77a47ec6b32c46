"""The terminal's view of a running study, for people on a server."""

from __future__ import annotations

import time
from collections import Counter

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from palimpsest.analysis.names import task_name
from palimpsest.execution.plan import Plan
from palimpsest.report.page import gather, study_pages
from palimpsest.report.points import failures, newest
from palimpsest.store import Store
from palimpsest.store.running import drivers, in_words

EVERY = 2.0  # seconds


def watch(plan: Plan, store: Store, console: Console, rounds: int | None = None) -> None:
    """Show a table that keeps itself up to date until everything is finished, or for so many rounds."""
    view = _View(plan, store)
    with Live(view.show(), console=console, auto_refresh=False) as live:
        while not view.complete and rounds != 0:
            if rounds is not None:
                rounds -= 1
            begin = time.process_time()
            view.refresh()
            live.update(view.show(), refresh=True)
            if rounds != 0:
                time.sleep(max(EVERY, 100 * (time.process_time() - begin)))


class _View:
    def __init__(self, plan: Plan, store: Store) -> None:
        self._store = store
        self._gathered = gather(plan, store)
        self._pages = study_pages(plan, self._gathered)
        self._all = len(plan.trials)

    def refresh(self) -> None:
        self._gathered.refresh()

    @property
    def complete(self) -> bool:
        """Whether every trial has ended, one way or the other, and no driver is at work."""
        return len(self._gathered.ids()) == self._all and not drivers(self._store)

    def show(self) -> RenderableType:
        notes = drivers(self._store)
        running = {str(trial["id"]) for note in notes for trial in note.get("running", [])}
        table = Table(box=None, pad_edge=False)
        for name in ("experiment", "task", "size", "finished", "running", "failed", "missing", "scores"):
            table.add_column(name, justify="right" if name in ("finished", "running", "failed", "missing") else "left")
        for page in self._pages:
            groups: dict[tuple[str, str, str], set[str]] = {}
            for point in page.points.points:
                at = point.at
                groups.setdefault((at["experiment"], at["task"], at["size"]), set()).update(point.trials)
            for (experiment, task, size), ids in groups.items():
                table.add_row(Text(experiment), Text(task_name(task)), Text(size), *self._row(ids, running))
        return Group(table, Text(""), *(Text(line) for line in self._lines(notes)))

    def _row(self, ids: set[str], running: set[str]) -> list[str]:
        held = {record.id: record for record in self._gathered.records(ids)}
        counts = Counter(record.outcome.status for record in held.values())
        scores = [r.outcome.metrics[r.outcome.metric] for r in held.values() if r.outcome.metric in r.outcome.metrics]
        now = len((ids & running) - held.keys())
        return [str(counts["finished"]), str(now), str(counts["failed"]), str(len(ids) - len(held) - now),
                f"{min(scores):.3f} – {max(scores):.3f}" if scores else ""]  # fmt: skip

    def _lines(self, notes: list[dict[str, object]]) -> list[str]:
        lines = [in_words(note) for note in notes]
        if not notes:
            lines.append("no driver is at work")
        for page in self._pages:
            for end in newest(page.points, self._gathered)[:5]:
                score = "failed" if end["score"] is None else f"{end['score']:.3f}"
                lines.append(f"  {score}  {task_name(end['t'])}, {end['s']}, {end['name']}, trial {end['trial']}")
            for fail in failures(page.points, self._gathered)[-3:]:
                lines.append(f"  failed: {task_name(fail['t'])}, {fail['s']}, {fail['name']}: {fail['reason']}")
        return lines
