"""Plans: what is named, what is distinct, what is there, how many steps, how long."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from palimpsest.errors import DataError
from palimpsest.execution.estimate import estimate
from palimpsest.execution.packing import pack
from palimpsest.execution.plan import Plan, make_plan
from palimpsest.execution.run import run_plan
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Probe, Seeds, Trial
from palimpsest.store import Record, Store, open_store
from palimpsest.studies import load
from palimpsest.training.outcome import Outcome

Planned = Callable[[Store | None], Plan]
PlanOf = Callable[[Sequence[Trial]], Plan]


def test_counts(planned: Planned) -> None:
    plan = planned(None)
    assert (len(plan.cells), len(plan.trials), len(plan.missing())) == (6, 6, 6)
    assert plan.steps(plan.missing()) == 6 * 2 * 2  # 16 examples in batches of 8, two epochs
    assert plan.count("finished") == 0


def test_a_trial_that_two_studies_name_is_one(study: Path) -> None:
    (a,), (b,) = load(str(study)), load(str(study), {"preserved": [2, 3]})
    plan = make_plan([a, b], None)
    assert (len(plan.cells), len(plan.trials)) == (12, 9)


def test_what_is_finished_is_not_missing(planned: Planned, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    run_plan(planned(store), store, str(tmp_path / "store"), lambda _: None, "cpu", processes=1, limit=4)
    plan = planned(store)
    assert (plan.count("finished"), len(plan.missing())) == (4, 2)
    said = estimate(plan, plan.missing(), store, "cpu")
    assert said.endswith((" seconds (at the pace of 4 finished trials)", "a second (at the pace of 4 finished trials)"))


def test_the_first_trials_of_every_point(study: Path) -> None:
    """A large study can be run evenly and coarsely first, and widened later."""
    settings = {"preserved": [0, 3], "trials": 4}
    plan = make_plan(load(str(study), settings), None)
    some, more = plan.missing(first=1), plan.missing(first=3)
    assert (len(some), len(more), len(plan.missing())) == (2, 6, 8)
    assert {t.identity for t in some} < {t.identity for t in more}
    assert {t.seeds.order for t in more} == {0, 1, 2}
    assert plan.missing(first=99) == plan.missing()


def test_trials_come_in_rounds(study: Path) -> None:
    """Whenever a run is stopped, no point has two trials more than another, in its packs too."""
    plan = make_plan(load(str(study), {"preserved": [0, 1, 2, 3], "trials": 5}), None)
    missing = plan.missing()
    assert [t.seeds.order for t in missing] == [n for n in range(5) for _ in range(4)]
    packed = [t for job in pack(plan, missing, largest=6) for t in job.trials]
    for end in range(len(packed)):
        counts = Counter(t.interventions for t in packed[:end])
        assert end < 4 or max(counts.values()) - min(counts.values()) <= 1
        assert len(counts) == min(end, 4)


def test_no_such_data_directory(study: Path) -> None:
    with pytest.raises(DataError, match="no such directory"):
        make_plan(load(str(study)), None, study.parent / "nowhere")


@pytest.mark.parametrize(
    ("trial", "steps"),
    [
        (Trial(encoder="a", task="x", size=100), 13 * 3),
        (Trial(encoder="a", task="x", size=0.5), 63 * 3),
        (Trial(encoder="a", task="x", size=None), 125 * 3),
        (Trial(encoder="a", task="x", size=100, protocol=Protocol(batch_size=100, epochs=1)), 1),
        (Trial(encoder="a", task="x", size=100, probe=Probe(layer=0, epochs=10)), 12 * 10),  # 10 of 100 are held out
    ],
)
def test_steps(plan_of: PlanOf, trial: Trial, steps: int) -> None:
    assert plan_of([trial]).steps([trial]) == steps


@pytest.mark.parametrize(("trials", "words"), [(1, r"^38 seconds"), (20, r"^12 minutes"), (2000, r"^20\.8 hours")])
def test_estimates_are_in_words(plan_of: PlanOf, trials: int, words: str) -> None:
    chosen = [Trial(encoder="a", task="x", seeds=Seeds.of(i)) for i in range(trials)]
    said = estimate(plan_of(chosen), chosen, None, "cpu")
    assert re.search(words, said)
    assert said.endswith("(a rule of thumb: nothing is finished yet on a CPU)")


def test_estimates_go_by_task_and_kind_of_device(planned: Planned, tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    trials = list(planned(store).trials.values())
    ran = {"x86_64 CPU": 5.0, "NVIDIA H200": 0.5}
    for trial, (device, seconds) in zip(trials, ran.items(), strict=False):
        store.put(
            Record(trial, Outcome("finished", metric="accuracy", steps=10), {"device": device, "seconds": seconds})
        )
    plan = planned(store)
    steps = plan.steps(plan.missing())
    for device, said in (("cpu", f"{steps * 0.5:.0f} seconds"), ("cuda", "a second")):
        assert estimate(plan, plan.missing(), store, device) == f"{said} (at the pace of 1 finished trial)"


def test_estimates_look_at_the_rest_of_the_store_for_tasks_that_the_study_has_none_of(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    store = open_store(tmp_path, create=True)

    def finished(encoder: str, task: str, seconds: float, device: str = "x86_64 CPU") -> None:
        trial = Trial(encoder=encoder, task=task, size=50)
        store.put(Record(trial, Outcome("finished", steps=10), {"device": device, "seconds": seconds}))

    finished("a", "x", 5.0)
    finished("another encoder", "y", 10.0)
    wanted = [Trial(encoder="a", task=task, size=8) for task in ("x", "y")]
    plan = replace(plan_of(wanted), rows={("x", None): 8, ("y", None): 8})
    assert estimate(plan, wanted, store, "cpu") == "3 seconds (at the pace of 1 finished trial, none of them of y)"
    finished("a", "y", 50.0)
    assert estimate(plan, wanted, store, "cpu") == "16 seconds (at the pace of 2 finished trials)"
    assert "a rule of thumb" in estimate(plan, wanted, store, "cuda")


def test_probes_are_mentioned(plan_of: PlanOf) -> None:
    probe, tuned = Trial(encoder="a", task="x", probe=Probe(layer=1)), Trial(encoder="a", task="x")
    both = estimate(plan_of([probe, tuned]), [probe, tuned], None, "cpu")
    assert both.endswith("; 1 probe adds a pass or two over the examples")
    alone = estimate(plan_of([probe]), [probe], None, "cpu")
    assert alone == "that of a pass or two over the examples: these are probes"
