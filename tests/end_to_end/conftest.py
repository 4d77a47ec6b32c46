"""A user's folder, and the command line, run in this process (fast) or in one of its own (to be interrupted)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import STUDY, Answer, write_reviews

from palimpsest import cli


@pytest.fixture
def folder(tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: a study of four trials, and its data."""
    write_reviews(tmp_path / "train.csv", 48, seed=1)
    write_reviews(tmp_path / "dev.csv", 16, seed=2)
    (tmp_path / "study.yaml").write_text(STUDY.format(encoder=tiny_checkpoint), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def palimpsest(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """``palimpsest("plan", "study.yaml")`` in this process and in the folder, through the real entry point."""
    assert Path.cwd() == folder

    def call(*args: Any) -> Answer:
        monkeypatch.setattr(sys, "argv", ["palimpsest", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        said = capsys.readouterr()
        code = stop.value.code
        return Answer(code if isinstance(code, int) else 0, said.out, said.err)

    return call


@pytest.fixture
def process(folder: Path) -> Callable[..., subprocess.Popen[str]]:
    """The same in a process of its own."""

    def start(*args: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "palimpsest.cli", *map(str, args)]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)

    return start
