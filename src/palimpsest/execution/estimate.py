"""How long the missing trials will take: from what the store has seen, or else by a rule of thumb."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from palimpsest.execution.plan import Plan
from palimpsest.specs.trial import Trial
from palimpsest.store import Store

_LOOKED_AT = 200  # finished records that an estimate is made from
_THUMB = {
    "cpu": 0.1,
    "cuda": 0.0015,
}  # seconds per trial-step: a small encoder on two cores, BERT-base on a data-centre GPU


def estimate(plan: Plan, trials: Sequence[Trial], store: Store | None, device: str) -> str:
    """In words, with what it is based on."""
    finetuning = [t for t in trials if t.probe is None]
    steps = plan.steps(finetuning)
    pace, basis = _pace(plan, store, device)
    probes = len(trials) - len(finetuning)
    text = f"{_words(steps * pace)} ({basis})" if steps else "minutes"
    beside = "1 probe adds" if probes == 1 else f"{probes:,} probes add"
    return text + (f"; {beside} a few minutes" if probes and steps else "")


def _pace(plan: Plan, store: Store | None, device: str) -> tuple[float, str]:
    finished = [id for id, status in plan.statuses.items() if status == "finished"][:_LOOKED_AT]
    seen = []
    for record in store.records(finished) if store is not None else ():
        seconds = record.provenance.get("seconds")
        if record.trial.probe is None and record.outcome.steps and isinstance(seconds, int | float):
            seen.append(seconds / record.outcome.steps)
    if seen:
        return statistics.median(seen), f"at the pace of {len(seen)} finished trials"
    return _THUMB["cuda" if device == "cuda" else "cpu"], "a rule of thumb: nothing is finished yet"


def _words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
