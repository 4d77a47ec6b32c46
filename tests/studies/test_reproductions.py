"""What was run for real is kept in the repository: it can be looked at from there, and says what its page says."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from scripts import script

from palimpsest.execution.plan import Plan, make_plan
from palimpsest.store import open_store
from palimpsest.studies import load

ROOT = Path(__file__).parents[2] / "reproductions"
HERE = ROOT / "gte-small"
PAPERS = ("tamkin2020", "tamkin2020/errata", "singh2020", "cs224n")


def refresh() -> ModuleType:
    return script(ROOT / "refresh.py")


SHOWN = list(refresh().commands((HERE / "README.md").read_text(encoding="utf-8")))


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize(("words", "printed"), SHOWN, ids=[words.split(" --")[0] for words, _ in SHOWN])
def test_the_page_shows_what_its_commands_print(words: str, printed: str) -> None:
    assert len(printed.splitlines()) > 4
    assert refresh().output(words, HERE) == printed, "run `python reproductions/refresh.py reproductions/gte-small`"


def test_refreshing_changes_outputs_alone(tmp_path: Path) -> None:
    page = "# A page\n\n```console\n$ palimpsest studies\nold\n```\n\nold\n\n```sh\npalimpsest studies\n```\n"
    made = refresh().refreshed(page, tmp_path)
    begin, end = page.split("old\n```\n")
    assert made.startswith(begin)
    assert made.endswith(f"```\n{end}")
    assert "tamkin2020" in made[len(begin) : -len(end)]
    assert refresh().refreshed(made, tmp_path) == made


def test_its_studies_name_the_trials_that_are_there() -> None:
    store = open_store(HERE / "results.parquet")

    def planned(*refs: str) -> Plan:
        studies = [study for ref in refs for study in load(ref, {"encoder": "gte-small"})]
        return make_plan(studies, store, facts=store.facts)

    papers, run = planned(*PAPERS), planned(*map(str, sorted(HERE.glob("*.yaml"))))
    finished = {id for id, status in papers.statuses.items() if status == "finished"}
    assert finished == store.ids()
    assert finished <= set(run.trials) <= set(papers.trials)


def test_the_reference_ran_trials_that_the_engine_ran() -> None:
    engine, reference = (open_store(HERE / name) for name in ("results.parquet", "reference.parquet"))
    assert reference.ids() <= engine.ids()
    for record in reference.records():
        assert (record.provenance["engine"], record.provenance["precision"]) == ("reference", "fp32")
        assert abs(record.outcome.metrics["accuracy"] - engine.get(record.id).outcome.metrics["accuracy"]) < 0.02
