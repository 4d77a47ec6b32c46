"""Packs: all trials once, alike in what the program depends on, alike in length, long ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.execution.packing import Job, next_job, pack, pack_key, reordered
from palimpsest.execution.plan import Plan
from palimpsest.specs.intervention import PermuteLayers, Reinitialize
from palimpsest.specs.protocol import Protocol
from palimpsest.specs.trial import Probe, Seeds, Trial

PlanOf = Callable[[Sequence[Trial]], Plan]

interventions = st.sampled_from([(), (Reinitialize(layers=(1, 2)),), (PermuteLayers(order=(2, 1)),)])
protocols = st.builds(
    Protocol,
    epochs=st.integers(1, 3),
    batch_size=st.sampled_from([8, 16]),
    learning_rate=st.sampled_from([1e-3, 2e-5]),
    pooling=st.sampled_from(["mean", "cls"]),
)
trials = st.builds(
    Trial,
    encoder=st.sampled_from(["a", "b"]),
    task=st.sampled_from(["x", "y"]),
    size=st.sampled_from([10, 100, 0.5, None]),
    interventions=interventions,
    protocol=protocols,
    seeds=st.builds(Seeds.of, st.integers(0, 20)),
    probe=st.sampled_from([None, None, Probe(layer=1)]),
)
some_trials = st.lists(trials, min_size=1, max_size=60, unique_by=lambda t: t.identity)


@settings(max_examples=60, deadline=None)
@given(chosen=some_trials, largest=st.integers(1, 20), workers=st.integers(1, 4))
def test_every_trial_is_in_one_pack_of_its_like(
    plan_of: PlanOf, chosen: list[Trial], largest: int, workers: int
) -> None:
    plan = plan_of(chosen)
    jobs = pack(plan, chosen, largest, workers)
    assert Counter(t.identity for job in jobs for t in job.trials) == Counter(t.identity for t in chosen)
    for job in jobs:
        assert len({pack_key(t) for t in job.trials}) == 1
        assert len({plan.steps([t]) for t in job.trials}) == 1
        assert job.probing or len(job.trials) <= largest
        assert job.steps == plan.steps(job.trials)
    assert [job.steps for job in jobs] == sorted((job.steps for job in jobs), reverse=True)


@settings(max_examples=30, deadline=None)
@given(chosen=some_trials, largest=st.integers(1, 20))
def test_a_job_knows_what_its_like_still_have_ahead(plan_of: PlanOf, chosen: list[Trial], largest: int) -> None:
    jobs = pack(plan_of(chosen), chosen, largest)
    for i, job in enumerate(jobs):
        alike = [j for j in jobs[i + 1 :] if (pack_key(j.trials[0]), j.places) == (pack_key(job.trials[0]), job.places)]
        assert job.ahead == sum(later.steps for later in alike)
        assert len(job.trials) <= job.places


def test_packs_of_a_group_are_alike_in_size_and_all_workers_have_one(plan_of: PlanOf) -> None:
    nine = [Trial(encoder="a", task="x", size=8, seeds=Seeds.of(i)) for i in range(9)]
    assert [len(job.trials) for job in pack(plan_of(nine), nine, largest=4)] == [3, 3, 3]
    assert [len(job.trials) for job in pack(plan_of(nine), nine, largest=64, workers=2)] == [5, 4]


def test_what_is_each_trials_own_does_not_keep_it_from_a_pack() -> None:
    base = Trial(encoder="a", task="x", size=8)
    own = [
        base.model_copy(update={"seeds": Seeds.of(3)}),
        base.model_copy(update={"interventions": (Reinitialize(layers=(2,)),)}),
        base.model_copy(update={"protocol": Protocol(learning_rate=0.1, schedule="linear", clip=1.0)}),
        base.model_copy(update={"protocol": Protocol(pooler="reset", padding="max")}),
    ]
    assert {pack_key(t) for t in own} == {pack_key(base)}


@pytest.mark.parametrize(
    "change",
    [{"encoder": "b"}, {"weights": "0" * 16}, {"task": "y"}, {"data": "1" * 16}, {"probe": Probe(layer=1)},
     {"protocol": Protocol(batch_size=4)}, {"protocol": Protocol(pooling="cls")}],
    ids=str,
)  # fmt: skip
def test_what_the_program_depends_on_does(change: dict[str, object]) -> None:
    base = Trial(encoder="a", task="x", size=8)
    assert pack_key(base.model_copy(update=change)) != pack_key(base)


def test_processes_on_one_gpu_keep_to_their_programs() -> None:
    x, y, z = (Job((Trial(encoder="a", task=task, size=8),), 1) for task in "xyz")
    assert next_job([x, y, z], None, []) == 0
    assert next_job([x, y, z], y, [x]) == 1  # like the last
    assert next_job([x, x, z], y, [x]) == 2  # like nobody's
    assert next_job([x, x], y, [x]) == 0  # rather the same again than nothing


def test_beside_another_driver_jobs_come_in_another_order_but_like_by_like() -> None:
    jobs = [Job((Trial(encoder="a", task=task, size=n),), n) for n in range(1, 9) for task in "xy"]
    orders = [reordered(jobs) for _ in range(5)]
    assert any(order != jobs for order in orders)
    for order in orders:
        assert Counter(job.trials for job in order) == Counter(job.trials for job in jobs)
        tasks = [job.trials[0].task for job in order]
        assert tasks in (["x"] * 8 + ["y"] * 8, ["y"] * 8 + ["x"] * 8)
