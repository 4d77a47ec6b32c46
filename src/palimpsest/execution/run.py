"""Run what is missing of a plan, where it should run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from palimpsest.execution.heartbeat import Heartbeat
from palimpsest.execution.packing import pack
from palimpsest.execution.plan import Plan
from palimpsest.store import Store

if TYPE_CHECKING:
    from palimpsest.execution.worker import Engine, Event

HOST_PACK = 8  # trials stacked on a CPU: more gain nothing, and a finished pack is soon safe
DEVICE_PACK = 64  # at most; memory decides


def run_plan(
    plan: Plan,
    store: Store,
    place: str,
    emit: Callable[[Event], None],
    device: str = "auto",
    engine: Engine = "stacked",
    processes: int | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
) -> None:
    """Run the missing trials (the first `limit` of them). Returns when all have ended; errors leave the rest undone."""
    from palimpsest.execution.local import cores, run_here, run_processes
    from palimpsest.execution.worker import pick_device

    trials = plan.missing(retry_failed)[:limit]
    if not trials:
        return
    chosen = pick_device(device)
    with Heartbeat(store, plan, trials) as beat:
        emit = beat.watch(emit)
        if chosen == "cuda":
            run_here(pack(plan, trials, DEVICE_PACK), plan.resources, store, chosen, engine, emit)
            return
        workers = processes or cores()
        jobs = pack(plan, trials, HOST_PACK, workers)
        if workers == 1 or len(jobs) == 1:
            run_here(jobs, plan.resources, store, chosen, engine, emit)
        else:
            run_processes(jobs, plan.resources, place, engine, emit, min(workers, len(jobs)))
