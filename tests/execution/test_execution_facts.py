"""Plans made from facts, where neither encoder nor data are; and the facts themselves, where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palimpsest.analysis.verdicts import judge
from palimpsest.encoders.identity import identify
from palimpsest.errors import DataError, EncoderError
from palimpsest.execution.facts import answers, dataset_rows, facts_of, gather, guessed
from palimpsest.execution.plan import make_plan
from palimpsest.specs.expansion import EncoderIdentity
from palimpsest.specs.study import Study
from palimpsest.store.archive import Contents
from palimpsest.store.facts import Facts, TaskFacts
from palimpsest.tasks.registry import load
from palimpsest.training.predictions import pack

GTE = EncoderIdentity("gte-small", "0123456789abcdef", 12, 12)
PART = TaskFacts(
    "sst2", "beef", 600, 4, "classification", False, ("negative", "positive"), "accuracy", pack([0, 1, 1, 0])
)
FACTS = Facts((GTE,), (PART,))


def study(encoder: str = "gte-small", task: str = "sst2") -> Study:
    experiments = [{"kind": "incremental", "preserved": [0, "L"], "sizes": [500], "trials": 2}]
    return Study.parse({"name": "s", "encoder": encoder, "tasks": [task], "experiments": experiments}, "here")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_identities_come_from_the_facts() -> None:
    plan = make_plan([study()], None, facts=FACTS)
    trial = plan.cells[0].trial
    assert (trial.encoder, trial.weights, trial.task, trial.data) == ("gte-small", GTE.weights, "sst2", "beef")
    assert plan.depths == {"gte-small": 12}
    assert plan.rows == {("sst2", "beef"): 600}
    assert {cell.at["preserved"] for cell in plan.cells} == {0, 12}


def test_without_them_nothing_changes() -> None:
    with pytest.raises(EncoderError, match=r"cannot get the encoder 'gte-small'.*pocket\.$"):
        make_plan([study()], None)
    assert make_plan([study("pocket")], None).cells[0].trial.data is None


def test_what_is_here_is_meant(tiny_checkpoint: Path) -> None:
    facts = Facts((EncoderIdentity("tiny", "another", 9, 1), EncoderIdentity("pocket", "another", 9, 1)), (PART,))
    for ref in (str(tiny_checkpoint), "pocket"):
        assert (
            make_plan([study(ref, "mini-sentiment")], None, facts=facts).cells[0].trial.weights == identify(ref).weights
        )


def test_an_encoder_that_is_not_among_them() -> None:
    with pytest.raises(EncoderError, match=r"has trials of gte-small@0123456789abcdef; choose with --model"):
        make_plan([study("bert-mine")], None, facts=FACTS)


def test_sizes_are_checked_against_the_data_that_were_used() -> None:
    small = Facts((GTE,), (TaskFacts("sst2", "beef", 100, 4, "classification", False, ("a", "b"), "accuracy"),))
    with pytest.raises(DataError, match="there are only 100"):
        make_plan([study()], None, facts=small)


def test_answers_and_tables_without_the_data() -> None:
    plan = make_plan([study()], None, facts=FACTS)
    assert answers("sst2", ("sst2", "beef"), plan.resources) == pytest.approx(np.array([0, 1, 1, 0]))
    assert dataset_rows(plan.studies[0], plan.resources) == [
        ("sst2", 600, 4, "sentence", "negative, positive", "accuracy")
    ]
    assert all(np.isnan(finding.effect) for finding in judge(plan.cells, None, plan.resources))


def test_data_of_tasks_without_results_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task of the study was never run, and its data are not here: that holds nothing up."""
    plan = make_plan([study("gte-small", "wnli")], None, facts=FACTS)
    monkeypatch.setattr("palimpsest.analysis.verdicts.answers", lambda *_: pytest.fail("asked for data"))
    assert [finding.verdict for finding in judge(plan.cells, None, plan.resources)] == []


def test_the_facts_about_a_task() -> None:
    task = load("mini-inference")
    facts = facts_of("mini-inference", None)
    assert (facts.train_rows, facts.validation_rows) == (len(task.train), len(task.validation))
    assert (facts.kind, facts.pair, facts.labels, facts.metric) == (
        "classification",
        True,
        task.labels,
        task.metrics[0],
    )
    remembered = make_plan([study("pocket", "mini-inference")], None).resources
    key = (task.name, task.data)
    found = answers("mini-inference", key, remembered)
    assert found is not None
    assert np.array_equal(found, np.asarray(task.validation.targets))


def test_what_cannot_be_had_is_said(tiny_checkpoint: Path) -> None:
    tiny = identify(str(tiny_checkpoint))
    mini = load("mini-sentiment")
    found = Contents((), ((tiny.name, tiny.weights), ("tiny", "other"), ("gone", "x")),
                     (("mini-sentiment", mini.data), ("mini-sentiment", "v0"), ("reviews", "f00d")))  # fmt: skip
    facts, missing = gather(found, guessed(found, str(tiny_checkpoint), None), Facts())
    assert facts.encoders == (tiny,)
    assert [task.name for task in facts.tasks] == ["mini-sentiment"]
    assert [note.partition(": ")[0] for note in missing] == [
        "the encoder tiny@other", "the encoder gone@x", "the task mini-sentiment@v0", "the task reviews@f00d",
    ]  # fmt: skip
    again, missing = gather(found, guessed(found, None, None), Facts((EncoderIdentity("gone", "x", 6, 6),), ()))
    assert [encoder.name for encoder in again.encoders] == ["gone"]
    assert len(missing) == 4
