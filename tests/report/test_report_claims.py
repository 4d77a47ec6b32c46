"""The claims with their verdicts, in a report on a small paper whose scores are made up but whose predictions are real.

The made-up world is as the paper claims, but for the order of the layers, which is nothing here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from page_material import Made
from typer.testing import CliRunner

from palimpsest.cli import app
from palimpsest.execution.plan import make_plan
from palimpsest.report.page import gather, payload, study_pages
from palimpsest.specs.expansion import Cell
from palimpsest.specs.study_file import read
from palimpsest.store import Record, open_store
from palimpsest.training.outcome import Outcome
from palimpsest.training.predictions import pack

DEPTH, EXAMPLES = 12, 400
STUDY = """
title: A small paper
encoder: pocket
tasks:
  - {name: first, train: first.csv, validation: first.csv, text: text, label: label}
  - {name: second, train: second.csv, validation: second.csv, text: text, label: label}
experiments:
  - {kind: incremental, sizes: [50, 200], trials: 3}
  - {kind: probing, sizes: [all], trials: 3}
  - {kind: localized, sizes: [200], block_size: 3, trials: 3}
  - {kind: permutation, sizes: [200], permutations: 5}
"""
EXPECTED = {1: "supported", 2: "supported", 3: "supported", 4: "contradicted"}


def score(at: dict[str, Any]) -> float:
    """Much data: early layers give all. Few: the late ones, where probing is good. Tasks differ; order is nothing."""
    match at["kind"]:
        case "incremental":
            share = at["preserved"] / DEPTH
            return float(0.55 + (0.4 * share**0.3 if at["size"] == "200" else 0.3 * share**3))
        case "probing":
            return float(0.5 + 0.35 * (at["layer"] / DEPTH) ** 2)
        case "localized":
            loss = 0.25 if (at["first"] <= 4) == (at["task"] == "first") else 0.02
            return 0.95 - loss if at["mode"] == "reinitialized" else 0.55 + loss
        case _:
            return 0.95


def made_up(cell: Cell, right: npt.NDArray[np.int64]) -> Record:
    """Wrong at as many examples as the score says, always at the hardest ones."""
    noise = np.random.default_rng(int(cell.trial.identity[:8], 16)).normal(0, 0.004)
    wrong = round((1 - score(cell.at) - noise) * EXAMPLES)
    guess = right.copy()
    hardest = np.random.default_rng(9).permutation(EXAMPLES)[: max(0, wrong)]
    guess[hardest] = 1 - guess[hardest]
    metrics = {"accuracy": float((guess == right).mean())}
    outcome = Outcome("finished", metric="accuracy", metrics=metrics, predictions=pack(guess), steps=9)
    return Record(cell.trial, outcome, {"device": "a test", "seconds": 1.0})


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("paper")
    (folder / "paper.yaml").write_text(STUDY, encoding="utf-8")
    answers = {}
    for number, name in enumerate(("first", "second")):
        answers[name] = np.random.default_rng(number).integers(0, 2, EXAMPLES)
        rows = [f"sentence {i} of the {name} task,{label}" for i, label in enumerate(answers[name])]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    store = open_store(folder / "store", create=True)
    plan = make_plan([read(folder / "paper.yaml")], store)
    for cell in {c.trial.identity: c for c in plan.cells}.values():
        record = made_up(cell, answers[cell.at["task"]])
        path = Path(store.place(record.id))
        path.parent.mkdir(exist_ok=True)
        path.write_text(record.to_json(), encoding="utf-8")
    return Made(plan, store, folder / "store")


def test_a_report_shows_claims_and_verdicts(paper: Made, tab: Any) -> None:
    out = paper.place.parent / "report.html"
    words = ["report", str(out.with_name("paper.yaml")), "--store", str(paper.place), "--out", str(out)]
    assert CliRunner().invoke(app, [*words, "--claims"], catch_exceptions=False).exit_code == 0
    page = tab.open(out.as_uri())
    told = [entry.split(maxsplit=1) for entry in page.locator("#claims .claim").all_inner_texts()]
    assert {int(text.split(".")[0]): verdict for verdict, text in told} == EXPECTED
    assert "Shuffling the pretrained layers costs performance" in told[3][1]
    headings = page.locator("#claims thead th").all_inner_texts()
    assert {"Claim", "95 % interval", "Verdict"} <= set(headings)
    assert page.locator("#claims tbody tr").count() > 8
    assert page.locator("#contents a", has_text="Claims").count() == 1
    assert tab.complaints == []


def test_a_study_that_names_claims_has_them_unasked(paper: Made) -> None:
    (study,) = paper.plan.studies
    asking = study.parse({**study.model_dump(), "tables": [{"kind": "claims-by-protocol"}]}, "test")
    plan = make_plan([asking], paper.store)
    (shown,) = payload(study_pages(plan, gather(plan, paper.store)), "s", "c")["studies"]
    assert {v["claim"]: v["verdict"] for v in shown["claims"]["verdicts"]} == EXPECTED
    assert shown["claims"]["tables"][0]["rows"] == [["paper", *EXPECTED.values()]]


def test_without_being_asked_for_there_are_none(paper: Made) -> None:
    assert paper.payload()["studies"][0]["claims"] == {"verdicts": [], "tables": []}


def test_nothing_finished_is_said(paper: Made, tmp_path: Path) -> None:
    empty = open_store(tmp_path / "store", create=True)
    pages = study_pages(paper.plan, gather(paper.plan, empty))
    claims = payload(pages, "s", "c", claims=True)["studies"][0]["claims"]
    assert claims["verdicts"] == []
    assert claims["tables"]
