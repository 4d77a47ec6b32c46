"""This machine: the GPU in this process, or as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import traceback
from collections import deque
from collections.abc import Sequence
from typing import Any

from palimpsest.errors import PalimpsestError, TrainingError
from palimpsest.execution.packing import Job
from palimpsest.execution.plan import Resources
from palimpsest.execution.worker import Emit, Engine, Event, execute
from palimpsest.store import Store, open_store

_ATTEMPTS = 2  # a job whose process died is tried again, once, in halves


def run_here(jobs: Sequence[Job], resources: Resources, store: Store, device: str, engine: Engine, emit: Emit) -> None:
    """One job after the other, in this process."""
    for job in jobs:
        execute(job, resources, store, device, engine, emit)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_processes(
    jobs: Sequence[Job], resources: Resources, place: str, engine: Engine, emit: Emit, processes: int
) -> None:
    """Jobs on several processes, each with its share of the cores. Workers write to the store themselves."""
    context = multiprocessing.get_context("spawn")
    threads = max(1, cores() // processes)
    waiting = deque((job, 1) for job in jobs)
    workers: dict[Any, _Worker] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < processes:
                job, attempt = waiting.popleft()
                worker = _Worker(context, resources, place, engine, threads)
                workers[worker.pipe] = worker
                worker.give(job, attempt)
            for pipe in multiprocessing.connection.wait(list(workers), timeout=1.0):
                worker = workers[pipe]
                try:
                    message = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    del workers[pipe]
                    _died(worker, waiting, emit)
                    continue
                if isinstance(message, Event):
                    worker.note(message)
                    emit(message)
                elif isinstance(message, BaseException):
                    raise message
                elif waiting:
                    worker.give(*waiting.popleft())
                else:
                    worker.stop()
                    del workers[pipe]
    finally:
        for worker in workers.values():
            worker.kill()


def _died(worker: _Worker, waiting: deque[tuple[Job, int]], emit: Emit) -> None:
    """A process that was killed loses only the trials that it was at: they are run again."""
    worker.process.join()
    if worker.job is None:
        return
    left = tuple(t for t in worker.job.trials if t.identity not in worker.ended)
    how = f"exit code {worker.process.exitcode}"
    if not left:
        return
    if worker.attempt >= _ATTEMPTS:
        raise TrainingError(
            f"a worker process died twice ({how}) on the same {len(left)} trials; is there enough memory? "
            "Finished trials are in the store; the same command goes on from there."
        )
    emit(Event("note", text=f"a worker process died ({how}); its {len(left)} unfinished trials are run again"))
    half = -(-len(left) // 2)
    for part in (left[:half], left[half:]):
        if part:
            waiting.append((Job(part, worker.job.steps * len(part) // len(worker.job.trials)), worker.attempt + 1))


class _Worker:
    """A process, and the job it is at."""

    def __init__(self, context: Any, resources: Resources, place: str, engine: Engine, threads: int) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, resources, place, engine, threads), daemon=True, name="palimpsest-worker"
        )
        self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.attempt = 1
        self.ended: set[str] = set()

    def give(self, job: Job, attempt: int) -> None:
        self.job, self.attempt, self.ended = job, attempt, set()
        self.pipe.send(job)

    def note(self, event: Event) -> None:
        if event.trial is not None:
            self.ended.add(event.trial.identity)

    def stop(self) -> None:
        self.pipe.send(None)
        self.process.join(timeout=10)
        self.kill()

    def kill(self) -> None:
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _serve(pipe: Any, resources: Resources, place: str, engine: Engine, threads: int) -> None:
    """The life of a worker process: take a job, report events, ask for the next."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    torch.set_num_threads(threads)
    try:
        store = open_store(place)
        while (job := pipe.recv()) is not None:
            execute(job, resources, store, "cpu", engine, pipe.send)
            pipe.send("done")
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the driver is gone; what was finished is in the store
    except PalimpsestError as error:
        pipe.send(error)
    except Exception as error:
        pipe.send(TrainingError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
