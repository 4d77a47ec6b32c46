"""How long the missing trials will take: from what the store has seen, or else by a rule of thumb."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from palimpsest.execution.plan import Plan
from palimpsest.specs.trial import Trial
from palimpsest.store import Store

_LOOKED_AT = 200  # finished records that an estimate is made from
_THUMB = {
    "cpu": 0.1,
    "cuda": 0.0015,
}  # seconds per trial-step: a small encoder on two cores, BERT-base on a data-centre GPU

_KINDS = {"cpu": "a CPU", "cuda": "a GPU"}


def estimate(plan: Plan, trials: Sequence[Trial], store: Store | None, device: str) -> str:
    """In words, with what it is based on: finished trials of the same tasks on the same kind of device (cpu, cuda)."""
    steps: Counter[str] = Counter()
    for trial in trials:
        if trial.probe is None:
            steps[trial.task] += plan.steps([trial])
    probes = sum(trial.probe is not None for trial in trials)
    seen = _seen(plan, store, device)
    if seen:
        usual = statistics.median(pace for paces in seen.values() for pace in paces)
        seconds = sum(n * (statistics.median(seen[task]) if task in seen else usual) for task, n in steps.items())
        count = sum(map(len, seen.values()))
        basis = f"at the pace of {count:,} finished trial{'s' if count > 1 else ''}"
        unseen = [task for task in steps if task not in seen]
        basis += f", none of them of {', '.join(unseen)}" if unseen else ""
    else:
        seconds = steps.total() * _THUMB[device]
        basis = f"a rule of thumb: nothing is finished yet on {_KINDS[device]}"
    if not steps:
        return "that of a pass or two over the examples: these are probes"
    beside = "1 probe adds" if probes == 1 else f"{probes:,} probes add"
    return f"{_words(seconds)} ({basis})" + (f"; {beside} a pass or two over the examples" if probes else "")


def paces(plan: Plan, store: Store, device: str) -> dict[str, float]:
    """By task, seconds for each step of a finetuning, as finished trials on this kind of device took them."""
    return {task: statistics.median(seen) for task, seen in _seen(plan, store, device).items()}


def expected_device(device: str) -> str:
    """What ``auto`` will be, as far as can be told without loading anything."""
    if device != "auto":
        return device
    return "cuda" if Path("/dev/nvidia0").exists() else "cpu"


def _seen(plan: Plan, store: Store | None, device: str) -> dict[str, list[float]]:
    """By task, seconds per step of some finished trials that ran on this kind of device.

    Of tasks of which this plan has none, of others in the store with the same encoder.
    """
    if store is None:
        return {}
    finished = [id for id, status in plan.statuses.items() if status == "finished"]
    encoders = {(trial.encoder, trial.weights) for trial in plan.trials.values()}
    seen = _paces(store, finished, device, encoders)
    if {trial.task for trial in plan.missing() if trial.probe is None} <= seen.keys():
        return seen
    return _paces(store, sorted(store.ids() - plan.trials.keys()), device, encoders) | seen


def _paces(
    store: Store, ids: Sequence[str], device: str, encoders: set[tuple[str, str | None]]
) -> dict[str, list[float]]:
    """By task, seconds per step of some of these trials: finetunings of these encoders on this kind of device."""
    paces: dict[str, list[float]] = {}
    for record in store.records(ids[:: max(1, len(ids) // _LOOKED_AT)]):
        seconds, where = record.provenance.get("seconds"), str(record.provenance.get("device", ""))
        alike = where.endswith("CPU") == (device == "cpu")
        alike &= (record.trial.encoder, record.trial.weights) in encoders
        if record.trial.probe is None and record.outcome.steps and isinstance(seconds, int | float) and alike:
            paces.setdefault(record.trial.task, []).append(seconds / record.outcome.steps)
    return paces


def _words(seconds: float) -> str:
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
