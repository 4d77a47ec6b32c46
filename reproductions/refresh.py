"""Bring a reproduction's page up to date: run the commands that it shows, and put what they print beneath them.

    python reproductions/refresh.py reproductions/gte-small

Commands are the lines of ``console`` blocks that begin with ``$``. What is not in such a block is left as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```console\n\$ (?P<words>[^\n]*)\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
WIDTH = "150"


def commands(page: str) -> Iterator[tuple[str, str]]:
    """The commands of a page, and what it says that they print."""
    for block in BLOCK.finditer(page):
        yield block["words"], block["output"]


def output(words: str, folder: Path) -> str:
    """What a command, `palimpsest …` or `python …`, prints in a folder."""
    start = {"palimpsest": [sys.executable, "-m", "palimpsest.cli"], "python": [sys.executable]}
    program, *rest = shlex.split(words)
    done = subprocess.run(
        [*start[program], *rest], cwd=folder, env=os.environ | {"COLUMNS": WIDTH}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{words}\n{done.stdout}{done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


def refreshed(page: str, folder: Path) -> str:
    """The page with what its commands print now."""
    return BLOCK.sub(lambda b: f"```console\n$ {b['words']}\n{output(b['words'], folder)}```", page)


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        page = folder / "README.md"
        page.write_text(refreshed(page.read_text(encoding="utf-8"), folder), encoding="utf-8")


if __name__ == "__main__":
    main()
