"""What it costs a run to be watched: the same small study, in turns without a heartbeat, with one, and served.

    python benchmarks/heartbeat.py --rounds 4 --out result.json

CPU time, not wall time, so that what else the machine does counts little. Every run is a process of its own, on one
core, in a new store; imports are not counted. `own` is the CPU time of the heartbeat's code inside the run, `server`
that of `palimpsest serve` from when a page has opened to the end of the run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from circumstances import circumstances, write

STUDY = """
encoder: pocket
protocol: {extends: pocket, epochs: 1, evaluate: end}
tasks: [mini-sentiment]
experiments: [{kind: incremental, preserved: [6], sizes: [64], trials: 4}]
"""
MODES = ("silent", "heartbeat", "watched")


class Silent:
    """A heartbeat that does not beat."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None: ...

    def watch(self, emit: Any) -> Any:
        return emit


def once(mode: str, study: str, store: str) -> dict[str, float]:
    """Run the study in this process."""
    import palimpsest.execution.local  # noqa: F401 (heavy: before the clock starts)
    from palimpsest.execution import heartbeat, run, worker
    from palimpsest.execution.plan import make_plan
    from palimpsest.store import open_store
    from palimpsest.studies import load

    own = [0.0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            begin = time.thread_time()
            try:
                return function(*arguments)
            finally:
                own[0] += time.thread_time() - begin

        return wrapped

    if mode == "silent":
        run.Heartbeat = Silent  # type: ignore[assignment,misc]
        worker.LOOK_EVERY = math.inf  # nobody looks at the losses of running trials
    else:
        heartbeat.Heartbeat._write = timed(heartbeat.Heartbeat._write)  # type: ignore[method-assign]
        heartbeat.Heartbeat._note = timed(heartbeat.Heartbeat._note)  # type: ignore[method-assign]
    plan = make_plan(load(study), None)
    begin, wall = time.process_time(), time.monotonic()
    run.run_plan(plan, open_store(store), store, lambda _: None, "cpu", processes=1)
    return {"cpu": time.process_time() - begin, "wall": time.monotonic() - wall, "own": own[0]}


def measure(mode: str, study: Path, store: Path) -> dict[str, float]:
    """One run in a process of its own, perhaps with a page that looks on."""
    from palimpsest.store import open_store

    open_store(store, create=True)
    server = Page(study, store) if mode == "watched" else None
    words = [sys.executable, __file__, "--child", mode, str(study), str(store)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found | ({"server": server.close()} if server else {})


class Page:
    """`palimpsest serve` with somebody who looks."""

    def __init__(self, study: Path, store: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = "import sys; from palimpsest.cli import main; sys.exit(main())"
        words = [sys.executable, "-c", command, "serve", str(study), "--store", str(store), "--port", str(port)]
        self._server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self._address = f"http://127.0.0.1:{port}"
        self._opened = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()
        self._opened.wait()
        self._before = self._cpu()

    def _look(self) -> None:
        import httpx

        with httpx.Client(timeout=None) as client:
            while not self._opened.is_set():
                try:
                    client.get(self._address)
                    self._opened.set()
                except httpx.ConnectError:
                    time.sleep(0.2)
            try:
                with client.stream("GET", f"{self._address}/events") as events:
                    for _ in events.iter_lines():
                        pass
            except httpx.HTTPError:
                return  # the server has ended

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> float:
        spent = self._cpu() - self._before
        self._server.terminate()
        self._server.wait()
        return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=3, metavar=("MODE", "STUDY", "STORE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(once(*given.child)))
        return
    report: dict[str, Any] = circumstances("torch") | {"study": STUDY.strip()}
    runs: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.yaml"
        study.write_text(STUDY, encoding="utf-8")
        for number in range(given.rounds):
            for mode in MODES[number % 3 :] + MODES[: number % 3]:  # nobody is always first
                runs[mode].append(measure(mode, study, Path(folder) / f"{mode}-{number}"))
                print(mode, {name: round(value, 3) for name, value in runs[mode][-1].items()}, flush=True)
    silent = [r["cpu"] for r in runs["silent"]]
    for mode in MODES[1:]:
        shares = [r["cpu"] / s - 1 for r, s in zip(runs[mode], silent, strict=True)]
        error = statistics.stdev(shares) / math.sqrt(len(shares)) if len(shares) > 1 else math.nan
        own = sum(r["own"] for r in runs[mode]) / sum(r["cpu"] for r in runs[mode])
        report[mode] = {"more CPU than silent": statistics.mean(shares), "standard error": error, "own share": own}
        print(
            f"{mode}: {statistics.mean(shares):+.2%} ± {error:.2%} against silent; the heartbeat's own code {own:.3%}"
        )
    served = runs["watched"]
    report["watched"]["server's CPU by run's wall"] = sum(r["server"] for r in served) / sum(r["wall"] for r in served)
    report["runs"] = runs
    write(report, given.out)


if __name__ == "__main__":
    main()
