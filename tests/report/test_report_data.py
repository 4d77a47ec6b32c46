"""What the page is made of, without a browser."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from page_material import SMALL, Made, failed, made_up, make, make_plan
from rich.console import Console

from palimpsest.analysis.statistics import summarise
from palimpsest.analysis.table import table
from palimpsest.errors import PalimpsestError, StoreError
from palimpsest.report import document
from palimpsest.report.document import embedded, self_contained
from palimpsest.report.gathering import Gathered
from palimpsest.report.page import gather, study_pages
from palimpsest.report.points import Points
from palimpsest.report.reproduce import command, study_yaml
from palimpsest.report.watch import watch
from palimpsest.specs.study import Study


def test_points_are_the_means_that_tables_have(made: Made) -> None:
    study = made.payload()["studies"][0]
    by = ["task", "size", "preserved"]
    frame = table(made.plan.cells, made.store)
    for kind, column in (("t", slice(1, 4)), ("bootstrap", slice(4, 6))):
        expected = summarise(frame[frame["kind"] == "incremental"], by, kind).set_index(by)
        for point in (p for p in study["points"] if p["k"] == "incremental"):
            metric = "mcc" if point["t"] == "cola" else "accuracy"
            row = expected.loc[(point["t"], point["s"], point["x"])]
            names = ["mean", "low", "high"] if kind == "t" else ["low", "high"]
            assert point["stat"][metric][0] == row["n"]
            assert point["stat"][metric][column] == pytest.approx([row[n] for n in names], abs=1e-5)


def test_everything_that_is_planned_is_a_point_and_shared_trials_count_once(made: Made) -> None:
    study = made.payload()["studies"][0]
    ids = [id for point in study["points"] for id in point["id"]]
    assert set(ids) == set(made.plan.trials)
    assert all(len(set(p["id"])) == len(p["id"]) for p in study["points"])
    states = {id: s for p in study["points"] for id, s in zip(p["id"], p["st"], strict=True)}
    assert [list(states.values()).count(s) for s in "dfm"] == [314, 2, 6]
    assert len(study["failures"]) == 2
    assert len(study["newest"]) == 10


def test_different_trials_at_one_place_are_not_averaged() -> None:
    experiments = [{"kind": "incremental", "sizes": [500], "trials": 2, "epochs": e} for e in (1, 5)]
    points = Points.of(make_plan({"name": "two", "tasks": ["sst2"], "experiments": experiments}).cells).points
    assert len(points) == 2 * 13
    assert {point.at["series"] for point in points} == {"part 1", "part 2"}
    assert all(len(point.trials) == 2 for point in points)


def test_trials_that_looked_only_in_the_end_are_not_drawn_over_the_epochs(tmp_path: Path) -> None:
    made = make(tmp_path, leave=322)
    one, other, *_ = made.payload()["studies"][0]["points"]
    cells = {cell.trial.identity: cell for cell in made.plan.cells}
    for id in (one["id"][0], *other["id"]):
        record = made_up(cells[id])
        made.store.put(replace(record, outcome=replace(record.outcome, epochs=record.outcome.epochs[-1:])))
    made.store.put(made_up(cells[one["id"][1]]))
    one, other, *_ = made.payload()["studies"][0]["points"]
    assert [row[0] for row in one["ep"]] == [0.7, 0.35, 0.2333]  # of the second trial alone
    assert one["stat"]["accuracy"][0] == 2
    assert other["ep"] == []


def test_gathering_reads_what_is_new_and_what_was_tried_again(made: Made) -> None:
    gathered = Gathered(made.store, made.plan.trials)
    assert len(gathered.refresh()) == 316
    assert gathered.refresh() == set()
    made.store.put(made_up(made.missing[0]))
    again = next(c for c in made.plan.cells if c.trial.identity == gathered.failed[0].id)
    made.store.put(made_up(again))
    assert gathered.refresh() == {made.missing[0].trial.identity, again.trial.identity}
    assert len(gathered.failed) == 1
    with pytest.raises(StoreError, match="only reads"):
        gathered.put(made_up(made.missing[1]))


def test_a_damaged_record_counts_as_missing(made: Made) -> None:
    path = Path(made.store.place(made.missing[0].trial.identity))
    path.parent.mkdir(exist_ok=True)
    path.write_text("{")
    assert len(gather(made.plan, made.store).ids()) == 316


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"protocol": "pocket"},
        {"protocol": {"extends": "paper", "learning_rate": 1e-4}},
        {"experiments": [{"kind": "incremental", "sizes": [0.1, "all"], "trials": {"10%": 2, "default": 1}}]},
        {"tasks": [{"name": "mine", "train": "data/a.csv", "validation": "data/b.csv", "text": "a", "label": "b"}]},
        {"experiments": [{"kind": "custom", "variants": {"a: b": [{"kind": "permute", "order": [2, 1]}], "#": []}}]},
    ],
)  # fmt: skip
def test_the_yaml_says_the_same_as_the_study(change: dict[str, object]) -> None:
    study = Study.parse({**SMALL, **change}, "test")
    again = Study.parse(yaml.safe_load(study_yaml(study)), "yaml")
    assert again.canonical == study.canonical
    assert again.identity == study.identity
    assert "data/" not in study_yaml(study)  # where files are is nobody's business


def test_the_command_survives_a_shell() -> None:
    assert command("my study.yaml", "a store", Path("d"), "m", ["sizes=500", "x='y'"]) == (
        "palimpsest run 'my study.yaml' --store 'a store' --model m --data d --set sizes=500 --set 'x='\"'\"'y'\"'\"''"
    )


def test_what_is_embedded_cannot_leave_its_element() -> None:
    text = embedded({"a": "</script><!--<script>&"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>&"}


def test_a_report_without_plotly_says_what_to_install(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "find_spec", lambda _: None)
    with pytest.raises(PalimpsestError, match=r"pip install 'palimpsest-lm\[page\]'"):
        self_contained(made.payload())


def test_an_empty_store_has_a_page_too(tmp_path: Path) -> None:
    study = make(tmp_path, leave=322).payload()["studies"][0]
    assert {state for point in study["points"] for state in point["st"]} == {"m"}
    assert study["provenance"]["runs"] == []
    assert self_contained(make(tmp_path, leave=322).payload()).startswith("<!doctype html>")


def test_changes_hold_only_the_points_that_changed(made: Made) -> None:
    gathered = gather(made.plan, made.store)
    (page,) = study_pages(made.plan, gathered)
    assert page.changes({"0" * 32}) is None
    made.store.put(failed(made.missing[0], "why not"))
    new = gathered.refresh()
    page.forget(new)
    changes = page.changes(new)
    assert changes is not None
    ((number, results),) = changes["points"]
    assert made.missing[0].trial.identity in page.points.points[number].trials
    assert "f" in results["st"]
    assert "why not" in [f["reason"] for f in changes["failures"]]


def test_watching_in_a_terminal(made: Made) -> None:
    console = Console(width=140, record=True, file=io.StringIO())
    watch(made.plan, made.store, console, rounds=1)
    text = console.export_text()
    assert "no driver is at work" in text
    assert "diverged" in text
    (row,) = (line for line in text.splitlines() if line.startswith("heads") and "CoLA" in line)
    assert row.split()[3:7] == ["8", "0", "2", "6"]
