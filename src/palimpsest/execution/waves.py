"""The order of trials that come after one another: parents first, their weights kept while a child needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    """Cut the missing trials into waves, each of which starts from weights of earlier ones only.

    A finished parent whose weights are gone is run again; its record stays as it is. To ask for the next wave is to say
    that the last one has ended: weights that no missing trial of the plan needs any more are then let go.
    """
    work = {trial.identity: trial for trial in missing}
    waiting = list(missing)
    while waiting:
        parent = waiting.pop().after
        if parent is not None and parent.identity not in work and not store.has_weights(parent.identity):
            work[parent.identity] = parent
            waiting.append(parent)
    again = frozenset(id for id in work if plan.statuses.get(id) == "finished")
    # Another machine's shard, or a later run, may need weights too: all that is missing counts.
    left = {trial.identity: trial for trial in (*plan.missing(), *work.values())}
    parents = _parents(left.values())
    depths: dict[int, list[Trial]] = {}
    for trial in work.values():
        depths.setdefault(sum(a.identity in work for a in trial.ancestors), []).append(trial)
    for depth in sorted(depths):
        ids = frozenset(trial.identity for trial in depths[depth])
        yield Wave(depths[depth], ids & parents, ids & again)
        for id in ids:
            del left[id]
        for id in parents - _parents(left.values()) - left.keys():
            store.drop_weights(id)


def release(plan: Plan, store: Store) -> None:
    """Let go of weights that are kept for trials of this plan which have all ended, perhaps on another machine."""
    for id in _parents(plan.trials.values()) - _parents(plan.missing()):
        store.drop_weights(id)


def _parents(trials: Iterable[Trial]) -> frozenset[str]:
    return frozenset(trial.after.identity for trial in trials if trial.after is not None)
