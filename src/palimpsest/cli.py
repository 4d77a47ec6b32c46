"""The commands. No other module knows about the terminal."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palimpsest.errors import MissingStore, NothingFinished, PalimpsestError, SpecError, UnknownName
from palimpsest.paths import file_name

if TYPE_CHECKING:
    from palimpsest.execution.plan import Plan
    from palimpsest.specs.study import Study
    from palimpsest.specs.trial import Trial
    from palimpsest.store import Store

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Find out which pretrained layers matter for your task.",
)

StudyArg = Annotated[
    str, typer.Argument(metavar="STUDY", help="A shipped study (see `palimpsest studies`) or a YAML file.")
]
StoreOpt = Annotated[
    str, typer.Option("--store", metavar="DIR_OR_URL", help="Where results are kept: a directory, s3://…, …")
]
DataOpt = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Directory with GLUE's TSV or SQuAD's JSON files; without it, the hub."),
]
ModelOpt = Annotated[
    str | None, typer.Option("--model", metavar="NAME_OR_DIR", help="Another encoder than the study's.")
]
SetOpt = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the study: sizes=500,5000  trials=10  protocol.epochs=5 …"),
]
DeviceOpt = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to train.")]
PublishedOpt = Annotated[bool, typer.Option("--published", help="Lay published numbers beside, where there are any.")]
OutOpt = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")]
DEFAULT_STORE = "palimpsest-store"
DEVICES, ENGINES, FORMATS = ("auto", "cpu", "cuda"), ("stacked", "reference"), ("csv", "parquet")
EXECUTORS = ("local", "ray")


def main() -> None:
    """The entry point: errors that are meant for people are shown as one message, without a traceback."""
    debug = "--debug" in sys.argv or bool(os.environ.get("PALIMPSEST_DEBUG"))
    sys.argv = [a for a in sys.argv if a != "--debug"]
    try:
        app()
    except PalimpsestError as error:
        _complain(str(error), debug)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has had enough
        sys.exit(1)
    except Exception as error:
        _complain(f"{type(error).__name__}: {error} (this is a bug in Palimpsest; --debug shows where)", debug)
        sys.exit(1)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    del debug  # handled before Typer sees it, so that it may stand anywhere on the line
    if version:
        from palimpsest import __version__

        typer.echo(f"palimpsest {__version__}")
        raise typer.Exit


@app.command()
def studies() -> None:
    """List the shipped studies."""
    from palimpsest.studies import load, names

    rows = [(name, load(name)[0].title) for name in names()]
    _table("Studies", ["name", "what it asks"], rows)


@app.command()
def tasks() -> None:
    """List the known tasks."""
    from palimpsest.tasks.registry import describe

    rows = [
        (r.name, ", ".join(r.metrics), f"{r.train_rows:,}", f"{r.validation_rows:,}", r.summary) for r in describe()
    ]
    _table("Tasks", ["name", "metrics", "train", "valid.", "what it asks"], rows, numbers=(2, 3))
    typer.echo("Your own CSV, TSV or JSONL files become a task by naming their columns in a study.")


@app.command()
def models() -> None:
    """List the built-in encoders and the supported architectures."""
    from palimpsest.encoders.anatomy import FAMILIES
    from palimpsest.encoders.identity import BUILT_IN, identify

    rows = []
    for name, directory in BUILT_IN.items():
        if directory.is_dir():
            identity = identify(name)
            rows.append((name, f"{identity.depth} layers × {identity.heads} heads", "built in, works offline"))
    rows.append(("NAME", "", "from the Hugging Face hub, e.g. bert-base-uncased"))
    rows.append(("DIR", "", "a local Hugging Face checkpoint directory"))
    _table("Encoders", ["--model", "shape", "where from"], rows)
    typer.echo(f"Supported architectures: {', '.join(FAMILIES)}.")


@app.command()
def plan(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    device: DeviceOpt = "auto",
) -> None:
    """Say what a study would run: trials, steps, time. Runs nothing."""
    from palimpsest.execution.estimate import estimate

    _check_choice("device", device, DEVICES)
    place = _open_if_there(store)
    made = _plan(study, place, data, model, set_)
    missing = made.missing()
    console = _console()
    console.print(
        f"[bold]{_escape(study)}[/] on {_escape(', '.join(sorted({t.encoder for t in made.trials.values()})))}"
    )
    console.print(f"  trials named      {len(made.cells):>10,}")
    console.print(f"  distinct          {len(made.trials):>10,}")
    console.print(f"  already finished  {made.count('finished'):>10,}   in {_escape(store)}")
    if made.count("failed"):
        console.print(f"  failed            {made.count('failed'):>10,}   (run --retry-failed runs them again)")
    console.print(f"  to run            {len(missing):>10,}")
    console.print(f"  optimiser steps   {made.steps(missing):>10,}" + _probes_note(missing))
    if missing:
        console.print(f"  time, roughly     {estimate(made, missing, place, device)}")


@app.command()
def run(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    data: DataOpt = None,
    model: ModelOpt = None,
    device: DeviceOpt = "auto",
    set_: SetOpt = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Run at most this many trials.")] = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="stacked|reference", help="How trials are trained.")
    ] = "stacked",
    processes: Annotated[int | None, typer.Option("--processes", min=1, help="Worker processes on a CPU.")] = None,
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
    _check_choice("device", device, DEVICES)
    _check_choice("engine", engine, ENGINES)
    _check_choice("executor", executor, EXECUTORS)
    made = _plan(study, _open_if_there(store), data, model, set_)
    _run(
        made, store, device, engine, retry_failed, limit, shard, track or (), processes=processes, executor=executor,
        address=address, worker_cores=worker_cores, pack_timeout=pack_timeout,
    )  # fmt: skip
    again = (
        "".join(f" --set {s}" for s in set_ or [])
        + (f" --model {model}" if model else "")
        + (f" --data {data}" if data else "")
    )
    typer.echo(f"Next: palimpsest figures {study} --store {store}{again}")


@app.command()
def status(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep the table up to date until everything is done.")] = False,
) -> None:
    """Say how far a study is, what failed and why, and what is damaged."""
    place = _open(store)
    made = _plan(study, place, data, model, set_)
    if watch:
        from palimpsest.report.watch import watch as follow

        try:
            follow(made, place, _console())
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        return
    frame = _frame(made, place)
    rows = []
    for (experiment, task, size), part in frame.groupby(["experiment", "task", "size"], sort=False):
        each = part.drop_duplicates("id")
        counts = each["status"].value_counts()
        scores = each.loc[each["status"] == "finished", "score"]
        rows.append((str(experiment), str(task), str(size),
                     *(str(int(counts.get(s, 0))) for s in ("finished", "failed", "missing")),
                     f"{scores.min():.3f} – {scores.max():.3f}" if len(scores) else ""))  # fmt: skip
    _table(study, ["experiment", "task", "size", "finished", "failed", "missing", "scores"], rows, numbers=(3, 4, 5))
    console = _console()
    failed = frame[frame["status"] == "failed"].drop_duplicates("id")
    for _, row in failed.iterrows():
        console.print(f"[red]failed[/] {row['id'][:12]} {row['task']}: {_escape(str(row['reason']))}")
    for problem in place.problems:
        console.print(
            f"[yellow]damaged[/] {_escape(problem.path)}: {_escape(problem.reason)} "
            "(left as it is; its trial counts as missing)"
        )


@app.command()
def figures(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    out: OutOpt = Path("figures"),
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    schematic: Annotated[
        bool, typer.Option("--schematic", help="Draw what is done to the layers, not results.")
    ] = False,
    published: PublishedOpt = False,
) -> None:
    """Draw a study's figures (PNG and PDF) from what is in the store, finished or not."""
    from palimpsest.figures.registry import draw, with_published
    from palimpsest.specs.study import Drawing

    place = _open_if_there(store)
    made = _plan(study, place, data, model, set_)
    for one, frame, material in _parts(made, place):
        shown = with_published(one) if published else one
        drawings = (Drawing(kind="schematic"),) if schematic else shown.figures
        if not drawings and len(made.studies) == 1:
            raise SpecError(f"the study {one.name} names no figures; see its `figures:` key, or use --schematic")
        for drawing in drawings:
            if place is None and drawing.kind != "schematic":
                _open(store)  # says that there is none
            with _going_on(made, one):
                for path in draw(shown, frame, drawing, _folder(out, one, made), **material):
                    typer.echo(path)


@app.command()
def tables(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write text, Markdown, CSV and LaTeX.")
    ] = None,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
    claims: Annotated[
        bool, typer.Option("--claims", help="Test the four claims of Tamkin et al. 2020 on all of the study's trials.")
    ] = False,
    published: PublishedOpt = False,
) -> None:
    """Print a study's tables, and write them as text, Markdown, CSV and LaTeX with --out."""
    from palimpsest.analysis.verdicts import judge
    from palimpsest.figures.registry import DEFAULT_TABLES, table_of, tabulate, with_published
    from palimpsest.specs.study import Drawing

    place = _open_if_there(store)
    made = _plan(study, place, data, model, set_)
    if claims:
        findings = judge(made.cells, _open(store), made.resources)
        drawing = Drawing(kind="claims")
        frame = _frame(made, _open(store))
        typer.echo(table_of(frame, drawing, claims=findings).text())
        for path in tabulate(made.studies[0], frame, drawing, out, claims=findings) if out else ():
            typer.echo(path)
        return
    for one, frame, material in _parts(made, place):
        shown = with_published(one) if published else one
        for drawing in shown.tables or DEFAULT_TABLES:
            if place is None and drawing.kind != "datasets":
                _open(store)  # says that there is none
            with _going_on(made, one):
                typer.echo(table_of(frame, drawing, **material).text())
                if out:
                    for path in tabulate(shown, frame, drawing, _folder(out, one, made), **material):
                        typer.echo(path)


@app.command()
def errata() -> None:
    """List what the papers say against what their released code does, and the protocols that make the difference."""
    import shutil
    import textwrap

    from palimpsest.analysis.errata import ERRATA

    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    for e in ERRATA:
        typer.echo(f"{e.number:>2}  {e.choice} ({e.source})")
        parts = {"written": e.written, "released": e.released, "matters": e.matters, "protocol": e.protocol}
        for name, text in parts.items():
            if text:
                indent = f"      {name:<10}"
                typer.echo(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=" " * len(indent)))
        typer.echo("")
    typer.echo("palimpsest run tamkin2020/errata runs the paper's experiments under these protocols.")


@app.command()
def export(
    study: Annotated[
        str | None, typer.Argument(metavar="[STUDY]", help="A study; without one, the whole store.")
    ] = None,
    store: StoreOpt = DEFAULT_STORE,
    format: Annotated[str, typer.Option("--format", metavar="csv|parquet")] = "csv",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE")] = None,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
) -> None:
    """Write the tidy table, one row per trial, as CSV or Parquet."""
    from palimpsest.analysis.table import everything
    from palimpsest.store.export import export as write

    _check_choice("format", format, FORMATS)
    place = _open(store)
    frame = _frame(_plan(study, place, data, model, set_), place) if study else everything(place)
    typer.echo(write(frame, out or Path(f"palimpsest.{format}")))
    _warn_of_problems(place)


@app.command()
def report(
    study: StudyArg,
    store: StoreOpt = DEFAULT_STORE,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The HTML file.")] = Path("report.html"),
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
) -> None:
    """Write a study's page: one HTML file with interactive figures that opens anywhere, without a network."""
    from palimpsest.report.document import write_report
    from palimpsest.report.page import gather, payload, study_pages
    from palimpsest.report.reproduce import command

    place = _open(store)
    made = _plan(study, place, data, model, set_)
    pages = study_pages(made, gather(made, place))
    typer.echo(write_report(payload(pages, store, command(study, store, data, model, set_ or [])), out))
    _warn_of_problems(place)


@app.command()
def serve(
    study: Annotated[
        str | None, typer.Argument(metavar="[STUDY]", help="A study; without one, what was last run with the store.")
    ] = None,
    store: StoreOpt = DEFAULT_STORE,
    host: Annotated[str, typer.Option("--host", help="Who may look: by default this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8765,
    data: DataOpt = None,
    model: ModelOpt = None,
    set_: SetOpt = None,
) -> None:
    """Show a study's page live while it runs, for a browser. Changes nothing; stop it with Ctrl-C."""
    from palimpsest.execution.plan import make_plan
    from palimpsest.report.document import need
    from palimpsest.report.reproduce import command
    from palimpsest.store.running import remembered

    for module in ("plotly", "starlette", "uvicorn"):
        need(module, "the live page")
    from palimpsest.report.server import Watched
    from palimpsest.report.server import serve as listen

    place = _open(store)
    if study is None:
        known = remembered(place)
        if known is None:
            raise SpecError(
                f"nothing has been run with {store} yet: name the study, palimpsest serve STUDY --store {store}"
            )
        made, data = make_plan(known[:1], place, known[1]), known[1]
        name = known[0].name
    else:
        made, name = _plan(study, place, data, model, set_), study
    typer.echo(f"http://{host}:{port}/  (Ctrl-C ends it)")
    listen(Watched(made, place, store, command(name, store, data, model, set_ or [])), host, port)


@app.command()
def surgery(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A hub name, a checkpoint directory or a built-in encoder.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the altered checkpoint goes.")],
    reinit: Annotated[
        str | None, typer.Option("--reinit", metavar="LAYERS", help="Layers to re-initialise: 9-12 or 1,3,5-7.")
    ] = None,
    permute: Annotated[
        str | None, typer.Option("--permute", metavar="ORDER", help="New order of the layers: 3,1,2,…")
    ] = None,
    reinit_heads: Annotated[
        list[str] | None,
        typer.Option("--reinit-heads", metavar="LAYER:HEADS", help="Heads to re-initialise: 1:4,9 (repeatable)."),
    ] = None,
    delete: Annotated[
        str | None, typer.Option("--delete", metavar="LAYERS", help="Layers to take out, after all else: 9-11.")
    ] = None,
    protocol: Annotated[str, typer.Option("--protocol", help="Whose law of initialisation.")] = "paper",
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
) -> None:
    """Alter an encoder's layers or heads and write it as an ordinary Hugging Face checkpoint."""
    from palimpsest.surgery.checkpoint import operate_on_checkpoint, parse_heads, parse_layers

    heads = [pair for text in reinit_heads or [] for pair in parse_heads(text)]
    order = parse_layers(permute, "--permute", keep_order=True) if permute else None
    layers = parse_layers(reinit, "--reinit") if reinit else []
    gone = parse_layers(delete, "--delete") if delete else []
    for line in operate_on_checkpoint(model, out, layers, heads, order, protocol, seed, gone):
        typer.echo(line)


@app.command()
def pretrain(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="Plain text, a paragraph per line; .gz, .xz and .bz2 are read too.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the checkpoint goes.")],
    teacher: Annotated[
        str | None,
        typer.Option("--teacher", metavar="NAME_OR_DIR", help="An encoder to imitate; without one, masked words only."),
    ] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Budget of training time.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Budget in optimiser steps, instead of minutes.")] = None,
    layers: Annotated[int, typer.Option("--layers", help="Depth; a teacher's layers are spread over it.")] = 12,
    hidden: Annotated[int, typer.Option("--hidden", help="Width.")] = 160,
    heads: Annotated[int, typer.Option("--heads")] = 4,
    vocabulary: Annotated[int, typer.Option("--vocabulary", help="Entries of the WordPiece vocabulary.")] = 16_000,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="FILE", help="A tokenizer.json to use instead of a new one.")
    ] = None,
    max_length: Annotated[
        int, typer.Option("--max-length", help="Tokens in a row, and positions of the network.")
    ] = 128,
    mlm_weight: Annotated[
        float | None, typer.Option("--mlm-weight", help="Masked words in the loss; 0 with a teacher, else 1.")
    ] = None,
    learning_rate: Annotated[float, typer.Option("--learning-rate")] = 2e-3,
    warmup_steps: Annotated[int, typer.Option("--warmup-steps")] = 300,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", help="Tokens in a batch.")] = 65_536,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    name: Annotated[str, typer.Option("--name", help="Title of the model card.")] = "",
    corpus_note: Annotated[str, typer.Option("--corpus-note", help="What the corpus is, for the model card.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Licence of the weights, for the model card.")] = "other",
    device: DeviceOpt = "auto",
    afresh: Annotated[bool, typer.Option("--afresh", help="Do not go on with an interrupted run.")] = False,
    prepare_only: Annotated[
        bool, typer.Option("--prepare-only", help="Stop when tokeniser and rows are there: needs no GPU.")
    ] = False,
) -> None:
    """Pretrain a small BERT on a corpus: masked words, or layer by layer from a teacher. Ctrl-C and go on later."""
    from palimpsest.execution.worker import pick_device
    from palimpsest.pretraining import PretrainSettings
    from palimpsest.pretraining import pretrain as train
    from palimpsest.pretraining.display import Display

    settings = PretrainSettings.parse(
        {
            "minutes": minutes, "steps": steps, "layers": layers, "hidden": hidden, "heads": heads,
            "vocabulary": vocabulary, "max_length": max_length, "mlm_weight": mlm_weight,
            "learning_rate": learning_rate, "warmup_steps": warmup_steps, "batch_tokens": batch_tokens, "seed": seed,
            "name": name, "corpus_note": corpus_note, "licence": licence,
        },
        "pretrain",
    )  # fmt: skip
    console = _console()
    with Display(console) as display:
        try:
            done = train(
                corpus, out, settings=settings, teacher=teacher, tokenizer=tokenizer, device=pick_device(device),
                resume=not afresh, prepare_only=prepare_only, progress=display.show,
            )  # fmt: skip
        except KeyboardInterrupt:
            display.stop()
            console.print("Stopped. The same command goes on from the last saved state.")
            raise typer.Exit(130) from None
    typer.echo(done)
    if not prepare_only:
        typer.echo(f"Next: palimpsest run demo --model {done}")


@app.command()
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
    made = _plan(name, place, None, None, None)
    _run(made, str(store), device, "stacked")
    for one, frame, material in _parts(made, place):
        typer.echo("")
        typer.echo(describe_incremental(frame))
        typer.echo("")
        for drawing in one.figures:
            typer.echo(f"figure: {draw(one, frame, drawing, out, **material)[0]}")
        for drawing in one.tables:
            typer.echo(f"table:  {tabulate(one, frame, drawing, out, **material)[0]}")


def _plan(study: str, store: Store | None, data: Path | None, model: str | None, set_: list[str] | None) -> Plan:
    from palimpsest.execution.plan import make_plan
    from palimpsest.specs.study import parse_settings
    from palimpsest.studies import load

    settings = parse_settings(set_ or []) | ({"encoder": model} if model else {})
    made = make_plan(load(study, settings), store, data)
    for note in made.left_out:
        _console(stderr=True).print(f"[yellow]left out[/] {_escape(note)}", highlight=False, soft_wrap=True)
    return made


@contextmanager
def _going_on(made: Plan, study: Study) -> Iterator[None]:
    """Of several studies, those that nothing is there of yet are named and passed over."""
    try:
        yield
    except NothingFinished as error:
        if len(made.studies) == 1:
            raise
        _console(stderr=True).print(f"[yellow]{_escape(study.name)}[/] {_escape(str(error))}", soft_wrap=True)


def _open(where: str) -> Store:
    from palimpsest.store import open_store

    return open_store(where)


def _open_if_there(where: str) -> Store | None:
    try:
        return _open(where)
    except MissingStore:
        return None


def _check_choice(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise UnknownName(what, given, known)


def _probes_note(trials: Sequence[Trial]) -> str:
    return "   (probes may stop earlier)" if any(t.probe for t in trials) else ""


def _frame(made: Plan, store: Store) -> Any:
    from palimpsest.analysis.table import table

    return table(made.cells, store)


def _parts(made: Plan, store: Store | None) -> Any:
    """Study by study: its table, and what some figures are drawn from besides."""
    from functools import cache

    from palimpsest.analysis.table import cka_table, curves_table, drift_table, epochs_table, table
    from palimpsest.analysis.verdicts import judge
    from palimpsest.execution.plan import dataset_rows

    for study in made.studies:
        cells = [cell for cell in made.cells if cell.at["study"] == study.name]
        material = {
            "epochs": lambda cells=cells: epochs_table(cells, store),
            "curves": lambda cells=cells: curves_table(cells, store),
            "drift": lambda cells=cells: drift_table(cells, store),
            "cka": lambda cells=cells: cka_table(cells, store),
            "datasets": lambda study=study: dataset_rows(study, made.resources.data),
            "claims": cache(lambda cells=tuple(cells): judge(cells, store, made.resources)),
        }
        yield study, table(cells, store), material
    if store is not None:
        _warn_of_problems(store)


def _warn_of_problems(store: Store) -> None:
    for problem in store.problems:
        _console(stderr=True).print(f"[yellow]skipped[/] {_escape(problem.path)}: {_escape(problem.reason)}")


def _folder(out: Path, study: Study, made: Plan) -> Path:
    """Several studies draw into folders of their own: tamkin2020/figure2, …"""
    return out.joinpath(*map(file_name, study.name.split("/"))) if len(made.studies) > 1 else out


def _run(
    made: Plan,
    place: str,
    device: str,
    engine: str,
    retry_failed: bool = False,
    limit: int | None = None,
    shard: str | None = None,
    track: Sequence[str] = (),
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
    if (
        device == "cuda" and where.get("executor") != "ray"
    ):  # torch takes seconds to import; where it may be needed later anyway, the bar is shown first
        from palimpsest.execution.worker import pick_device

        pick_device(device)
    store = open_store(place, create=True)
    part = Shard.parse(shard) if shard else None
    missing = made.missing(retry_failed, part)[:limit]
    console = _console()
    if not missing:
        which = f"of shard {shard}" if shard else f"{len(made.trials):,}"
        console.print(f"Nothing to run: all {which} trials are in {_escape(place)}.")
        return
    with ExitStack() as opened:
        trackers = [opened.enter_context(open_tracker(where_to)) for where_to in track]
        display = opened.enter_context(Display(console, missing, made))

        def show(event: Any) -> None:
            for tracker in trackers:
                tracker.show(event)
            display.show(event)

        try:
            run_plan(
                made, store, place, show, device, engine,  # type: ignore[arg-type]
                limit=limit, retry_failed=retry_failed, shard=part, **where,
            )  # fmt: skip
        except KeyboardInterrupt:
            display.stop()
            console.print(
                f"Stopped. {display.finished:,} of {len(missing):,} trials were finished and are in {_escape(place)}; "
                "the same command goes on from there.",
                soft_wrap=True,
            )
            raise typer.Exit(130) from None
    if display.failed:
        console.print(f"[yellow]{display.failed} trials failed[/]; `palimpsest status` says why.")


def _complain(message: str, debug: bool) -> None:
    """One readable message; with --debug, where it came from."""
    if debug:
        traceback.print_exc()
    _console(stderr=True).print(f"[bold red]error:[/] {_escape(message)}", highlight=False, soft_wrap=True)


def _console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _table(title: str, columns: list[str], rows: Sequence[tuple[str, ...]], numbers: tuple[int, ...] = ()) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        shown.add_column(
            column, overflow="fold", no_wrap=column != columns[-1], justify="right" if place in numbers else "left"
        )
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    _console().print(shown)


if __name__ == "__main__":
    main()
