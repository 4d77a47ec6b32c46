"""Many tiny trials through Ray on this machine, and the memory of the driver and its workers on the way.

    python benchmarks/ray_load.py --trials 10000

Starts a Ray cluster of this machine, runs a study of trials of a few steps, and prints the memory of the driver
and of the largest worker as trials end. Neither should grow after the first few hundred.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import ray

from palimpsest.execution.plan import make_plan
from palimpsest.execution.run import run_plan
from palimpsest.execution.worker import Event
from palimpsest.store import open_store
from palimpsest.studies import load

STUDY = """
encoder: pocket
protocol: {{extends: pocket, epochs: 1, batch_size: 4}}
tasks: [mini-sentiment]
experiments: [{{kind: incremental, preserved: [0], sizes: [4], trials: {trials}}}]
"""


def resident(pid: int) -> float:
    """Megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def workers() -> list[int]:
    found = subprocess.run(["pgrep", "-f", "ray::_perform"], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    args = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False)
    driver, ended, begin = os.getpid(), [0], time.monotonic()

    def watch(event: Event) -> None:
        if event.kind == "trial":
            ended[0] += 1
            if ended[0] % max(1, args.trials // 20) == 0:
                largest = max((resident(pid) for pid in workers()), default=0.0)
                print(f"{ended[0]:7,} trials {time.monotonic() - begin:7.0f} s   driver {resident(driver):6.0f} MB   "
                      f"largest worker {largest:6.0f} MB", flush=True)  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "tiny.yaml"
        study.write_text(STUDY.format(trials=args.trials))
        store = open_store(Path(folder) / "store", create=True)
        run_plan(make_plan(load(str(study)), store), store, str(Path(folder) / "store"), watch, "cpu", executor="ray")


if __name__ == "__main__":
    main()
