"""The page's commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from palimpsest.cli import app
from palimpsest.errors import SpecError
from palimpsest.store import open_store


def test_report_writes_one_file(tmp_path: Path) -> None:
    open_store(tmp_path / "s", create=True)
    out = tmp_path / "pages" / "report.html"
    words = ["report", "demo", "--store", str(tmp_path / "s"), "--out", str(out), "--set", "trials=2"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    text = out.read_text(encoding="utf-8")
    assert "A first look" in text
    assert "--set trials=2" in text


def test_serve_needs_to_know_what_to_show(tmp_path: Path) -> None:
    open_store(tmp_path / "s", create=True)
    with pytest.raises(SpecError, match="palimpsest serve STUDY"):
        CliRunner().invoke(app, ["serve", "--store", str(tmp_path / "s")], catch_exceptions=False)
