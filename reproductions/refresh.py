"""Bring a reproduction's page up to date: run the commands that it shows, and put what they print beneath them.

    python reproductions/refresh.py reproductions/gte-small

Commands are the lines of ``console`` blocks that begin with ``$``. What is not in such a block is left as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```console\n\$ palimpsest (?P<words>[^\n]*)\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
WIDTH = "150"


def commands(page: str) -> Iterator[tuple[str, str]]:
    """The commands of a page, and what it says that they print."""
    for block in BLOCK.finditer(page):
        yield block["words"], block["output"]


def output(words: str, folder: Path) -> str:
    """What a command prints in a folder."""
    from typer.testing import CliRunner

    from palimpsest.cli import app

    here = Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, shlex.split(words), env={"COLUMNS": WIDTH}, catch_exceptions=False)
    finally:
        os.chdir(here)
    if done.exit_code:
        raise SystemExit(f"palimpsest {words}\n{done.output}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


def refreshed(page: str, folder: Path) -> str:
    """The page with what its commands print now."""
    return BLOCK.sub(lambda b: f"```console\n$ palimpsest {b['words']}\n{output(b['words'], folder)}```", page)


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        page = folder / "README.md"
        page.write_text(refreshed(page.read_text(encoding="utf-8"), folder), encoding="utf-8")


if __name__ == "__main__":
    main()
