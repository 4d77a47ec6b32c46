"""Probing: all layers and trials on cached features, against training each probe through the frozen model.

    python benchmarks/probing.py --shape gte-small --length 32 --out result.json

Ours is measured whole: running the encoder, writing and reading the features, training and evaluating every probe. The
Hugging Face Trainer is timed for some steps at some layers, through the model cut off above the probed layer, without
any evaluation, and extrapolated to the number of steps that our probes took. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
import synthetic

from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Probe, Seeds, Trial
from palimpsest.training import probing
from palimpsest.training.features import features
from palimpsest.training.preparation import Prepared

DEPTH, BATCH = 12, 8


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def ours(args: argparse.Namespace, examples: int, epochs: int) -> dict[str, Any]:
    """Seconds for the features and for all probes, starting from an empty cache."""
    encoder = synthetic.encoder(args.shape)
    data = synthetic.data(args.shape, args.length, examples, args.validation)
    protocol = Protocol(max_length=args.length, learning_rate=1e-3)
    trials = [
        Prepared(
            Trial(encoder=args.shape, task="synthetic", protocol=protocol, seeds=Seeds.of(i),
                  probe=Probe(layer=layer, epochs=epochs, patience=args.patience)),
            data.task, encoder,
        )
        for layer in range(DEPTH + 1)
        for i in range(args.trials)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PALIMPSEST_CACHE"] = cache
        synchronise(args.device)
        begin = time.perf_counter()
        features(encoder, data, args.device, "mean")
        synchronise(args.device)
        middle = time.perf_counter()
        outcomes = probing.train(trials, data, args.device)
        synchronise(args.device)
        end = time.perf_counter()
    assert all(o.status == "finished" for o in outcomes), next(o.reason for o in outcomes if o.status == "failed")
    steps = np.zeros(DEPTH + 1, dtype=np.int64)
    for prepared, outcome in zip(trials, outcomes, strict=True):
        steps[prepared.trial.probe.layer] += outcome.steps  # type: ignore[union-attr]
    return {
        "features s": middle - begin, "probes s": end - middle, "total s": end - begin, "probes": len(trials),
        "steps of each layer": steps.tolist(), "probe-steps per s": float(steps.sum()) / (end - middle),
    }  # fmt: skip


class Probed(nn.Module):
    """A linear classifier on one layer's mean hidden state; the layers above are cut off, the rest is frozen."""

    def __init__(self, model: nn.Module, layer: int) -> None:
        super().__init__()
        self.body: Any = copy.deepcopy(model).requires_grad_(False)
        self.body.encoder.layer = self.body.encoder.layer[:layer]
        self.body.pooler = None
        self.head = nn.Linear(self.body.config.hidden_size, 2)

    def train(self, mode: bool = True) -> Probed:
        super().train(mode)
        self.body.eval()
        return self

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            hidden = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask[..., None].to(hidden.dtype)
        logits = self.head((hidden * weight).sum(1) / weight.sum(1))
        return {"loss": nn.functional.cross_entropy(logits.float(), labels), "logits": logits}


def trainer(args: argparse.Namespace, layer: int, precision: str) -> float:
    """Seconds per step of the Hugging Face Trainer, the median over its steps."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    data = synthetic.data(args.shape, args.length, BATCH * args.steps)
    ids = torch.as_tensor(data.train.ids.reshape(-1, args.length)).long()
    rows = [
        {"input_ids": i, "attention_mask": torch.ones_like(i), "labels": int(y)}
        for i, y in zip(ids, data.train.targets, strict=True)
    ]
    stamps: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            synchronise(args.device)
            stamps.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=BATCH, max_steps=args.steps, learning_rate=1e-3,
            bf16=precision == "bf16", report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
            use_cpu=args.device == "cpu",
        )  # fmt: skip
        model = Probed(synthetic.encoder(args.shape).model, layer)
        Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Clock()]).train()
    torch.backends.cuda.matmul.allow_tf32 = False
    return statistics.median(np.diff(stamps)[len(stamps) // 4 :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="gte-small", choices=list(synthetic.SHAPES))
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--validation", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=8, help="of each layer")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--patience", type=int, default=40, help="the default lets every probe run all its epochs")
    parser.add_argument("--steps", type=int, default=60, help="steps of the Trainer that are timed at a layer")
    parser.add_argument("--no-trainer", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.device == "auto":
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    if not args.no_trainer and importlib.util.find_spec("accelerate") is None:
        parser.error("the Hugging Face Trainer needs the package accelerate: install it, or give --no-trainer")

    import transformers

    machine = torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    report: dict[str, Any] = {
        "shape": args.shape, "length": args.length, "batch": BATCH, "examples": args.examples, "epochs": args.epochs,
        "patience": args.patience, "device": machine, "date": str(date.today()), "torch": torch.__version__,
        "transformers": transformers.__version__, "python": platform.python_version(),
    }  # fmt: skip
    ours(args, 200, 1)  # warm-up
    report["ours"] = mine = ours(args, args.examples, args.epochs)
    print(f"{mine['probes']} probes on {args.examples} examples, {args.shape}, length {args.length}, {machine}")
    print(f"{'ours: features':34}{mine['features s']:12.1f} s")
    print(f"{'ours: all probes':34}{mine['probes s']:12.1f} s  ({mine['probe-steps per s']:,.0f} probe-steps per s)")
    print(f"{'ours: together':34}{mine['total s']:12.1f} s", flush=True)
    if not args.no_trainer:
        at = [0, DEPTH // 2, DEPTH]
        report["trainer ms per step at layer"] = timed = {}
        totals = {}
        for precision in ("fp32", "tf32", "bf16") if args.device == "cuda" else ("fp32",):
            seconds = [trainer(args, layer, precision) for layer in at]
            timed[precision] = {layer: 1e3 * s for layer, s in zip(at, seconds, strict=True)}
            totals[precision] = float(np.interp(range(DEPTH + 1), at, seconds) @ mine["steps of each layer"])
            each = ", ".join(f"{1e3 * s:.1f}" for s in seconds)
            print(
                f"{f'Trainer {precision} (extrapolated)':34}{totals[precision]:12.1f} s  ({each} ms per step)",
                flush=True,
            )
        report["trainer total s (extrapolated)"] = totals
        report["times the Trainer"] = min(totals.values()) / mine["total s"]
        print(f"{'times faster than the best of these':34}{report['times the Trainer']:12.0f}")
    if args.out:
        args.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
