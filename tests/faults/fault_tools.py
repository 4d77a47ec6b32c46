"""What must hold after any fault, and how faults are made."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import resource
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from palimpsest.errors import StoreError
from palimpsest.store import open_store

_NEW_NAMESPACE, _PRIVATE, _REMOUNT, _READ_ONLY = 0x00020000, (1 << 18) | (1 << 14), 32, 1  # for Linux


class Loss(float):
    """Equal to another one but for rounding: after a fault, trials are packed with others than in a quiet run."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(self - other) < 2e-7  # units in the last place of fp32: 6e-8 here

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def results(where: Path | str) -> dict[str, tuple[Any, ...]]:
    """What a store holds, but for the circumstances; a damaged record makes this fail."""
    store = open_store(where)
    found = {
        r.id: (
            r.outcome.status,
            r.outcome.metrics,
            [(e.epoch, Loss(e.train_loss), Loss(e.validation_loss), e.metrics) for e in r.outcome.epochs],
        )
        for r in store.records()
    }
    assert store.problems == []
    return found


def stamps(where: Path) -> dict[str, tuple[int, int]]:
    """Each record file with its inode and time: unchanged as long as nobody writes it again."""
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in where.glob("trials/*/[0-9a-f]*.json")}


@cache
def quick_context() -> Any:
    """A context whose processes start in no time, because they are forked from one that has imported everything."""
    # Before Python 3.14 the process that is forked from does not know our sys.path.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fault_warmup"])
    return context


def drive(path: Path, where: Path, processes: int = 1) -> None:
    """A driver, as a process of its own."""
    import torch

    from palimpsest.execution import local
    from palimpsest.execution.plan import make_plan
    from palimpsest.execution.run import run_plan
    from palimpsest.studies import load

    torch.set_num_threads(1)
    local.multiprocessing = FewImports()
    store = open_store(where, create=True)
    run_plan(make_plan(load(str(path)), store), store, str(where), lambda _: None, "cpu", processes=processes)


def command_line(arguments: list[str], out: Path) -> None:
    """The command, as a process of its own that writes what it says into a file."""
    import torch

    from palimpsest import cli

    torch.set_num_threads(1)
    sys.argv = ["palimpsest", *arguments]
    with out.open("w") as stream:
        sys.stdout = stream
        cli.main()


def rival(path: Path, where: Path, gate: Any, answer: Any) -> None:
    """A driver that begins together with others; it tells when it looked which trials are left, and those it began."""
    import torch

    from palimpsest.execution import local
    from palimpsest.execution.plan import make_plan
    from palimpsest.execution.run import run_plan
    from palimpsest.studies import load

    torch.set_num_threads(1)
    begun: list[tuple[int, str]] = []
    execute = local.execute

    def noted(*args: Any) -> None:
        *rest, emit = args
        if not begun:
            gate.wait(240)
        looked = time.time_ns()

        def listen(event: Any) -> None:
            begun.extend((looked, trial.identity) for trial in event.trials)
            emit(event)

        execute(*rest, listen)

    local.execute = noted
    store = open_store(where, create=True)
    run_plan(make_plan(load(str(path)), store), store, str(where), lambda _: None, "cpu", processes=1)
    answer.send(begun)


def on_a_bad_disk(how: str, path: Path, where: Path, answer: Any) -> None:
    """Run a study until nothing can be written, mend that, run it again; tells the error and what is there twice."""
    import torch

    from palimpsest.execution.plan import make_plan
    from palimpsest.execution.run import run_plan
    from palimpsest.studies import load

    torch.set_num_threads(1)
    if how != "limit" and (obstacle := _disk(where, "64k" if how == "full" else "4m")):
        answer.send(obstacle)
        return
    unlimited, ended = resource.getrlimit(resource.RLIMIT_FSIZE), [0]

    def watch(event: Any) -> None:
        ended[0] += event.kind == "trial"
        if event.kind == "trial" and ended[0] == 5:
            if how == "limit":
                resource.setrlimit(resource.RLIMIT_FSIZE, (512, unlimited[1]))
            elif how == "read-only":
                assert not _mount(where, _REMOUNT | _READ_ONLY, "size=4m")

    for _ in range(2):
        error = ""
        store = open_store(where, create=True)
        try:
            run_plan(make_plan(load(str(path)), store), store, str(where), watch, "cpu", processes=1)
        except StoreError as raised:
            error = str(raised)
        leftovers = [p.name for p in where.rglob(".*")]
        answer.send((error, leftovers, results(where), stamps(where)))
        if how != "limit":
            assert not _mount(where, _REMOUNT, "size=4m")
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


def _disk(where: Path, size: str) -> str:
    """Some memory as a file system that only this process sees; or why that cannot be."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NAMESPACE):
        return f"no mount namespace of our own: {os.strerror(ctypes.get_errno())}"
    where.mkdir()
    return _mount(Path("/"), _PRIVATE, "") or _mount(where, 0, f"size={size}")


def _mount(where: Path, flags: int, options: str) -> str:
    kind = b"tmpfs" if options else None
    done = ctypes.CDLL(None, use_errno=True).mount(kind, str(where).encode(), kind, flags, options.encode())
    return f"cannot mount a file system: {os.strerror(ctypes.get_errno())}" if done else ""


class FewImports:
    """Stands in for `multiprocessing` in the local executor: the same processes, but quickly started."""

    connection = multiprocessing.connection

    @staticmethod
    def get_context(_: str) -> Any:
        return quick_context()
