"""How things are shown in a terminal. Rich is imported when something is shown, not before."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any


def new_console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr)


def escape(text: str) -> str:
    from rich import markup

    return markup.escape(text)


def show_table(
    title: str, columns: list[str], rows: Sequence[tuple[str, ...]], numbers: tuple[int, ...] = (), wide: int = -1
) -> None:
    """Where there is not enough room, the column number `wide` is broken into lines."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        shown.add_column(
            column, overflow="fold", no_wrap=column != columns[wide], justify="right" if place in numbers else "left"
        )
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    new_console().print(shown)


def complain(message: str, debug: bool) -> None:
    """One readable message; with --debug, where it came from."""
    if debug:
        traceback.print_exc()
    new_console(stderr=True).print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
