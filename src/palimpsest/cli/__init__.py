"""The commands. No other room knows about the terminal."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from palimpsest.cli.listing import errata, models, studies, tasks
from palimpsest.cli.looking import export, figures, report, serve, tables
from palimpsest.cli.making import pretrain, surgery
from palimpsest.cli.running import demo, plan, run, status
from palimpsest.cli.terminal import complain
from palimpsest.errors import PalimpsestError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Find out which pretrained layers matter for your task.",
)
for _command in (
    studies, tasks, models, plan, run, status, figures, tables, errata, export, report, serve, surgery, pretrain, demo,
):  # fmt: skip
    app.command()(_command)


def main() -> None:
    """The entry point: errors that are meant for people are shown as one message, without a traceback."""
    debug = "--debug" in sys.argv or bool(os.environ.get("PALIMPSEST_DEBUG"))
    sys.argv = [a for a in sys.argv if a != "--debug"]
    try:
        app()
    except PalimpsestError as error:
        complain(str(error), debug)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has had enough
        sys.exit(1)
    except Exception as error:
        complain(f"{type(error).__name__}: {error} (this is a bug in Palimpsest; --debug shows where)", debug)
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
