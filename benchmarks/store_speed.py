"""How fast a store of many records is listed, read and written: ``python benchmarks/store_speed.py [N]``."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from palimpsest.specs.intervention import Reinitialize
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.store import Record, open_store
from palimpsest.training.outcome import Epoch, Outcome
from palimpsest.training.predictions import pack


def record(n: int) -> Record:
    """As large as real ones are: 872 predictions, a curve of 200 points, three epochs."""
    noise = np.random.default_rng(n)
    return Record(
        Trial(
            encoder="bert-base-uncased", task="sst2", size=500, seeds=Seeds.of(n),
            interventions=(Reinitialize(layers=tuple(range(1 + n % 12, 13))),),
        ),
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
    )  # fmt: skip


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
            r = record(n)
            path = Path(store.place(r.id))
            path.parent.mkdir(exist_ok=True)
            path.write_text(r.to_json())
        for what, action in {"ids": store.ids, "statuses": store.statuses}.items():
            start = time.perf_counter()
            found = len(action())
            print(f"{what:8s} {found:6d} records: {time.perf_counter() - start:7.2f} s")


if __name__ == "__main__":
    main()
