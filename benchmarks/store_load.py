"""A store under load: many records written by several processes at once, then read and checked.

    python benchmarks/store_load.py --records 100000 --processes 8 --out result.json

Says how long writing, listing and reading took, and fails if a record is missing or damaged. Every tenth record is
written by two processes at once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

from circumstances import circumstances, write

from palimpsest.specs.intervention import Reinitialize
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.store import Record, open_store
from palimpsest.training.outcome import Epoch, Outcome

EPOCHS = tuple(Epoch(n, 0.7 / n, 0.8 / n, {"accuracy": 0.5 + n / 20}) for n in (1, 2, 3))
CURVE = tuple((step, 0.7 - step / 1000) for step in range(1, 200, 2))


def record(number: int) -> Record:
    trial = Trial(
        encoder="pocket", task="sst2", size=500, interventions=(Reinitialize(layers=(1 + number % 12,)),),
        seeds=Seeds.of(number),
    )  # fmt: skip
    outcome = Outcome("finished", metric="accuracy", metrics={"accuracy": 0.65}, epochs=EPOCHS, curve=CURVE, steps=189)
    return Record(trial, outcome, {"engine": "stacked", "seconds": 1.5})


def put(where: str, numbers: range) -> None:
    store = open_store(where, create=True)
    for number in numbers:
        store.put(record(number))


def load(where: str, records: int, processes: int) -> dict[str, float]:
    """Seconds for each part of the work."""
    context = multiprocessing.get_context("spawn")
    parts = [range(n, records, processes) for n in range(processes)]
    parts += [range(0, records, 10)]
    begin = time.monotonic()
    workers = [context.Process(target=put, args=(where, part)) for part in parts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(worker.exitcode == 0 for worker in workers)
    written = time.monotonic()
    store = open_store(where)
    ids = store.ids()
    listed = time.monotonic()
    finished = store.finished_ids()
    read = time.monotonic()
    assert len(ids) == records
    assert finished == ids
    assert store.problems == []
    return {"write": written - begin, "list": listed - written, "read": read - listed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--store", help="a new directory or URL; by default a temporary directory")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    report = {
        "what": "records written to one store by several processes at once, every tenth by two of them",
        "records": args.records,
        "processes": args.processes + 1,
        "bytes per record": len(record(0).to_json()) + 1,
        **circumstances("pydantic"),
    }
    with tempfile.TemporaryDirectory() as folder:
        times = load(args.store or f"{folder}/store", args.records, args.processes)
    for what, seconds in times.items():
        print(f"{what:6} {seconds:8.1f} s   {args.records / seconds:10,.0f} records/s")
    write(report | {f"{what} s": round(seconds, 1) for what, seconds in times.items()} | {"damaged or missing": 0},
          args.out)  # fmt: skip


if __name__ == "__main__":
    main()
