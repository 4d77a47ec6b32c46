"""The same real trials by the engine and by the reference loop: wall time, and mean curves in one plot.

    python benchmarks/end_to_end.py --model gte-small --data DIR --out OUT [--processes 13]
    python benchmarks/end_to_end.py --model gte-small --look results.parquet reference.parquet [--out OUT]

13 × 8 trials of 500 SST-2 examples: the stacked engine (bf16 on a GPU), timed with all its set-up, against the plain
fp32 loop. The reference trials run in several processes at once to save time; its own time is that of one trial run
alone, times the number of trials, and is said to be extrapolated. Those that are in its store already are not run
again: `palimpsest run --engine reference` can have put them there, on a CPU. With --look nothing is run or timed: two
stores or archives are compared.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

STUDY = {
    "name": "end-to-end",
    "tasks": ["sst2"],
    "experiments": [{"kind": "incremental", "sizes": [500], "trials": 8, "epochs": 5}],
}


def part(number: int, of: int, model: str, data: str, store: str, device: str, engine: str, trials: int) -> float:
    """Run every `of`th trial that is missing; returns the seconds."""
    from palimpsest.execution.packing import Job
    from palimpsest.execution.worker import execute, gather, pick_device
    from palimpsest.store import open_store

    plan, place = prepare(model, data, store, trials)
    mine = tuple(plan.missing()[number::of])
    begin = time.perf_counter()
    if mine:
        job = Job(mine, plan.steps(mine))
        execute(job, *gather(job, plan.resources), open_store(place), pick_device(device), engine, lambda _: None)  # type: ignore[arg-type]
    return time.perf_counter() - begin


def prepare(model: str, data: str | None, store: str, trials: int) -> tuple[Any, str]:
    from palimpsest.execution.plan import make_plan
    from palimpsest.specs.study import Study
    from palimpsest.store import open_store

    study = Study.parse(STUDY | {"encoder": model}, "benchmark")
    experiment = study.experiments[0].model_copy(update={"trials": {"default": trials}})
    study = study.model_copy(update={"experiments": (experiment,)})
    place = open_store(store, create=data is not None)
    return make_plan([study], place, Path(data) if data else None, getattr(place, "facts", None)), store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", help="not needed to look at archives")
    parser.add_argument("--out", type=Path, help="a directory for the numbers and the plot")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--reference-trials", type=int, default=8, help="of each k, if fewer than the engine's")
    parser.add_argument("--processes", type=int, default=13, help="for the reference loop")
    parser.add_argument("--stores", type=Path, default=Path("/tmp/palimpsest-end-to-end"))
    parser.add_argument("--look", nargs=2, metavar=("ENGINE", "REFERENCE"), help="only compare these two stores")
    args = parser.parse_args()
    from palimpsest.analysis.statistics import mean_interval
    from palimpsest.analysis.table import table
    from palimpsest.store import open_store

    places = args.look or (str(args.stores / "engine"), str(args.stores / "reference"))
    stores = dict(zip(("engine", "reference"), places, strict=True))
    wanted = {"engine": args.trials, "reference": args.reference_trials}
    plans = {name: prepare(args.model, args.data, where, wanted[name])[0] for name, where in stores.items()}
    report = {"engine": places[0], "reference": places[1]} if args.look else run(args, plans, stores)
    frames = {name: table(plans[name].cells, open_store(where)) for name, where in stores.items()}
    both = frames["engine"].merge(frames["reference"], on="id").dropna(subset=["score_x", "score_y"])
    both["apart"] = both["score_x"] - both["score_y"]
    rows = []
    print(" k  engine                   n  reference                n  difference, paired")
    for k in sorted(frames["engine"]["preserved"].unique()):
        means = {n: mean_interval(f.loc[f["preserved"] == k, "score"]) for n, f in frames.items()}
        difference = mean_interval(both.loc[both["preserved_x"] == k, "apart"])
        e, r = means["engine"], means["reference"]
        rows.append({"k": int(k), "engine": e.mean, "engine low": e.low, "engine high": e.high, "reference": r.mean,
                     "reference low": r.low, "reference high": r.high, "engine n": e.n, "reference n": r.n,
                     "paired difference": difference.mean, "paired low": difference.low, "paired high": difference.high,
                     "intervals overlap": bool(e.low <= r.high and r.low <= e.high)})  # fmt: skip
        shown = (f"{i.mean:.3f} ({i.low:.3f} to {i.high:.3f})  {i.n:2}" for i in (e, r))
        print(f"{k:2}  {'  '.join(shown)}  {difference.mean:+.4f} ({difference.low:+.4f} to {difference.high:+.4f})")
    mean, deviation = both["apart"].mean(), both["apart"].std()
    print(f"{len(both)} pairs of trials: mean difference {mean:+.4f}, standard deviation {deviation:.4f}")
    report |= {"pairs": len(both), "mean difference": mean, "its deviation": deviation, "curves": rows}
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "end-to-end.json").write_text(json.dumps(report, indent=2) + "\n")
        plot(rows, args.out / "end-to-end.png")


def run(args: argparse.Namespace, plans: dict[str, Any], stores: dict[str, str]) -> dict[str, Any]:
    """Run both; returns what they took."""
    from palimpsest.execution.run import run_plan
    from palimpsest.store import open_store

    trials = len(plans["engine"].trials)
    begin = time.perf_counter()
    run_plan(plans["engine"], open_store(stores["engine"]), stores["engine"], lambda _: None, args.device)
    seconds = time.perf_counter() - begin
    print(f"engine: {trials} trials in {seconds:.1f} s, set-up included", flush=True)
    alone = one_alone(args)
    print(f"reference: {alone:.1f} s for a trial alone, {alone * trials:.0f} s for all, extrapolated", flush=True)
    parts = [
        (i, args.processes, args.model, args.data, stores["reference"], args.device, "reference", args.reference_trials)
        for i in range(args.processes)
    ]
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        pool.starmap(part, parts)
    return {"trials": trials, "engine seconds": seconds, "reference seconds per trial, alone": alone,
            "reference seconds, extrapolated": alone * trials, "times faster": alone * trials / seconds}  # fmt: skip


def one_alone(args: argparse.Namespace) -> float:
    """Seconds of one reference trial with the machine to itself."""
    from palimpsest.execution.packing import Job
    from palimpsest.execution.worker import gather, pick_device
    from palimpsest.training import reference
    from palimpsest.training.preparation import Prepared

    plan, _ = prepare(args.model, args.data, str(args.stores / "alone"), args.trials)
    trial = next(iter(plan.trials.values()))
    encoder, data = gather(Job((trial,), 0), plan.resources)
    prepared = Prepared(trial, data.task, encoder)
    begin = time.perf_counter()
    reference.train(prepared, data, pick_device(args.device))
    return time.perf_counter() - begin


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from palimpsest.figures.style import STYLE

    mpl.rcParams.update(STYLE)
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, shift, marker in (("engine", -0.1, "o"), ("reference", 0.1, "s")):
        k = [r["k"] + shift for r in rows]
        mean = [r[name] for r in rows]
        bars = [[m - r[f"{name} low"] for m, r in zip(mean, rows, strict=True)],
                [r[f"{name} high"] - m for m, r in zip(mean, rows, strict=True)]]  # fmt: skip
        label = f"{name} (n = {rows[0][f'{name} n']})"
        axes.errorbar(k, mean, yerr=bars, marker=marker, markersize=4, capsize=2, linewidth=1, label=label)
    axes.set_xlabel("Layers preserved (k)")
    axes.set_ylabel("Accuracy on SST-2, 500 examples")
    axes.legend(title="mean, 95 % t interval", frameon=False)
    figure.savefig(path, dpi=200)


if __name__ == "__main__":
    main()
