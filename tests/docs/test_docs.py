"""The documentation: its keys are the specs', its studies are studies, its commands can be typed, its links lead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main
import yaml
from scripts import script

from palimpsest.cli import app
from palimpsest.figures.registry import check
from palimpsest.specs.expansion import EncoderIdentity, TaskIdentity, expand
from palimpsest.specs.protocol import PROTOCOLS
from palimpsest.specs.settings import parse_settings
from palimpsest.specs.study import Study
from palimpsest.studies import load

ROOT = Path(__file__).parents[2]
REPRODUCTIONS = sorted((ROOT / "reproductions").glob("*/README.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *REPRODUCTIONS]
EXPERIMENTS = [page for page in PAGES if page.parent.name == "experiments" and page.stem != "index"]
POCKET = EncoderIdentity("pocket", None, 12, 4)
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def generator() -> ModuleType:
    return script(ROOT / "docs/generate.py")


def keys(page: str) -> set[tuple[str, str]]:
    """Headings and the keys in the tables under them."""
    found, heading = set(), ""
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line
        elif match := re.match(r"\| `(\w+)` \|", line):
            found.add((heading, match[1]))
    return found


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


def studies(page: Path) -> list[Study]:
    """The studies that are written out on a page."""
    texts = [text for text in blocks(page, "yaml") if "experiments:" in text]
    return [Study.parse({"name": "example", **yaml.safe_load(text)}, page.name) for text in texts]


def inline(page: Path) -> list[str]:
    """What stands between single backquotes, wherever its lines break."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def lines(page: Path) -> Iterator[list[str]]:
    """The command lines on a page, as words without the first, `palimpsest`."""
    written = [line for text in blocks(page, r"\w*") for line in text.replace("\\\n", " ").splitlines()]
    for line in [*written, *inline(page)]:
        if match := re.search(r"(?:^|[\s/])palimpsest (?=[a-z])(.*)", line):
            yield shlex.split(match[1], comments=True)


def test_every_key_is_documented() -> None:
    written = (ROOT / "docs/study-files.md").read_text(encoding="utf-8")
    assert keys(written) == keys(generator().page()), "run `make docs`"
    assert {name for _, name in keys(written)} >= set(Study.model_fields)


def test_every_experiment_has_a_section_and_a_page() -> None:
    made = generator()
    kinds = {made._kind(e) for e in made.experiments()}
    assert kinds == set(re.findall(r"^## Experiment `(.*)`$", made.page(), re.M))
    assert {"incremental", "localized", "permutation", "probing"} <= kinds
    for kind in kinds:
        shown = studies(ROOT / f"docs/experiments/{kind}.md")
        assert kind in {getattr(e, "kind") for study in shown for e in study.experiments}  # noqa: B009


@pytest.mark.parametrize("page", EXPERIMENTS, ids=lambda p: p.stem)
def test_a_page_on_an_experiment_asks_shows_reads_and_counts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search(r"^\*\*[^*]+\?\*\*", text, re.M), "the question"
    assert re.search(r"^!\[.+\]\(\.\./images/experiments/", text, re.M)
    assert re.search(r"^## Reading (it|them)$", text, re.M)
    first, *_ = studies(page)
    tasks = {name: TaskIdentity(name, None, 1_000) for name in first.task_names}
    trials = {t.identity for c in expand(first, POCKET, tasks) for t in (*c.trial.ancestors, c.trial)}
    costs = text.partition("## What it costs\n")[2].partition("\n## ")[0]
    assert f"{len(trials)} trials" in " ".join(costs.split())


def test_every_protocol_is_described() -> None:
    page = (ROOT / "docs/protocols.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.M)) == set(PROTOCOLS)


@every_page
def test_studies_in_the_text_can_be_planned_and_drawn(page: Path) -> None:
    for study in studies(page):
        check(study)
        tasks = {name: TaskIdentity(name, None, 100_000) for name in study.task_names}
        assert expand(study, EncoderIdentity("bert", None, 12, 12), tasks)


@every_page
def test_commands_in_the_text_can_be_typed(page: Path) -> None:
    for name, *words in lines(page):
        assert name in COMMANDS
        given = COMMANDS[name].make_context(name, words, resilient_parsing=not words).params
        settings = parse_settings(given.get("set_") or [])
        study = given.get("study") or ""
        if study and study != study.upper() and not study.endswith(".yaml"):  # not STUDY, and not a file of one's own
            assert load(study, settings)


@every_page
def test_options_in_the_text_exist(page: Path) -> None:
    known = {name: {o for p in command.params for o in p.opts} for name, command in COMMANDS.items()}
    everywhere = {option for own in known.values() for option in own} | {"--debug", "--help"}
    for code in inline(page):
        first = code.split()[0]
        if first in known or first.startswith("--"):
            assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", code)) <= known.get(first, everywhere), code


def test_every_command_is_in_the_readme() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Commands")[2].partition("##")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.M)
    assert {name for cell in cells for name in re.findall(r"`([a-z]+)", cell)} == set(COMMANDS)


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
