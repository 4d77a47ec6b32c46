"""A Ray cluster: packs are Ray tasks. Scheduling, retries and the loss of nodes are Ray's business.

Palimpsest connects to a cluster that somebody has started, and never starts one: it opens no port unasked.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import pickle
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from palimpsest.encoders.loading import Encoder
from palimpsest.errors import PalimpsestError, StoreError, TrainingError
from palimpsest.execution.executor import DEVICE_PACK, HOST_PACK, Executor, Work
from palimpsest.execution.mailbox import Mailbox
from palimpsest.execution.packing import Job
from palimpsest.execution.worker import Emit, Engine, Event, execute, gather
from palimpsest.store import DirectoryStore, Record, Store, open_store
from palimpsest.training.data import Data

try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError:
    raise TrainingError("--executor ray needs Ray: pip install 'palimpsest-lm[ray]'") from None

RETRIES = 3  # times that Ray runs a pack again whose worker or node is lost
_WAIT = 0.25  # seconds between two looks into the mailbox
_PATIENCE = 3.0  # seconds that workers have to end by themselves

Letter = Event | Record


@dataclass(frozen=True)
class Errand:
    """What a worker has to know besides its job."""

    mailbox: Any
    place: str
    token: str | None  # the name of a file that is in the driver's store, if that is a directory
    device: str
    engine: Engine
    cores: int
    pack_timeout: float | None


class RayExecutor(Executor):
    """One GPU for each pack if the cluster has any (or ``--device cuda`` says that it will), else some CPU cores."""

    def __init__(self, work: Work, address: str | None = None, cores: int = 1) -> None:
        self.work, self._cores = work, cores
        if work.device not in ("auto", "cpu", "cuda"):
            raise TrainingError(f"unknown device {work.device!r}: auto, cpu or cuda")
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(address)
        there = ray.cluster_resources()
        gpus = int(there.get("GPU", 0))
        self.device = ("cuda" if gpus else "cpu") if work.device == "auto" else work.device
        self.largest = DEVICE_PACK if self.device == "cuda" else HOST_PACK
        self.workers = max(1, gpus if self.device == "cuda" else int(there.get("CPU", 1)) // cores)

    def run(self, jobs: Sequence[Job], emit: Emit) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        mailbox = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        needs = {"num_gpus": 1, "num_cpus": 1} if self.device == "cuda" else {"num_cpus": self._cores}
        task = ray.remote(_perform).options(max_retries=RETRIES, **needs)
        stock = _Stock(self.work)
        under_way: list[Any] = []

        def collect() -> None:
            for letter in map(pickle.loads, ray.get(mailbox.collect.remote())):
                if isinstance(letter, Record):
                    self.work.store.put(letter)
                else:
                    emit(letter)

        try:
            with _token(self.work.store) as token:
                errand = Errand(
                    mailbox, _absolute(self.work), token, self.device, self.work.engine, self._cores,
                    self.work.pack_timeout,
                )  # fmt: skip
                try:
                    for job in jobs:
                        under_way.append(task.remote(job, stock.of(job), errand))
                        collect()
                    while under_way:
                        done, under_way = ray.wait(under_way, timeout=_WAIT)
                        collect()
                        for each in done:
                            _check(each)
                finally:  # while the token is there: who begins without it takes the store for out of reach
                    _cancel(under_way)
        finally:
            with suppress(PalimpsestError, ray.exceptions.RayError):  # what came in last; the run's own error counts
                collect()
            ray.kill(mailbox)
            if self._ours:
                ray.shutdown()


def _connect(address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    try:
        ray.init(address or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = f"at {address}" if address else "on this machine (and RAY_ADDRESS names none)"
        reason = " ".join(str(error).split())
        raise TrainingError(
            f"there is no Ray cluster {where}: {reason}. Start one with `ray start --head`, "
            "or give the --address of one"
        ) from None


def _cancel(tasks: Sequence[Any]) -> None:
    """End tasks: politely, so that a worker clears away what it was writing, and by force if it does not listen."""
    if not tasks:
        return
    for task in tasks:
        ray.cancel(task)
    _, left = ray.wait(list(tasks), num_returns=len(tasks), timeout=_PATIENCE)
    for task in left:
        ray.cancel(task, force=True)


def _check(task: Any) -> None:
    """Raise what made a task fail, in our own words."""
    try:
        ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, PalimpsestError):
            raise error.cause from None
        raise TrainingError(f"a Ray worker failed: {error}") from error
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TrainingError(
            f"Ray gave up on a pack after {RETRIES} retries ({reason}); is there enough memory, and is a "
            "--pack-timeout long enough? Finished trials are in the store; the same command goes on from there."
        ) from error


class _Stock:
    """Encoders and tokenised data, put into Ray's object store when first needed: they travel once to each node."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._put: dict[int, tuple[object, Any]] = {}

    def of(self, job: Job) -> tuple[Any, Any]:
        encoder, data = gather(job, self._work.resources)
        return self._reference(encoder), self._reference(data)

    def _reference(self, thing: object) -> Any:
        if id(thing) not in self._put:
            self._put[id(thing)] = thing, ray.put(thing)  # the thing is kept: its id must stay its own
        return self._put[id(thing)][1]


class RelayStore(Store):
    """The store as seen from a node that cannot reach it: records go to the driver, which keeps them."""

    def __init__(self, mailbox: Any) -> None:
        super().__init__()
        self._mailbox = mailbox

    def ids(self) -> set[str]:
        return set()

    def put(self, record: Record) -> None:
        ray.get(_post(self._mailbox, record))

    def place(self, id: str) -> str:
        return f"{id} with the driver"

    def keep_weights(self, id: str, content: bytes) -> None:
        raise StoreError(
            f"a worker cannot keep the weights of {id} ({len(content) / 1e6:.0f} MB), which other trials start from: "
            "it does not reach the store. Use a directory that all machines share, or a URL"
        )

    def _read(self, id: str) -> bytes:
        raise KeyError(id)


def _post(mailbox: Any, letter: Letter) -> Any:
    """Letters are sealed: the mailbox need not know what is in them, nor import what that would take."""
    ended = letter.trial.identity if isinstance(letter, Event) and letter.kind == "trial" and letter.trial else None
    return mailbox.post.remote(pickle.dumps(letter), ended)


def _perform(job: Job, stock: tuple[Any, Any], errand: Errand) -> None:
    """The Ray task. It may be a retry: what the attempt before it has finished is left out."""
    import torch

    ended = ray.get(errand.mailbox.ended.remote([t.identity for t in job.trials]))
    left = tuple(t for t in job.trials if t.identity not in ended)
    if not left:
        return
    torch.set_num_threads(errand.cores)
    store = _reach(errand)

    def emit(event: Event) -> None:
        if event.outcome is not None:  # the record has these; whoever watches has no use for them
            event = replace(event, outcome=replace(event.outcome, predictions="", curve=(), epochs=()))
        _post(errand.mailbox, event)

    encoder: Encoder = _fetch(stock[0])
    data: Data = _fetch(stock[1])
    with _time_limit(errand.pack_timeout):
        execute(replace(job, trials=left), encoder, data, store, errand.device, errand.engine, emit)
    ray.get(errand.mailbox.ended.remote([]))  # letters arrive in order: all of them are there when the task is done


@lru_cache(maxsize=16)
def _fetch(reference: Any) -> Any:
    """Once in a worker process, not once per pack."""
    return ray.get(reference)


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Ends the process if the block takes longer, even one that is stuck outside Python; Ray takes it for lost."""
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def _token(store: Store) -> Iterator[str | None]:
    """A file by which a worker recognises the driver's store: the same path may be another directory elsewhere."""
    if not isinstance(store, DirectoryStore):
        yield None
        return
    token = store.path / f".ray-{secrets.token_hex(8)}"
    try:
        token.touch()
    except OSError:  # whoever writes a record will say what is wrong
        yield token.name
        return
    try:
        yield token.name
    finally:
        with suppress(OSError):
            token.unlink()


def _absolute(work: Work) -> str:
    return str(work.store.path.absolute()) if isinstance(work.store, DirectoryStore) else work.place


def _reach(errand: Errand) -> Store:
    if errand.token is not None and not (Path(errand.place) / errand.token).exists():
        return RelayStore(errand.mailbox)
    return open_store(errand.place)
