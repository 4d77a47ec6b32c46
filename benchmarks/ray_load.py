"""Many tiny trials through Ray on this machine, and the memory of everybody who takes part on the way.

    python benchmarks/ray_load.py --trials 10000 --out result.json

Starts a Ray cluster of this machine's cores and runs a study of trials of two steps on a tiny random encoder. Memory is
what the processes hold (resident), looked at every five seconds. Fails if a trial is missing, or if after the first
fifth of the trials the driver, the mailbox or a worker has grown by more than `--allowed` megabytes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from circumstances import circumstances, resident, write

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray

from palimpsest.execution.plan import make_plan
from palimpsest.execution.run import run_plan
from palimpsest.execution.worker import Event
from palimpsest.store import open_store
from palimpsest.studies import load

STUDY = """
encoder: {folder}/encoder
protocol: {{extends: paper, epochs: 1, batch_size: 8}}
tasks:
  - {{name: words, train: {folder}/train.tsv, validation: {folder}/validation.tsv, text: sentence, label: label}}
experiments: [{{kind: incremental, preserved: [0], sizes: [16], trials: {trials}}}]
"""
_EVERY = 5.0  # seconds


def prepare(folder: Path, trials: int, hidden: int = 16) -> Path:
    """A study with a tiny encoder and a task of a few sentences."""
    import torch
    from transformers import BertConfig, BertModel

    from palimpsest.encoders.loading import load as load_encoder

    tokenizer = load_encoder("pocket").tokenizer
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=hidden, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(folder / "encoder")
    tokenizer.save_pretrained(folder / "encoder")
    words = ["good", "bad", "king", "queen", "river", "city", "not", "the"]
    for split, rows in (("train", 160), ("validation", 16)):
        lines = (f"{' '.join(words[(i * 7 + j) % 8] for j in range(3 + i % 4))}\t{i * 5 % 2}" for i in range(rows))
        (folder / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    study = folder / "tiny.yaml"
    study.write_text(STUDY.format(folder=folder, trials=trials))
    return study


def offspring(pid: int) -> Iterator[tuple[int, str]]:
    """All processes below this one, with their titles."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                title = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                yield int(child), title
                yield from offspring(int(child))
            except OSError:  # it has just ended
                continue


class Scales:
    """Weighs the processes now and then, in a thread."""

    def __init__(self) -> None:
        self.ended, self.samples = 0, list[dict[str, Any]]()
        self._begin, self._over = time.monotonic(), threading.Event()
        self._kinds: dict[int, str] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Scales:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self.weigh()

    def weigh(self) -> None:
        now: dict[str, dict[int, float]] = {"driver": {os.getpid(): resident(os.getpid())}}
        for pid, title in offspring(os.getpid()):
            for mark, kind in (("ray::_perform", "worker"), ("ray::Mailbox", "mailbox"), ("raylet/raylet", "raylet"),
                               ("gcs_server", "gcs")):  # fmt: skip
                if mark in title:
                    self._kinds[pid] = kind  # between two packs a worker is called idle
            if pid in self._kinds:
                now.setdefault(self._kinds[pid], {})[pid] = resident(pid)
        sample = {"trials": self.ended, "seconds": round(time.monotonic() - self._begin, 1)}
        sample |= {kind: round(max(held.values())) for kind, held in now.items()}
        sample["workers"] = len(now.get("worker", {}))
        self.samples.append(sample)
        print("  ".join(f"{name} {value:,}" for name, value in sample.items()), flush=True)

    def growth(self, kind: str, total: int) -> dict[str, float]:
        """The highest weight until a fifth of the trials had ended, and over the last fifth."""
        early = [s[kind] for s in self.samples if kind in s and 0 < s["trials"] <= total / 5]
        late = [s[kind] for s in self.samples if kind in s and s["trials"] > total * 4 / 5]
        if not early or not late:
            return {}
        return {"MB in the first fifth": max(early), "MB in the last fifth": max(late), "grown": max(late) - max(early)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--allowed", type=float, default=50.0, help="megabytes")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    report = {
        "what": "trials of two steps on a tiny encoder through Ray, workers of one core each, memory in MB",
        "trials": args.trials,
        **circumstances("ray", "torch", "transformers"),
    }
    ray.init(include_dashboard=False, log_to_driver=False)

    def watch(event: Event) -> None:
        scales.ended += event.kind == "trial"

    with tempfile.TemporaryDirectory() as name, Scales() as scales:
        folder = Path(name)
        study = prepare(folder, args.trials)
        store = open_store(folder / "store", create=True)
        begin = time.monotonic()
        run_plan(make_plan(load(str(study)), store), store, str(folder / "store"), watch, "cpu", executor="ray")
        seconds = time.monotonic() - begin
        scales.weigh()
        finished = len(store.finished_ids())
    ray.shutdown()
    memory = {kind: scales.growth(kind, args.trials) for kind in ("driver", "mailbox", "worker", "raylet", "gcs")}
    report |= {"finished": finished, "seconds": round(seconds), "ms per trial": round(seconds / args.trials * 1000, 1)}
    report |= {"memory": memory, "samples": scales.samples[:: max(1, len(scales.samples) // 40)]}
    write(report, args.out)
    print(report | {"samples": len(scales.samples)})
    assert finished == args.trials
    assert all(memory[kind].get("grown", 0) <= args.allowed for kind in ("driver", "mailbox", "worker")), memory


if __name__ == "__main__":
    main()
