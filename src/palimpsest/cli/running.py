"""Commands that run studies and say how far they are: plan, run, status, demo."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palimpsest.cli.options import (
    DEFAULT_STORE,
    DEVICES,
    DataOpt,
    DeviceOpt,
    FirstOpt,
    ModelOpt,
    OutOpt,
    SetOpt,
    StoreOpt,
    StudyArg,
    check_choice,
)
from palimpsest.cli.studied import frame_of, open_at, open_if_there, open_to_write, parts, planned
from palimpsest.cli.terminal import escape, new_console, show_table

if TYPE_CHECKING:
    from palimpsest.execution.plan import Plan
    from palimpsest.specs.trial import Trial

ENGINES, EXECUTORS = ("stacked", "reference"), ("local", "ray")


def plan(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    first: FirstOpt = None,
    device: DeviceOpt = "auto",
) -> None:
    """Say what a study would run: trials, steps, time. Runs nothing."""
    from palimpsest.execution.estimate import estimate, expected_device
    from palimpsest.figures.kinds import check_kinds

    check_choice("device", device, DEVICES)
    place = open_if_there(store)
    made = planned(study, place, data, model, set_)
    for one in made.studies:
        check_kinds(one)
    missing = made.missing(first=first)
    console = new_console()
    encoders = ", ".join(sorted(set(made.resources.encoders.values())))
    console.print(f"[bold]{escape(study)}[/] on {escape(encoders)}", soft_wrap=True)
    console.print(f"  trials named      {len(made.cells):>10,}")
    console.print(f"  distinct          {len(made.trials):>10,}")
    console.print(f"  already finished  {made.count('finished'):>10,}   in {escape(store)}")
    if made.count("failed"):
        console.print(f"  failed            {made.count('failed'):>10,}   (run --retry-failed runs them again)")
    console.print(
        f"  to run            {len(missing):>10,}" + (f"   of the first {first} of every point" if first else "")
    )
    console.print(f"  optimiser steps   {made.steps(missing):>10,}" + _probes_note(missing))
    if missing:
        console.print(f"  time, roughly     {estimate(made, missing, place, expected_device(device))}")


def run(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    data: DataOpt = None,
    model: ModelOpt = None,
    device: DeviceOpt = "auto",
    set_: SetOpt = None,
    first: FirstOpt = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Run at most this many trials.")] = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="stacked|reference", help="How trials are trained.")
    ] = "stacked",
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            min=1,
            help="Worker processes: one per core, or one on a GPU, unless told; two can share it.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also run the trials that failed before.")
    ] = False,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Only part I of N of the trials, for job arrays.")
    ] = None,
    executor: Annotated[
        str, typer.Option("--executor", metavar="local|ray", help="This machine, or a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="HOST:PORT", help="Of the Ray cluster; by default this machine's."),
    ] = None,
    worker_cores: Annotated[
        int, typer.Option("--worker-cores", min=1, help="CPU cores of each Ray worker that has no GPU.")
    ] = 1,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            min=0.1,
            metavar="MINUTES",
            help="Begin no pack that would not end within so many minutes, once it is known how long packs take.",
        ),
    ] = None,
    pack_timeout: Annotated[
        float | None,
        typer.Option(
            "--pack-timeout", min=1, metavar="SECONDS", help="Take a worker that is longer at a pack for lost."
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            "--track", metavar="NAME:PLACE", help="Also log trials: tensorboard:DIR, wandb:PROJECT, mlflow:URI."
        ),
    ] = None,
) -> None:
    """Run what is missing of a study. Stop it with Ctrl-C at any time; the same command goes on from there."""
    check_choice("device", device, DEVICES)
    check_choice("engine", engine, ENGINES)
    check_choice("executor", executor, EXECUTORS)
    place = open_to_write(store)
    made = planned(study, place, data, model, set_, to_run=True)
    _run_missing(
        made, store, device, engine, retry_failed, limit, shard, first, track or (), processes=processes,
        executor=executor, address=address, worker_cores=worker_cores, pack_timeout=pack_timeout, time_limit=time_limit,
    )  # fmt: skip
    again = (
        "".join(f" --set {s}" for s in set_ or [])
        + (f" --model {model}" if model else "")
        + (f" --data {data}" if data else "")
    )
    typer.echo(f"Next: palimpsest figures {study} --store {store}{again}")


def status(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep the table up to date until everything is done.")] = False,
) -> None:
    """Say how far a study is, what is running, what failed and why, and what is damaged."""
    from palimpsest.store.running import drivers, in_words

    place = open_at(store)
    made = planned(study, place, data, model, set_)
    if watch:
        from palimpsest.report.watch import watch as follow

        try:
            follow(made, place, new_console())
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        return
    frame = frame_of(made, place)
    rows = []
    for (experiment, task, size), part in frame.groupby(["experiment", "task", "size"], sort=False):
        each = part.drop_duplicates("id")
        counts = each["status"].value_counts()
        scores = each.loc[each["status"] == "finished", "score"]
        rows.append((str(experiment), str(task), str(size),
                     *(str(int(counts.get(s, 0))) for s in ("finished", "failed", "missing")),
                     f"{scores.min():.3f} – {scores.max():.3f}" if len(scores) else ""))  # fmt: skip
    show_table(
        study, ["experiment", "task", "size", "finished", "failed", "missing", "scores"], rows, (3, 4, 5), wide=0
    )
    console = new_console()
    for note in drivers(place):
        console.print(in_words(note), highlight=False)
    failed = frame[frame["status"] == "failed"].drop_duplicates("id")
    for _, row in failed.iterrows():
        console.print(f"[red]failed[/] {row['id'][:12]} {row['task']}: {escape(str(row['reason']))}")
    for problem in place.problems:
        console.print(
            f"[yellow]damaged[/] {escape(problem.path)}: {escape(problem.reason)} "
            "(left as it is; its trial counts as missing)"
        )


def demo(
    out: OutOpt = Path("demo-output"),
    full: Annotated[
        bool, typer.Option("--full", help="Three tasks, two sizes, all k, probing and permutation.")
    ] = False,
    device: DeviceOpt = "auto",
) -> None:
    """See the method work in two minutes, offline: the built-in encoder on a built-in task."""
    from palimpsest.analysis.prose import describe_incremental
    from palimpsest.figures.registry import draw, tabulate
    from palimpsest.store import open_store

    name = "demo-full" if full else "demo"
    store = out / "store"
    place = open_store(store, create=True)
    made = planned(name, place, None, None, None)
    _run_missing(made, str(store), device, "stacked")
    for one, frame, material in parts(made, place):
        typer.echo("")
        typer.echo(describe_incremental(frame))
        typer.echo("")
        for drawing in one.figures:
            typer.echo(f"figure: {draw(one, frame, drawing, out, **material)[0]}")
        for drawing in one.tables:
            typer.echo(f"table:  {tabulate(one, frame, drawing, out, **material)[0]}")


class Terminated(KeyboardInterrupt):
    """Somebody, a cluster's scheduler perhaps, asks for an end: as with Ctrl-C, what is finished is told and kept."""


@contextmanager
def terminable() -> Iterator[None]:
    """While this lasts, SIGTERM is like Ctrl-C."""

    def stop(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_missing(
    made: Plan,
    place: str,
    device: str,
    engine: str,
    retry_failed: bool = False,
    limit: int | None = None,
    shard: str | None = None,
    first: int | None = None,
    track: Sequence[str] = (),
    time_limit: float | None = None,
    **where: Any,
) -> None:
    from contextlib import ExitStack

    from palimpsest.execution.plan import Shard
    from palimpsest.execution.progress import Display
    from palimpsest.execution.run import run_plan
    from palimpsest.figures.registry import check
    from palimpsest.store import open_store
    from palimpsest.tracking import open_tracker

    for study in made.studies:
        check(study)
    if device == "cuda" and where.get("executor") != "ray":
        # torch takes seconds to import; where it may be needed later anyway, the bar is shown first
        from palimpsest.execution.worker import pick_device

        pick_device(device)
    part = Shard.parse(shard) if shard else None
    store = open_store(place, create=True)
    missing = made.missing(retry_failed, part, first)[:limit]
    console = new_console()
    if not missing:
        which = f"the first {first} trials of every point" if first else f"all {len(made.trials):,} trials"
        which += f" of shard {shard}" if shard else ""
        console.print(f"Nothing to run: {which} are in {escape(place)}.")
        return
    with ExitStack() as opened:
        opened.enter_context(terminable())
        trackers = [opened.enter_context(open_tracker(where_to)) for where_to in track]
        display = opened.enter_context(Display(console, missing, made))

        def show(event: Any) -> None:
            for tracker in trackers:
                tracker.show(event)
            display.show(event)

        try:
            run_plan(
                made, store, place, show, device, engine,  # type: ignore[arg-type]
                limit=limit, retry_failed=retry_failed, shard=part, first=first,
                seconds=None if time_limit is None else 60 * time_limit, **where,
            )  # fmt: skip
        except KeyboardInterrupt as stop:
            display.stop()
            console.print(
                f"Stopped. {display.finished:,} of {len(missing):,} trials were finished and are in {escape(place)}; "
                "the same command goes on from there.",
                soft_wrap=True,
            )
            raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
    left = len(missing) - display.finished - display.failed
    if time_limit is not None and left:
        console.print(
            f"The time is up: {left:,} of {len(missing):,} trials were not begun; the same command goes on from there.",
            soft_wrap=True,
        )
    if display.failed:
        console.print(f"[yellow]{display.failed} trials failed[/]; `palimpsest status` says why.")


def _probes_note(trials: Sequence[Trial]) -> str:
    return "   (probes may stop earlier)" if any(t.probe for t in trials) else ""
