"""The page in a real browser."""

from __future__ import annotations

import csv
import io
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from page_material import SMALL, Made, failed, made_up, make, make_plan

from palimpsest.analysis.table import table
from palimpsest.figures.heads import differences
from palimpsest.report.document import write_report
from palimpsest.report.page import gather, payload, study_pages
from palimpsest.report.server import Watched, application
from palimpsest.specs.expansion import Cell
from palimpsest.store import Record
from palimpsest.store.running import write_note

NASTY = "<img src=x onerror=alert(1)></script><script>document.title='owned'</script><b>bold</b>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    return write_report(make(folder, leave=6, fail=2).payload(), folder / "report.html").as_uri()


def test_the_report_opens_alone_and_in_silence(tab: Any, report: str) -> None:
    page = tab.open(report)
    assert page.inner_text("h1") == "A small study"
    assert "of 322" in page.inner_text("#facts")
    for heading in (
        "How many pretrained layers are needed",
        "Which layers matter",
        "Does the order of the layers matter",
    ):
        assert heading in page.inner_text("#plots")
    colours = """[...document.querySelectorAll('[data-figure=localized] .key .entry:has(path)')]
        .map((e) => [e.textContent, e.querySelector('path').getAttribute('fill')])"""
    assert dict(page.evaluate(colours)) == {"preserved": "#0072B2", "re-initialised": "#D55E00"}  # as in the figure
    assert "k = 0" in page.inner_text("#schematic")
    assert "torch 2.13.0" in page.inner_text("#provenance-body")
    assert "palimpsest run it" in page.inner_text("#reproduce-body")
    assert "8 trials of 322 are missing, 2 of them because they failed" in page.inner_text("#progress")
    assert "diverged" in page.inner_text("#failures")
    page.evaluate("document.querySelector('footer').scrollIntoView()")
    page.wait_for_timeout(300)
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("data:", "blob:"))] == [report]


def test_hover_and_click_tell_what_is_behind_a_point(tab: Any, report: str) -> None:
    page = tab.open(report)
    place = page.evaluate("""() => {
        const plot = document.querySelector('[data-figure=incremental] .plot');
        const marker = plot.querySelectorAll('.trace')[0].querySelectorAll('path.point')[0].getBoundingClientRect();
        return [marker.x + marker.width / 2, marker.y + marker.height / 2];
    }""")
    page.mouse.move(*place)
    page.wait_for_selector(".hoverlayer .hovertext")
    told = page.text_content(".hoverlayer .hovertext")
    assert "k = 0" in told
    assert "n = 3" in told
    assert "interval" in told
    assert "trials 0:" in told
    page.mouse.click(*place)
    page.wait_for_selector("#point:not([hidden])")
    assert page.locator("#point tbody tr").count() == 3
    page.keyboard.press("Escape")
    assert page.locator("#point").is_hidden()


def test_switches(tab: Any, report: str) -> None:
    page = tab.open(report)
    panels = page.locator("[data-figure=incremental] .panel")
    assert panels.count() == 2
    page.uncheck("#choose-tasks input[value=cola]", force=True)
    assert panels.count() == 1
    lines = page.locator("[data-figure=incremental] > .key .entry")
    before = lines.count()
    page.uncheck("#choose-sizes input[value='5k']", force=True)
    assert lines.count() == before - 1
    read = """() => { const d = document.querySelector('[data-figure=incremental] .plot').data;
                      return [d.length, d[d.length - 1].error_y.array, d[d.length - 1].y]; }"""
    traces, t_bars, accuracy = page.evaluate(read)
    page.select_option("#choose-interval", "bootstrap")
    tab.until(lambda: page.evaluate(read)[1] != t_bars)
    page.select_option("#choose-metric", "validation_loss")
    tab.until(lambda: page.evaluate(read)[2] != accuracy)
    page.check("#choose-raw input", force=True)
    tab.until(lambda: page.evaluate(read)[0] == 2 * traces)
    page.focus("[data-figure=incremental] .plot")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#point:not([hidden])")
    assert tab.complaints == []


def test_a_panel_without_data_says_so_and_keeps_nothing_of_what_stood_there(tab: Any, report: str) -> None:
    page = tab.open(report)
    panel = page.locator("[data-figure=incremental] .panel").first  # SST-2, which has no correlation
    page.select_option("#choose-metric", "mcc")
    tab.until(lambda: "None of the trials here has this metric." in panel.inner_text())
    assert panel.locator(".trace").count() == 0
    page.select_option("#choose-metric", "own")
    tab.until(lambda: panel.locator(".trace").count() > 0)
    assert "None" not in panel.inner_text()
    page.uncheck("#choose-sizes input[value='5k']", force=True)
    place = panel.locator("path.point").first.bounding_box()
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.wait_for_selector("#point:not([hidden])")
    assert tab.complaints == []


def test_another_study_in_which_a_task_has_nothing_yet(tab: Any, tmp_path: Path) -> None:
    few = {"kind": "incremental", "trials": 1, "preserved": [0, 12]}
    made = make(tmp_path, {"name": "a", "tasks": ["sst2"], "experiments": [{**few, "sizes": [500]}]})
    other = make_plan({"name": "b", "tasks": ["sst2"], "experiments": [{**few, "sizes": [5000]}]})
    pages = [page for plan in (made.plan, other) for page in study_pages(plan, gather(plan, made.store))]
    page = tab.open(write_report(payload(pages, "s", "c"), tmp_path / "two.html").as_uri())
    page.select_option("#study-choice select", "1")
    tab.until(lambda: "Nothing is finished here yet." in page.inner_text("#plots .panel"))
    assert page.locator("#plots .trace").count() == 0
    assert tab.complaints == []


def test_heads_are_compared_with_the_intact_encoder_as_in_the_figure(tab: Any, tmp_path: Path) -> None:
    made = make(tmp_path)
    page = tab.open(write_report(made.payload(), tmp_path / "heads.html").as_uri())
    page.locator("[data-figure=heads]").scroll_into_view_if_needed()
    page.wait_for_selector("[data-figure=heads] .trace, [data-figure=heads] .hm", state="attached")
    shown = page.evaluate("document.querySelector('[data-figure=heads] .plot').data[0].z")
    expected, _ = differences(table(made.plan.cells, made.store), tasks=["sst2"])
    grid = expected.pivot_table(index="layer", columns="head", values="difference")
    assert np.asarray(shown) == pytest.approx(grid.to_numpy(dtype=float), abs=2e-5)
    assert "difference to the intact encoder" in page.inner_text("[data-figure=heads]")
    assert tab.complaints == []


def test_long_names_stand_at_the_side(tab: Any, tmp_path: Path) -> None:
    variants = {"intact": [], "layers 9 to 11 are taken out": [{"kind": "delete", "layers": [9, 10, 11]}]}
    experiments = [{"kind": "custom", "sizes": [500], "trials": 3, "variants": variants}]
    made = make(tmp_path, {"name": "v", "tasks": ["sst2"], "experiments": experiments})
    page = tab.open(write_report(made.payload(), tmp_path / "names.html").as_uri())
    assert page.locator("#plots .ytick").all_text_contents() == ["intact", "layers 9 to 11 aretaken out"]
    data = page.evaluate("document.querySelector('#plots .plot').data[0]")
    means = table(made.plan.cells, made.store).groupby("variant", sort=False)["score"].mean()
    assert data["x"] == pytest.approx(list(means), abs=2e-5)
    assert tab.complaints == []


def test_the_data_can_be_taken_along(tab: Any, report: str) -> None:
    page = tab.open(report)
    with page.expect_download() as started:
        page.click("#csv-trials")
    rows = list(csv.DictReader(io.StringIO(started.value.path().read_text(encoding="utf-8"))))
    assert len({row["id"] for row in rows}) == 322
    assert {row["status"] for row in rows} == {"finished", "failed", "missing"}
    first = next(r for r in rows if (r["task"], r["size"], r["point"], r["trial"]) == ("sst2", "500", "k = 0", "0"))
    cell = next(c for c in make_plan(SMALL).cells if c.trial.identity == first["id"])
    assert float(first["accuracy"]) == pytest.approx(made_up(cell).outcome.metrics["accuracy"], abs=1e-5)


def test_markup_in_names_is_shown_as_text(tab: Any, tmp_path: Path) -> None:
    task = {
        "name": "<img src=x onerror=alert(1)><b>bold",
        "train": "a.csv",
        "validation": "b.csv",
        "text": "t",
        "label": "l",
    }
    experiments = [{"kind": "incremental", "label": NASTY, "sizes": [500], "trials": 2, "preserved": [0, 12]}]
    experiments += [{"kind": "custom", "label": "v", "sizes": [500], "trials": 2, "variants": {NASTY: []}}]
    study = {"name": NASTY, "title": NASTY, "description": NASTY, "tasks": [task], "experiments": experiments}
    made = make(tmp_path, study, fail=1, reason=NASTY)
    page = tab.open(write_report(made.payload(), tmp_path / "nasty.html").as_uri())
    assert page.inner_text("h1") == NASTY
    assert page.title().startswith(NASTY)
    assert NASTY in page.inner_text("#failures")
    assert page.locator("img").count() == 0
    assert page.locator("main b", has_text="bold").count() == page.locator(".row .label b").count()
    assert page.evaluate("document.querySelectorAll('script').length") == 4
    assert "<b>" not in page.evaluate(
        "[...document.querySelectorAll('#plots .ytick text')].map(t => t.innerHTML).join()"
    )
    assert tab.complaints == []


def test_twenty_thousand_trials(tab: Any, tmp_path: Path) -> None:
    experiments = [{"kind": "incremental", "sizes": [500, 5000, 50000], "trials": 88}]
    experiments += [{"kind": "localized", "sizes": [500, 5000], "trials": 42}]
    plan = make_plan({"name": "big", "tasks": ["sst2", "cola", "qnli", "mrpc"], "experiments": experiments})
    assert len(plan.trials) > 19_500
    made = Made(plan, _Instant(plan.cells), tmp_path)
    address = write_report(made.payload(), tmp_path / "big.html").as_uri()
    assert min(_first_paint(tab, address) for _ in range(3)) < 2000  # others are at work here too: the best of three
    page = tab.open(address)
    page.uncheck("#choose-tasks input[value=sst2]", force=True)
    assert page.locator("[data-figure=incremental] .panel").count() == 3
    assert f"{len(plan.trials):,}" in page.inner_text("#facts")
    assert tab.complaints == []


def _first_paint(tab: Any, address: str) -> float:
    """Milliseconds from the navigation to the first content on the screen, by the browser's own clock."""
    found: list[float] = []

    def painted() -> bool:
        read = "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)"
        found[:] = tab.page.evaluate(read)
        return bool(found)

    tab.page.goto("about:blank")
    tab.page.goto(address, wait_until="commit")
    tab.until(painted)
    return found[0]


class _Instant:
    """A store whose records are made up when they are asked for: twenty thousand files are another test's matter."""

    problems: list[Any] = []  # noqa: RUF012

    def __init__(self, cells: list[Cell]) -> None:
        self._cells = {cell.trial.identity: cell for cell in cells}

    def ids(self) -> set[str]:
        return set(self._cells)

    def get(self, id: str) -> Record:
        return made_up(self._cells[id])

    def place(self, id: str) -> str:
        return f"nowhere/{id}"

    def notes(self, _: str) -> list[Any]:
        return []


def test_the_live_page_shows_what_happens(tab: Any, tmp_path: Path) -> None:
    made = make(tmp_path, leave=8)
    running = {"started": "2026-01-02T03:04:05+00:00", "total": 8, "finished": 0, "failed": 0, "seconds_left": 300,
               "trials_per_minute": 4.0, "steps_per_second": 10.0,
               "running": [{"id": made.missing[0].trial.identity, "curve": [[1, 0.9], [2, 0.7]]}]}  # fmt: skip
    write_note(made.store, "running", "1", running)
    server = _Server(Watched(made.plan, made.store, str(made.place), "palimpsest run small"))
    with server:
        page = tab.open(server.address, "#losses .trace")
        assert "314 of 322" in page.inner_text("#facts")
        assert "about 5 min" in page.inner_text("#pace")
        assert page.locator("#grid .cell.running").count() == 1
        made.store.put(made_up(made.missing[0]))
        made.store.put(failed(made.missing[1], "it diverged while you watched"))
        tab.until(lambda: "315 of 322" in page.inner_text("#facts"))
        assert "it diverged while you watched" in page.inner_text("#failures")
        (made.place / "running" / "1.json").unlink()  # the driver has ended
        tab.until(lambda: "nothing" in page.inner_text("#pace"))
        assert page.locator("#grid .cell.running").count() == 0
        page.reload()
        assert "315 of 322" in page.inner_text("#facts")
        assert tab.complaints == []
        assert {url.split("/")[2] for url in tab.requests if url.startswith("http")} == {server.address.split("/")[2]}


class _Server:
    """The live page on a free port, in a thread."""

    def __init__(self, watched: Watched) -> None:
        config = uvicorn.Config(application(watched), port=0, log_level="warning", timeout_graceful_shutdown=1)
        self._watched, self._server = watched, uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.02)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}/"

    def __exit__(self, *_: object) -> None:
        self._watched.close()
        self._server.should_exit = True
        self._thread.join(timeout=20)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_on_a_phone(browser: Any, report: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.goto(report)
    page.wait_for_selector("#plots .js-plotly-plot", state="attached", timeout=60_000)
    background = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(background)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.click("#theme")
    assert page.evaluate(background) != before
    assert (before == "rgb(252, 251, 248)") == (scheme == "light")
    context.close()


def test_of_several_studies_the_fullest_that_is_drawn_comes_first(tmp_path: Path, tab: Any) -> None:
    made = make(tmp_path)
    few = make_plan(
        {**SMALL, "name": "few", "title": "Few", "experiments": [{"kind": "incremental", "preserved": ["L"]}]}
    )
    undrawn = make_plan({**SMALL, "name": "undrawn", "title": "Undrawn"})
    plans = [few, undrawn, made.plan]
    content = payload([page for plan in plans for page in study_pages(plan, gather(plan, made.store))], "s", "c")
    assert [study["drawn"] for study in content["studies"]] == [bool(p.studies[0].figures) for p in plans]
    for study, drawn in zip(content["studies"], (True, False, True), strict=True):
        study["drawn"] = drawn
    page = tab.open(write_report(content, tmp_path / "three.html").as_uri())
    assert page.inner_text("h1") == content["studies"][2]["title"]
    assert page.input_value("#study-choice select") == "2"


def test_a_payload_holds_several_studies(tmp_path: Path, tab: Any) -> None:
    made = make(tmp_path)
    other = make_plan({**SMALL, "name": "other", "title": "The other"})
    pages = study_pages(made.plan, gather(made.plan, made.store)) + study_pages(other, gather(other, made.store))
    long = {"title": "A study whose title is rather longer than any screen of a telephone is wide, and then some"}
    content = payload(pages, "s", "c")
    content["studies"][1] |= long
    page = tab.open(write_report(content, tmp_path / "two.html").as_uri())
    page.set_viewport_size({"width": 390, "height": 844})
    tab.until(lambda: page.evaluate("document.documentElement.scrollWidth") == 390)
    page.select_option("#study-choice select", "1")
    assert page.inner_text("h1") == long["title"]
    assert tab.complaints == []
