"""What was run for real is kept in the repository: it can be looked at from there, and says what its page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from palimpsest.cli import app
from palimpsest.execution.plan import make_plan
from palimpsest.store import open_store
from palimpsest.studies import load

ROOT = Path(__file__).parents[2] / "reproductions"
HERE = ROOT / "gte-small"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("offline")
def test_the_time_that_the_page_gives_is_in_the_archive() -> None:
    words = ["tables", "tamkin2020/runtime", "--store", str(HERE / "results.parquet"), "--model", "gte-small"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    page = (HERE / "README.md").read_text(encoding="utf-8")
    rows = [line for line in done.stdout.splitlines() if re.search(r" (s|min|h) ", line)]
    assert len(rows) > 4
    assert [row for row in rows if row.rstrip() not in page] == []


@pytest.mark.usefixtures("offline")
def test_its_studies_name_the_trials_that_are_there() -> None:
    store = open_store(HERE / "results.parquet")
    settings = {"encoder": "gte-small"}
    papers = make_plan(load("tamkin2020", settings), store, facts=store.facts)
    run = make_plan(
        [*load(str(HERE / "tamkin2020.yaml"), settings), *load(str(HERE / "large.yaml"), settings)],
        store,
        facts=store.facts,
    )
    finished = {id for id, status in papers.statuses.items() if status == "finished"}
    assert finished == store.ids()
    assert finished <= set(run.trials) <= set(papers.trials)
