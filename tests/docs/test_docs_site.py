"""The documentation as a site: it builds without a warning, and reads without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_every_page_is_there(site: Path) -> None:
    written = {p.relative_to(ROOT / "docs").with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")}
    reproduced = {Path(p.parent.name, "index.html") for p in (ROOT / "reproductions").glob("*/README.md")}
    assert reproduced
    reports = {Path(p.parent.name, p.name) for p in (ROOT / "reproductions").glob("*/report.html")}
    assert {p.relative_to(site) for p in site.rglob("*.html")} == {*written, *reproduced, *reports, Path("404.html")}
    assert not list(site.rglob("*.py"))


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|source)\b[^>]*?\ssrc=[\"']?([^\"'\s>]+)", text)
        for link in re.findall(r"<link\b[^>]*>", text):
            if not re.search(r"rel=[\"']?(?:canonical|next|prev)", link):
                fetched += re.findall(r"href=[\"']?([^\"'\s>]+)", link)
        assert fetched
        assert not [address for address in fetched if re.match(r"(?:[a-z]+:)?//", address)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style
