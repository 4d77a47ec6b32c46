"""Run what is missing of a plan, where it should run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from palimpsest.errors import SpecError, TrainingError, UnknownName
from palimpsest.execution.estimate import expected_device, paces
from palimpsest.execution.heartbeat import Heartbeat
from palimpsest.execution.packing import pack, reordered
from palimpsest.execution.plan import Plan, Shard
from palimpsest.execution.time_limit import TimeLimit
from palimpsest.execution.waves import release, waves
from palimpsest.store import Store
from palimpsest.store.running import check_writable

if TYPE_CHECKING:
    from palimpsest.execution.executor import Executor, Work
    from palimpsest.execution.worker import Engine, Event


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
    shard: Shard | None = None,
    executor: str = "local",
    address: str | None = None,
    worker_cores: int = 1,
    pack_timeout: float | None = None,
    first: int | None = None,
    seconds: float | None = None,
) -> None:
    """Run the missing trials (of a shard; the `first` so many of every point; no more than `limit` in all).

    Returns when all have ended, or when there is no time for more of them within so many `seconds`; errors leave the
    rest undone. `address` and `worker_cores` are for Ray.
    """
    from palimpsest.execution.executor import Work
    from palimpsest.execution.worker import Event

    release(plan, store)
    trials = plan.missing(retry_failed, shard, first)[:limit]
    if not trials:
        return
    time_limit = None
    if seconds is not None:
        if executor != "local":
            raise SpecError("a --time-limit is of use with --executor local only")
        known = paces(plan, store, expected_device(device))
        # The time in records of a shared GPU is divided by those who shared it; now they wait for each other again.
        sharing = processes or 1 if expected_device(device) == "cuda" else 1
        time_limit = TimeLimit(seconds, {task: sharing * pace for task, pace in known.items()})
        if not known:
            emit(Event("note", text="nothing is known yet of how long packs take: the first are begun in any case"))
    check_writable(store)
    work = Work(plan.resources, store, place, device, engine, pack_timeout, time_limit)
    with Heartbeat(store, plan, trials) as beat:
        crowded = beat.crowded()
        for wave in waves(plan, trials, store):
            chosen = _executor(executor, work, processes, address, worker_cores)
            jobs = pack(plan, wave.trials, chosen.largest, chosen.workers)
            if crowded:  # in the order of the others, one would always be at what they are at
                jobs = reordered(jobs)
            chosen.run([replace(job, keep=wave.keep, again=wave.again) for job in jobs], beat.watch(emit))
            if time_limit is not None and time_limit.skipped:  # the next wave may start from what was left out
                if time_limit.shortest is not None and not time_limit.begun:
                    raise TrainingError(
                        f"no pack would end in time: the shortest takes about {time_limit.shortest / 60:.1f} minutes. "
                        "Give a longer --time-limit, or make packs smaller with --limit"
                    )
                return


def _executor(name: str, work: Work, processes: int | None, address: str | None, worker_cores: int) -> Executor:
    if name == "local":
        from palimpsest.execution.local import LocalExecutor

        if address is not None:
            raise SpecError("an --address is of use with --executor ray only")
        return LocalExecutor(work, processes)
    if name == "ray":
        from palimpsest.execution.ray import RayExecutor

        if processes is not None:
            raise SpecError(
                "--processes is for --executor local; Ray decides how many workers fit (see --worker-cores)"
            )
        return RayExecutor(work, address, worker_cores)
    raise UnknownName("executor", name, ("local", "ray"))
