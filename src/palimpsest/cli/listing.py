"""Commands that list what there is: studies, tasks, models, errata."""

from __future__ import annotations

import typer

from palimpsest.cli.terminal import show_table


def studies() -> None:
    """List the shipped studies."""
    from palimpsest.studies import load, names

    rows = [(name, load(name)[0].title) for name in names()]
    show_table("Studies", ["name", "what it asks"], rows)


def tasks() -> None:
    """List the known tasks."""
    from palimpsest.tasks.registry import describe

    rows = [
        (r.name, ", ".join(r.metrics), f"{r.train_rows:,}", f"{r.validation_rows:,}", r.summary) for r in describe()
    ]
    show_table("Tasks", ["name", "metrics", "train", "valid.", "what it asks"], rows, numbers=(2, 3))
    typer.echo("Your own CSV, TSV or JSONL files become a task by naming their columns in a study.")


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
    show_table("Encoders", ["--model", "shape", "where from"], rows)
    typer.echo(f"Supported architectures: {', '.join(FAMILIES)}.")


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
