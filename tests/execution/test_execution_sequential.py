"""Trials that come after others, and tasks that are learnt together, from a study file to records."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from palimpsest.analysis.table import table
from palimpsest.errors import SpecError, TrainingError
from palimpsest.execution.packing import Job
from palimpsest.execution.plan import Plan, make_plan
from palimpsest.execution.run import run_plan
from palimpsest.execution.time_limit import TimeLimit
from palimpsest.execution.waves import waves
from palimpsest.execution.worker import execute, gather
from palimpsest.specs.trial import Trial
from palimpsest.store import Record, Store, open_store
from palimpsest.studies import load
from palimpsest.training.outcome import Outcome

TASKS = """\
encoder: {encoder}
protocol: {{extends: paper, learning_rate: 0.001, epochs: 1, evaluate: end}}
tasks:
  - {{name: good, train: good-train.tsv, validation: good-dev.tsv, text: sentence, label: verdict}}
  - {{name: bad, train: bad-train.tsv, validation: bad-dev.tsv, text: sentence, label: verdict}}
  - {{name: king, train: king-train.tsv, validation: king-dev.tsv, text: sentence, label: verdict}}
experiments:
"""
SEQUENTIAL = (
    "  - {kind: sequential, tasks: [good], intermediate: [bad], chains: [[king, bad]], sizes: [8], trials: 2}\n"
)
INTERLEAVED = "  - {kind: interleaved, tasks: [good, bad], sizes: [8], trials: 1, measure: [cka]}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    place = tmp_path_factory.mktemp("sequences")
    rng = random.Random(0)
    for word in ("good", "bad", "king"):
        for split, n in (("train", 24), ("dev", 8)):
            texts = (" ".join(rng.choices(["good", "bad", "king", "river"], k=rng.randint(2, 6))) for _ in range(n))
            lines = [f"{text}\t{('no', 'yes')[word in text]}" for text in texts]
            (place / f"{word}-{split}.tsv").write_text(
                "\n".join(["sentence\tverdict", *lines]) + "\n", encoding="utf-8"
            )
    for name, text in (("sequential", SEQUENTIAL), ("interleaved", INTERLEAVED)):
        (place / f"{name}.yaml").write_text(TASKS.format(encoder=tiny_checkpoint) + text, encoding="utf-8")
    return place


def plan_in(folder: Path, store: Store, name: str = "sequential") -> Plan:
    return make_plan(load(str(folder / f"{name}.yaml")), store)


def run(plan: Plan, store: Store, **options: Any) -> list[Trial]:
    """Run what is missing in this process; returns the trials that were reported, in their order."""
    ended: list[Trial] = []

    def note(event: Any) -> None:
        if event.trial is not None:
            ended.append(event.trial)

    run_plan(plan, store, str(store), note, "cpu", processes=1, **options)
    return ended


def weights(store: Store) -> list[str]:
    return sorted(p.stem for p in Path(str(store)).glob("weights/*"))


def test_parents_run_first_are_shared_and_leave_nothing_behind(folder: Path, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    plan = plan_in(folder, store)
    # Direct, after bad, after king and bad; besides, as parents only: bad, king, and bad after king.
    assert (len(plan.cells), len(plan.trials)) == (6, 12)
    ended = run(plan, store)
    order = {trial.identity: n for n, trial in enumerate(ended)}
    assert len(order) == 12
    for trial in ended:
        assert all(order[a.identity] < order[trial.identity] for a in trial.ancestors)
    assert weights(store) == []
    rows = table(plan.cells, store)
    assert set(rows["status"]) == {"finished"}
    assert sorted(rows["chain"].unique()) == ["bad", "direct", "king, bad"]
    losses = rows[rows["trial"].eq(0)]["validation_loss"]
    assert losses.nunique() == 3  # where one starts from makes a difference
    assert run(plan_in(folder, store), store) == []


def test_weights_stay_while_a_child_is_missing_and_a_run_goes_on(folder: Path, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    chain = next(t for t in plan_in(folder, store).missing() if len(t.ancestors) == 2)
    run(plan_in(folder, store), store, limit=8)
    held = weights(store)
    assert held
    ended = run(plan_in(folder, store), store)
    assert {t.identity for t in ended}.isdisjoint(held)  # what was kept is not trained again
    assert weights(store) == []
    assert store.get(chain.identity).outcome.status == "finished"


def test_no_time_for_a_parent_is_no_time_for_its_child(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wave that was cut short ends the run: the next one would start from weights that are not there."""
    store = open_store(tmp_path / "store", create=True)
    plan, asked = plan_in(folder, store), list[Job]()

    def allows(limit: TimeLimit, job: Job) -> bool:
        asked.append(job)
        limit.skipped += len(asked) > 1
        return len(asked) == 1

    monkeypatch.setattr(TimeLimit, "allows", allows)
    begun = run(plan, store, seconds=60.0)
    assert {trial.identity for trial in begun} == {trial.identity for trial in asked[0].trials}
    assert all(trial.after is None for job in asked for trial in job.trials)
    monkeypatch.undo()
    run(plan_in(folder, store), store)
    assert store.finished_ids() == set(plan.trials)


def test_a_parent_whose_weights_are_gone_is_run_again_for_its_child(folder: Path, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    run(plan_in(folder, store), store)
    plan = plan_in(folder, store)
    child = next(t for t in plan.trials.values() if len(t.ancestors) == 2)
    before = store.get(child.identity)
    Path(store.place(child.identity)).unlink()
    king, bad = child.ancestors
    records = {a.identity: Path(store.place(a.identity)).read_bytes() for a in (king, bad)}
    found = list(waves(plan_in(folder, store), plan_in(folder, store).missing(), store))
    assert [[t.identity for t in wave.trials] for wave in found] == [[king.identity], [bad.identity], [child.identity]]
    assert [len(wave.again) for wave in found] == [1, 1, 0]
    assert run(plan_in(folder, store), store) == [child]
    after = store.get(child.identity)
    assert dict(after.outcome.curve) == pytest.approx(dict(before.outcome.curve), abs=1e-5)
    assert {id: Path(store.place(id)).read_bytes() for id in records} == records
    assert weights(store) == []


def test_the_engines_agree_on_a_chain(folder: Path, tmp_path: Path) -> None:
    curves = []
    for engine in ("reference", "stacked"):
        store = open_store(tmp_path / engine, create=True)
        plan = plan_in(folder, store)
        run(plan, store, engine=engine)
        curves.append([[loss for _, loss in store.get(id).outcome.curve] for id in plan.trials])
    for one, other in zip(*curves, strict=True):
        assert one == pytest.approx(other, abs=1e-3)


def test_a_record_names_what_came_before(folder: Path, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    trial = next(t for t in plan_in(folder, store).trials.values() if len(t.ancestors) == 2)
    record = Record(trial, Outcome("finished", metric="accuracy", metrics={"accuracy": 0.5}), {})
    data = json.loads(record.to_json())
    assert data["trial"]["after"]["after"]["task"] == "king"
    assert Record.from_json(record.to_json()).trial == trial


def test_a_child_of_a_failed_parent_fails_and_says_why(folder: Path, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    plan = plan_in(folder, store)
    child = next(t for t in plan.trials.values() if len(t.ancestors) == 1 and t.task == "good")
    job = Job((child,), 1)
    with pytest.raises(TrainingError, match="gone"):
        execute(job, *gather(job, plan.resources), store, "cpu", "stacked", lambda _: None)
    store.put(Record(child.ancestors[0], Outcome("failed", "it burnt down", "accuracy"), {}))
    execute(job, *gather(job, plan.resources), store, "cpu", "stacked", lambda _: None)
    outcome = store.get(child.identity).outcome
    assert outcome.status == "failed"
    assert "burnt down" in outcome.reason


@pytest.mark.parametrize("engine", ["reference", "stacked"])
def test_interleaved_tasks_from_a_study(folder: Path, tmp_path: Path, engine: str) -> None:
    store = open_store(tmp_path / "store", create=True)
    plan = plan_in(folder, store, "interleaved")
    assert len(plan.trials) == 4
    together = [t for t in plan.trials.values() if t.alongside]
    assert plan.steps(together) == 2 * 2
    assert len(run(plan, store, engine=engine)) == 4
    rows = table(plan.cells, store)
    assert set(rows["status"]) == {"finished"}
    assert sorted(rows["chain"].unique()) == ["direct", "with good, bad"]
    for trial in together:
        record = store.get(trial.identity)
        assert record.outcome.steps == 2
        assert record.outcome.measures["cka"]
        assert (record.provenance["engine"], record.provenance["pack"]) == (engine, 1)


def test_settings_restrict_sequences_to_the_chosen_tasks(folder: Path) -> None:
    def chains(tasks: Sequence[str]) -> set[str]:
        plan = make_plan(load(str(folder / "sequential.yaml"), {"tasks": list(tasks)}), None)
        return {cell.at["chain"] for cell in plan.cells}

    assert chains(["good", "bad"]) == {"direct", "bad"}
    assert chains(["good"]) == {"direct"}
    with pytest.raises(SpecError):
        chains(["king"])
