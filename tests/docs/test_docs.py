"""The documentation: its keys are the specs' keys, its studies are studies, its commands exist, its links lead."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from palimpsest.cli import app
from palimpsest.specs.study import Study

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keys(page: str) -> set[tuple[str, str]]:
    """Headings and the keys in the tables under them."""
    found, heading = set(), ""
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line
        elif match := re.match(r"\| `(\w+)` \|", line):
            found.add((heading, match[1]))
    return found


def test_every_key_is_documented() -> None:
    written = (ROOT / "docs/study-files.md").read_text(encoding="utf-8")
    assert keys(written) == keys(generator().page()), "run `make docs`"
    assert {name for _, name in keys(written)} >= set(Study.model_fields)


def test_every_experiment_has_a_section() -> None:
    made = generator()
    kinds = {made._kind(e) for e in made.experiments()}
    assert kinds == set(re.findall(r"^## Experiment `(.*)`$", made.page(), re.M))
    assert {"incremental", "localized", "permutation", "probing"} <= kinds


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_studies_in_the_text_are_studies(page: Path) -> None:
    for text in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        if "experiments:" in text:
            Study.parse({"name": "example", **yaml.safe_load(text)}, page.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_in_the_text_exist(page: Path) -> None:
    known = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback is not None}
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"^palimpsest ([a-z]+)", text, re.M)) | set(re.findall(r"`palimpsest ([a-z]+)", text))
    assert named <= known
    if page.name == "README.md":
        table = text.partition("## Commands")[2].partition("##")[0]
        assert {
            name for cell in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`([a-z]+)", cell)
        } == known


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
