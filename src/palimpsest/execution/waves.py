"""The order of trials that come after one another: parents first, and their weights for as long as a child needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from palimpsest.execution.plan import Plan
from palimpsest.specs.trial import Trial
from palimpsest.store import Store


@dataclass(frozen=True)
class Wave:
    """Trials that can run at the same time."""

    trials: list[Trial]
    keep: frozenset[str]  # those of them whose final weights others start from
    again: frozenset[str]  # those of them that are finished, but whose weights are no longer there


def waves(plan: Plan, missing: Sequence[Trial], store: Store) -> Iterator[Wave]:
    """Cut the missing trials into waves, each of which needs weights of earlier ones only.

    A finished parent whose weights are gone is run again; its record stays as it is. Weights are let go when the wave
    has ended after which no trial of the plan needs them: whoever takes the next wave says that this one has ended.
    """
    work = {trial.identity: trial for trial in missing}
    waiting = list(missing)
    while waiting:
        parent = waiting.pop().after
        if parent is not None and parent.identity not in work and not store.has_weights(parent.identity):
            work[parent.identity] = parent
            waiting.append(parent)
    parents = frozenset(t.after.identity for t in work.values() if t.after is not None)
    again = frozenset(id for id in work if plan.statuses.get(id) == "finished")
    needed = {t.identity: t.after.identity for t in plan.missing(retry_failed=True) if t.after is not None}
    needed |= {id: work[id].after.identity for id in again if work[id].after is not None}  # type: ignore[union-attr]
    depths: dict[int, list[Trial]] = {}
    for trial in work.values():
        depths.setdefault(sum(a.identity in work for a in trial.ancestors), []).append(trial)
    for depth in sorted(depths):
        wave = depths[depth]
        ids = frozenset(t.identity for t in wave)
        yield Wave(wave, ids & parents, ids & again)
        for trial in wave:
            needed.pop(trial.identity, None)
        for parent_id in parents.difference(needed.values()):
            if parent_id not in {t.identity for d in depths if d > depth for t in depths[d]}:
                store.drop_weights(parent_id)
