"""Trial-steps per second: the stacked engine against the Hugging Face Trainer, side by side in one process.

    python benchmarks/engine.py --shape bert-base --length 32 --out result.json

Same shape, same data, same batch, after warm-up, medians over blocks of steps. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import synthetic

from palimpsest.specs.intervention import Reinitialize
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Seeds, Trial
from palimpsest.training.kernels import good_kernels
from palimpsest.training.preparation import Prepared


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def blocks(advance: Any, device: str, count: int, per_block: int) -> float:
    """Median seconds per call, over blocks of calls."""
    times = []
    for _ in range(count):
        synchronise(device)
        begin = time.perf_counter()
        for _ in range(per_block):
            advance()
        synchronise(device)
        times.append((time.perf_counter() - begin) / per_block)
    return statistics.median(times)


def copy_bandwidth() -> float:
    """Bytes per second that a large device-to-device copy reads and writes."""
    a = torch.empty(1 << 31, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    b.copy_(a)
    seconds = blocks(lambda: b.copy_(a), "cuda", 5, 10)
    return 2 * a.numel() / seconds


def floor(stack: Any, bandwidth: float) -> float:
    """Seconds per trial-step that moving the bytes alone takes.

    Adam reads and writes weights and two moments in fp32, reads a bf16 gradient and writes a bf16 working copy; forward
    and backward each read the working copy once, and backward writes the gradient.
    """
    per_weight = 2 * 3 * 4 + 2 + 2 + 2 * 2 + 2
    return float(stack.size * per_weight / bandwidth)


@good_kernels
def ours(
    shape: str,
    length: int,
    trials: int,
    device: str,
    compiled: bool,
    count: int,
    per_block: int,
    profile: bool = False,
) -> dict[str, Any]:
    from palimpsest.training.stack import Stack, assemble
    from palimpsest.training.stepper import HostStepper

    encoder = synthetic.encoder(shape)
    steps = (count + 1) * per_block + 6
    data = synthetic.data(shape, length, 8 * steps)
    protocol = Protocol(epochs=1, max_length=length)
    prepared = [
        Prepared(
            Trial(encoder=shape, task="synthetic", protocol=protocol, seeds=Seeds.of(i),
                  interventions=(Reinitialize(layers=tuple(range(1 + i % 12, 13))),)),
            data.task, encoder,
        )
        for i in range(trials)
    ]  # fmt: skip
    begin = time.perf_counter()
    stack = Stack(assemble(prepared, data), torch.device(device))
    synchronise(device)
    stacked = time.perf_counter()
    if device == "cuda":
        from palimpsest.training.graphs import GraphStepper

        stepper: Any = GraphStepper(stack, compiled=compiled)
    else:
        stepper = HostStepper(stack)
    synchronise(device)
    loaded = time.perf_counter()
    number = iter(range(steps))
    stepper.advance(next(number))
    synchronise(device)
    first = time.perf_counter()
    for _ in range(min(per_block, 5)):
        stepper.advance(next(number))
    seconds = blocks(lambda: stepper.advance(next(number)), device, count, per_block)
    if profile:
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as record

        with record(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as records:
            for _ in range(3):
                stepper.advance(next(number))
            synchronise(device)
        table = records.key_averages().table(sort_by="self_device_time_total", row_limit=35, max_name_column_width=90)
        print("\n".join(line[:92] + line[-100:] for line in table.splitlines()))
    losses = stepper.losses()
    done = next(number)
    assert np.isfinite(losses[:, :done]).all(), "a loss is not finite"
    result = {"ms per trial-step": 1e3 * seconds / trials, "set-up s": first - begin, "trials": trials,
              "compiled": compiled, "of which stacking s": stacked - begin,
              "surgery s": loaded - stacked, "first step s": first - loaded}  # fmt: skip
    if device == "cuda":
        result["peak GiB"] = torch.cuda.max_memory_allocated() / 2**30
        result["floor ms"] = 1e3 * floor(stack, copy_bandwidth())
        result["times the floor"] = result["ms per trial-step"] / result["floor ms"]
        torch.cuda.reset_peak_memory_stats()
    return result


def on_cores(shape: str, length: int, trials: int, processes: int, count: int, per_block: int) -> dict[str, Any]:
    """The engine as it runs on a CPU: one pack in each of several processes of one thread, all at the same time."""
    with multiprocessing.get_context("spawn").Pool(processes, torch.set_num_threads, (1,)) as pool:
        results = pool.starmap(ours, [(shape, length, trials, "cpu", False, count, per_block)] * processes)
    together = sum(1 / r["ms per trial-step"] for r in results)
    return {"ms per trial-step": 1 / together, "set-up s": max(r["set-up s"] for r in results), "trials": trials,
            "processes": processes}  # fmt: skip


def trainer(shape: str, length: int, device: str, precision: str, steps: int) -> float:
    """Seconds per step of the Hugging Face Trainer on the same data, the median over its steps."""
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(num_hidden_layers=12, **synthetic.SHAPES[shape]))
    data = synthetic.data(shape, length, 8 * (steps + 10))
    ids = torch.as_tensor(data.train.ids.reshape(-1, length)).long()
    rows = [
        {"input_ids": i, "attention_mask": torch.ones_like(i), "labels": int(y)}
        for i, y in zip(ids, data.train.targets, strict=True)
    ]
    stamps: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            synchronise(device)
            stamps.append(time.perf_counter())

    arguments = TrainingArguments(
        output_dir="/tmp/palimpsest-trainer", per_device_train_batch_size=8, max_steps=steps, learning_rate=2e-5,
        bf16=precision == "bf16", report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
        use_cpu=device == "cpu",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Clock()]).train()
    torch.backends.cuda.matmul.allow_tf32 = False
    return statistics.median(np.diff(stamps)[len(stamps) // 4 :])


def compare(report: dict[str, Any], result: dict[str, Any]) -> None:
    """Set a result beside the Trainer's best, print it and keep it."""
    if report["trainer ms per step"]:
        result["times the Trainer"] = float(min(report["trainer ms per step"].values()) / result["ms per trial-step"])
    report["engine"].append(result)
    print("engine", {k: round(v, 3) if isinstance(v, float) else v for k, v in result.items()}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="bert-base", choices=list(synthetic.SHAPES))
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--trials", type=int, nargs="+", default=[16])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--not-compiled", action="store_true", help="also measure without torch.compile")
    parser.add_argument("--no-trainer", action="store_true")
    parser.add_argument("--profile", action="store_true", help="also print the kernels that take longest")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="on a CPU")
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20, help="steps in a block")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device: str = args.device

    import transformers

    machine = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} CPU threads"
    report: dict[str, Any] = {
        "shape": args.shape, "length": args.length, "batch": 8, "device": machine, "date": str(date.today()),
        "torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version(),
        "engine": [], "trainer ms per step": {},
    }  # fmt: skip
    if not args.no_trainer:
        for precision in ("fp32", "tf32", "bf16") if device == "cuda" else ("fp32",):
            seconds = trainer(args.shape, args.length, device, precision, args.blocks * args.steps)
            report["trainer ms per step"][precision] = 1e3 * seconds
            print(f"Trainer {precision:5}: {1e3 * seconds:8.2f} ms per step", flush=True)
    for trials in args.trials if device == "cpu" else []:
        result = on_cores(args.shape, args.length, trials, args.processes, args.blocks, args.steps)
        compare(report, result)
    for trials in args.trials if device == "cuda" else []:
        for compiled in [True, False] if args.not_compiled else [True]:
            result = ours(args.shape, args.length, trials, device, compiled, args.blocks, args.steps, args.profile)
            compare(report, result)
    if args.out:
        args.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
