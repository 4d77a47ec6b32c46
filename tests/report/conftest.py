"""A real browser."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_material import Made, make

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Closed after its module: while it is open, no other event loop can run in this thread."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path, "the tests of the page need Chromium; `make browser` installs it or says how"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        launched.close()


class Tab:
    """A page in the browser that notes what it should not do."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, address: str, drawn: str = "#plots .js-plotly-plot .trace") -> Any:
        self.page.goto(address)
        self.page.wait_for_selector(drawn, state="attached")
        return self.page

    def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something; Playwright's own way evaluates texts, which the page does not allow."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "it did not come to pass"
            self.page.wait_for_timeout(50)


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    opened = Tab(browser)
    yield opened
    opened.context.close()


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make(tmp_path, leave=6, fail=2)
