"""How fast a store of many records is listed, read and written: ``python benchmarks/store_speed.py [N]``."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sized
from dataclasses import replace
from pathlib import Path

import numpy as np

from palimpsest.specs.intervention import Reinitialize
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.store import Record, open_store
from palimpsest.training.outcome import Epoch, Outcome
from palimpsest.training.predictions import pack


def trial(n: int) -> Trial:
    layers = tuple(range(1 + n % 12, 13))
    return Trial(
        encoder="bert-base-uncased",
        task="sst2",
        size=500,
        seeds=Seeds.of(n),
        interventions=(Reinitialize(layers=layers),),
    )


def record(n: int) -> Record:
    """As large as real ones are: 872 predictions, a curve of 200 points, three epochs."""
    noise = np.random.default_rng(n)
    return Record(
        trial(n),
        Outcome(
            "finished",
            metric="accuracy",
            metrics={"accuracy": float(noise.random()), "f1": float(noise.random())},
            epochs=tuple(Epoch(e, float(noise.random()), 0.5, {"accuracy": float(noise.random())}) for e in (1, 2, 3)),
            curve=tuple((s, float(noise.random())) for s in range(200)),
            predictions=pack(noise.integers(0, 2, 872)),
            train_examples=500,
            steps=189,
        ),
        {"engine": "stacked", "device": "cuda", "precision": "bf16", "seconds": 1.5},
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "store", create=True)
        records = [record(n) for n in range(min(count, 2000))]
        start = time.perf_counter()
        for r in records:
            store.put(r)
        print(f"put      {len(records):6d} records: {(time.perf_counter() - start) / len(records) * 1e6:7.0f} µs each")
        for n in range(len(records), count):  # the rest without fsync: only reading is timed on all of them
            r = replace(records[n % len(records)], trial=trial(n))
            path = Path(store.place(r.id))
            path.parent.mkdir(exist_ok=True)
            path.write_text(r.to_json())
        actions: dict[str, Callable[[], Sized]] = {"ids": store.ids, "statuses": store.statuses}
        for what, action in actions.items():
            start, busy = time.perf_counter(), time.process_time()
            found = len(action())
            wall, busy = time.perf_counter() - start, time.process_time() - busy
            print(f"{what:8s} {found:6d} records: {wall:7.2f} s, of which {busy:.2f} s of processor time")


if __name__ == "__main__":
    main()
