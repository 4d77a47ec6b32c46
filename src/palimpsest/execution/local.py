"""This machine: the GPU in this process, or as many processes as there are cores.

Several processes may share a GPU: while one sets up a pack or compiles, another one's steps run.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from palimpsest.errors import PalimpsestError, TrainingError
from palimpsest.execution.executor import DEVICE_PACK, HOST_PACK, Executor, Work
from palimpsest.execution.packing import Job, next_job
from palimpsest.execution.plan import Resources
from palimpsest.execution.time_limit import TimeLimit
from palimpsest.execution.worker import Emit, Engine, Event, execute, gather, pick_device
from palimpsest.store import open_store

_PATIENCE = 3.0  # seconds that a worker has to end by itself
_ATTEMPTS = 2  # a job whose process died is tried again, once, in halves


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LocalExecutor(Executor):
    """This machine. A GPU, or a single core, is used by this process itself, unless packs have a time limit."""

    def __init__(self, work: Work, processes: int | None = None) -> None:
        self.work = work
        self.device = pick_device(work.device)
        self.workers = processes or (1 if self.device == "cuda" else cores())
        self.largest = DEVICE_PACK if self.device == "cuda" else HOST_PACK

    def run(self, jobs: Sequence[Job], emit: Emit) -> None:
        work = self.work
        processes = min(self.workers, len(jobs))
        if processes > 1 or work.pack_timeout is not None:
            _run_processes(jobs, work, self.device, emit, processes)
            return
        for job in jobs:
            if work.limit is not None and not work.limit.allows(job):
                continue
            begin = time.monotonic()
            execute(job, *gather(job, work.resources), work.store, self.device, work.engine, emit)
            if work.limit is not None:
                work.limit.ended(job, time.monotonic() - begin)


def _run_processes(jobs: Sequence[Job], work: Work, device: str, emit: Emit, processes: int) -> None:
    """Jobs on several processes, each with its share of the cores. Workers write to the store themselves."""
    context = multiprocessing.get_context("spawn")
    threads = max(1, cores() // processes)
    waiting = deque((job, 1) for job in jobs)
    workers: dict[Any, _Worker] = {}
    try:
        while waiting or workers:
            _prune(waiting, work.limit)
            while waiting and len(workers) < processes:
                worker = _Worker(context, work, device, threads, processes)
                workers[worker.pipe] = worker
                worker.give(*_next(waiting, worker, workers.values(), device))
            for pipe in multiprocessing.connection.wait(list(workers), timeout=1.0):
                worker = workers[pipe]
                try:
                    message = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    del workers[pipe]
                    worker.process.join()
                    _lost(worker, f"died (exit code {worker.process.exitcode})", waiting, emit)
                    continue
                if isinstance(message, Event):
                    worker.note(message)
                    emit(message)
                elif isinstance(message, BaseException):
                    raise message
                else:
                    if work.limit is not None:
                        work.limit.ended(*worker.did())
                    if _prune(waiting, work.limit):
                        worker.give(*_next(waiting, worker, workers.values(), device))
                    else:
                        worker.stop()
                        del workers[pipe]
            for worker in [w for w in workers.values() if w.overdue()]:
                del workers[worker.pipe]
                worker.kill()
                _lost(worker, f"was still at its pack after {work.pack_timeout:g} seconds", waiting, emit)
    finally:
        for worker in workers.values():
            worker.kill()


def _next(waiting: deque[tuple[Job, int]], worker: _Worker, workers: Iterable[_Worker], device: str) -> tuple[Job, int]:
    """The job that a worker is given: the longest, but for what speaks against it on a GPU."""
    at = [w.job for w in workers if w is not worker and w.job]
    chosen = next_job([job for job, _ in waiting], worker.job, at) if device == "cuda" else 0
    job, attempt = waiting[chosen]
    del waiting[chosen]
    return job, attempt


def _prune(waiting: deque[tuple[Job, int]], limit: TimeLimit | None) -> bool:
    """Take out what there is no time for any more; whether anything is left."""
    if limit is not None:
        allowed = [(job, attempt) for job, attempt in waiting if limit.allows(job)]
        waiting.clear()
        waiting.extend(allowed)
    return bool(waiting)


def _lost(worker: _Worker, how: str, waiting: deque[tuple[Job, int]], emit: Emit) -> None:
    """A process that is gone loses only the trials that it was at: they are run again."""
    if worker.job is None:
        return
    left = tuple(t for t in worker.job.trials if t.identity not in worker.ended)
    if not left:
        return
    if worker.attempt >= _ATTEMPTS:
        raise TrainingError(
            f"a worker process {how}, and so did the one before it on the same {len(left)} trials; is there enough "
            "memory, and is a --pack-timeout long enough? Finished trials are in the store; the same command goes on "
            "from there."
        )
    emit(Event("note", text=f"a worker process {how}; its {len(left)} unfinished trials are run again"))
    half = -(-len(left) // 2)
    for part in (left[:half], left[half:]):
        if part:
            steps = worker.job.steps * len(part) // len(worker.job.trials)
            waiting.append((replace(worker.job, trials=part, steps=steps), worker.attempt + 1))


@contextmanager
def _nameless_main() -> Iterator[None]:
    """A process that is started in here does not run the script that this one was started with.

    It would, to know the functions that are defined there, and one that calls `palimpsest.run` without asking whether
    it is ``__main__`` would start processes in turn. Workers need nothing from there.
    """
    main = vars(sys.modules["__main__"])
    kept: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.pop("__file__", None)
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(kept)


class _Worker:
    """A process, and the job it is at."""

    def __init__(self, context: Any, work: Work, device: str, threads: int, processes: int) -> None:
        self.pipe, theirs = context.Pipe()
        sharing = processes if device == "cuda" else 1
        what = (theirs, work.resources, work.place, device, work.engine, threads, sharing)
        self.process = context.Process(target=_serve, args=what, daemon=True, name="palimpsest-worker")
        with _nameless_main():
            self.process.start()
        theirs.close()
        self._time = work.pack_timeout
        self._deadline = self._begin = 0.0
        self.job: Job | None = None
        self.attempt = 1
        self.ended: set[str] = set()

    def give(self, job: Job, attempt: int) -> None:
        self.job, self.attempt, self.ended = job, attempt, set()
        self._begin = time.monotonic()
        self._deadline = self._begin + (self._time or 0.0)
        self._send(job)

    def did(self) -> tuple[Job, float]:
        """The job that has just ended, and the seconds that it took."""
        assert self.job is not None
        return self.job, time.monotonic() - self._begin

    def _send(self, job: Job | None) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has just died: reading from the pipe will tell
            self.pipe.send(job)

    def overdue(self) -> bool:
        return self._time is not None and time.monotonic() > self._deadline

    def note(self, event: Event) -> None:
        if event.trial is not None:
            self.ended.add(event.trial.identity)

    def stop(self) -> None:
        self._send(None)
        self.process.join(timeout=10)
        self.kill()

    def kill(self) -> None:
        """End the process: politely, so that it clears away what it was writing, and by force if it does not listen."""
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _serve(
    pipe: Any, resources: Resources, place: str, device: str, engine: Engine, threads: int, sharing: int
) -> None:
    """The life of a worker process: take a job, report events, ask for the next."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # unwinds, so that no temporary file is left
    torch.set_num_threads(threads)
    try:
        store = open_store(place)
        while (job := pipe.recv()) is not None:
            execute(job, *gather(job, resources), store, device, engine, pipe.send, sharing)
            pipe.send("done")
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the driver is gone; what was finished is in the store
    except PalimpsestError as error:
        pipe.send(error)
    except Exception as error:
        report = TrainingError(
            f"a worker process failed: {type(error).__name__}: {error}. This is a bug in Palimpsest; --debug shows "
            "where. Finished trials are in the store."
        )
        report.add_note(traceback.format_exc())
        pipe.send(report)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending already
