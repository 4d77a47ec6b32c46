"""What must hold after any fault, and how faults are made."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
from functools import cache
from pathlib import Path
from typing import Any

from palimpsest.store import open_store


def results(where: Path | str) -> dict[str, tuple[Any, ...]]:
    """What a store holds, but for the circumstances; a damaged record makes this fail."""
    store = open_store(where)
    found = {r.id: (r.outcome.status, r.outcome.metrics, r.outcome.epochs) for r in store.records()}
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


class FewImports:
    """Stands in for `multiprocessing` in the local executor: the same processes, but quickly started."""

    connection = multiprocessing.connection

    @staticmethod
    def get_context(_: str) -> Any:
        return quick_context()
