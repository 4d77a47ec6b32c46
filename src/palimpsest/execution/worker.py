"""One job, from trials to records: the same in this process, in another one, and on another machine."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load as load_weights
from safetensors.torch import save

from palimpsest import __version__
from palimpsest.encoders.loading import Encoder, State, load, without
from palimpsest.errors import TrainingError
from palimpsest.execution.packing import Job, even
from palimpsest.execution.plan import Resources
from palimpsest.specs.intervention import DeleteLayers
from palimpsest.specs.trial import Trial
from palimpsest.store import Record, Store
from palimpsest.tasks.registry import load as load_task
from palimpsest.training import interleaved, probing, reference, stacked
from palimpsest.training.data import Data, prepare_data
from palimpsest.training.evaluation import OnLosses, coarse_curves, failure
from palimpsest.training.outcome import Outcome
from palimpsest.training.preparation import Prepared
from palimpsest.training.together import can_be_stacked

T = TypeVar("T")
Engine = Literal["stacked", "reference"]
LOOK_EVERY = 3.0  # seconds: on a GPU, a look at the losses waits for the steps that are queued
_LOOKED_AT = 24  # trials of a pack whose losses are reported


@dataclass(frozen=True)
class Event:
    """Something that whoever watches a run wants to know."""

    kind: Literal["begin", "steps", "losses", "trial", "note"]
    steps: int = 0
    trials: tuple[Trial, ...] = ()  # that a job has just begun with
    curves: dict[str, list[tuple[int, float | None]]] = field(default_factory=dict)  # of trials that are under way
    trial: Trial | None = None
    outcome: Outcome | None = None
    text: str = ""


Emit = Callable[[Event], None]


def pick_device(name: str) -> str:
    """``auto`` is a GPU if there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise TrainingError("there is no CUDA device here; use --device cpu or auto")
    if name not in ("cpu", "cuda"):
        raise TrainingError(f"unknown device {name!r}: auto, cpu or cuda")
    return name


def gather(job: Job, resources: Resources) -> tuple[Encoder, Data]:
    """What a job's trials are trained with; loaded and tokenised once in a process."""
    first = job.trials[0]
    encoder = load(resources.encoder_of(first))
    task = load_task(resources.task_of(first), resources.data)
    beside = (load_task(resources.tasks[c.task, c.data], resources.data) for c in first.alongside)
    others = tuple(prepare_data(other, encoder, first.protocol) for other in beside)
    data = prepare_data(task, encoder, first.protocol)
    return encoder, replace(data, beside=others) if others else data


def execute(
    job: Job,
    encoder: Encoder,
    data: Data,
    store: Store,
    device: str,
    engine: Engine,
    emit: Emit,
    sharing: int = 1,
) -> None:
    """Train the job's trials and put each record into the store as soon as its trial has ended.

    Trials that somebody else has finished in the meantime are not run again. `sharing` is how many processes use the
    device at once: the time that is recorded is a trial's share of the pack's, and the pack's of the device's.
    """
    finished = {
        r.id: r.outcome
        for r in store.records(t.identity for t in job.trials if t.identity not in job.again)
        if r.outcome.status == "finished"
    }
    for trial in job.trials:
        if trial.identity in finished:
            emit(Event("trial", trial=trial, outcome=finished[trial.identity]))
    left = [trial for trial in job.trials if trial.identity not in finished]
    if not left:
        return
    prepared = [_prepare(trial, job, encoder, data, store) for trial in left]
    pending = {p.trial.identity: p for p in prepared}
    clock, last = Clock(), [time.monotonic(), 0.0]
    took: dict[str, float] = {}
    plain = not job.probing and (engine == "reference" or not can_be_stacked(data))
    emit(Event("begin", trials=tuple(left)))
    look = _Look(pending, emit)

    def finish(p: Prepared, outcome: Outcome) -> None:
        put_down(p, outcome, clock.shared(max(1, len(pending))))

    def put_down(p: Prepared, outcome: Outcome, seconds: float) -> None:
        together, by = (1, "reference") if plain else (len(prepared), "stacked")
        how = provenance(device, by, encoder, together, seconds / sharing, sharing)
        if took:
            how["pack_seconds"] = {what: round(spent, 2) for what, spent in took.items() if spent > 0}
        store.put(Record(p.trial, outcome, how))
        pending.pop(p.trial.identity, None)
        if p.trial.identity not in job.again:
            emit(Event("trial", trial=p.trial, outcome=outcome))

    def step(_: int, running: int) -> None:
        last[1] += running
        if time.monotonic() - last[0] > 0.5:
            emit(Event("steps", steps=int(last[1])))
            last[:] = [time.monotonic(), 0.0]

    try:
        for p in [p for p in prepared if p.trial.after is not None and p.start is None]:
            finish(p, _orphan(p, store))
            prepared.remove(p)
        if not prepared:
            return
        if job.probing:
            probing.train(prepared, data, device, step, finish)
        elif plain:
            train = interleaved.train if data.beside else reference.train
            for p in prepared:
                put_down(p, train(p, data, device, lambda n: step(n, 1), look.at([p])), clock.alone())
        else:
            _stacked(prepared, pending, data, device, step, finish, look, emit, took, job.ahead, job.places)
    finally:
        emit(Event("steps", steps=int(last[1])))


class Clock:
    """Shares out the time of a job, so that what its trials are said to have taken adds up to it."""

    def __init__(self) -> None:
        self._last, self._share = time.monotonic(), 0.0

    def shared(self, running: int) -> float:
        """What a trial has taken that ends now, with so many (itself among them) that ran together until now."""
        self._share += self.alone() / running
        return self._share

    def alone(self) -> float:
        """What a trial has taken that ends now, if it ran by itself since the last one ended."""
        last, self._last = self._last, time.monotonic()
        return self._last - last


def _prepare(trial: Trial, job: Job, encoder: Encoder, data: Data, store: Store) -> Prepared:
    """A trial with the weights that it starts from, and where its own go if others start from them."""
    for ancestor in trial.ancestors:
        for intervention in ancestor.interventions:
            if isinstance(intervention, DeleteLayers):
                encoder = without(encoder, intervention.layers)

    def keep(state: State) -> None:
        store.keep_weights(trial.identity, save({name: w.contiguous().cpu() for name, w in state.items()}))

    start = None
    if trial.after is not None and (content := store.weights(trial.after.identity)) is not None:
        start = load_weights(content)
    return Prepared(trial, data.task, encoder, start, keep if trial.identity in job.keep else None)


def _orphan(prepared: Prepared, store: Store) -> Outcome:
    """What becomes of a trial whose parent left no weights."""
    parent = prepared.trial.after
    assert parent is not None
    for record in store.records([parent.identity]):
        if record.outcome.status == "failed":
            reason = f"the trial before it ({parent.task}, {parent.identity}) failed: {record.outcome.reason}"
            return Outcome("failed", reason, prepared.task.metrics[0])
    raise TrainingError(
        f"the weights of {parent.identity} ({parent.task}), which {prepared.task.name} starts from, are gone from "
        f"{store}: has another run let go of them? The same command runs that trial again"
    )


class _Look:
    """Reports the losses of trials under way now and then; between two looks it costs nothing."""

    def __init__(self, pending: dict[str, Prepared], emit: Emit) -> None:
        self._pending, self._emit, self._last = pending, emit, time.monotonic()

    def at(self, trials: Sequence[Prepared]) -> OnLosses:
        def look(step: int, losses: Callable[[], npt.NDArray[np.float64]]) -> None:
            if time.monotonic() - self._last < LOOK_EVERY:
                return
            self._last = time.monotonic()
            chosen = [t for t, p in enumerate(trials) if p.trial.identity in self._pending][:_LOOKED_AT]
            curves = coarse_curves(losses()[chosen, :step])
            self._emit(
                Event("losses", curves={trials[t].trial.identity: c for t, c in zip(chosen, curves, strict=True)})
            )

        return look


def _stacked(
    prepared: list[Prepared],
    pending: dict[str, Prepared],
    data: Data,
    device: str,
    step: Callable[[int, int], None],
    finish: Callable[[Prepared, Outcome], None],
    look: _Look,
    emit: Emit,
    took: dict[str, float],
    ahead: int,
    places: int = 0,
) -> None:
    """Train a pack; if it does not fit into memory, even parts of it. Trials that have ended stay ended.

    A trial that does not fit by itself has failed: the others may be smaller, or find more room.
    """
    most = _with_enough_memory(partial(stacked.fitting, prepared, data, device), device) or 1
    size = even(len(prepared), most)
    if size < len(prepared):
        places = size
    for begin in range(0, len(prepared), size):
        part = prepared[begin : begin + size]
        train = partial(stacked.train, part, data, device, step, finish, ahead, look.at(part), places, took)
        if _with_enough_memory(train, device) is not None:
            continue
        if len(part) == 1:
            finish(part[0], _too_large(part[0], device))
            continue
        emit(Event("note", text=f"out of memory with {len(part)} trials at once: going on with half"))
        rest = [p for p in part if p.trial.identity in pending]
        half = max(1, len(rest) // 2)
        for piece in (rest[:half], rest[half:]):
            if piece:
                _stacked(piece, pending, data, device, step, finish, look, emit, took, ahead)


def _with_enough_memory(attempt: Callable[[], T], device: str) -> T | None:
    """What an attempt gives, or None if there was not enough memory for it.

    Then it has let go of what it held: an error on its way up keeps all that its frames know, so nothing else may be
    tried before it has been dealt with.
    """
    try:
        return attempt()
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    return None


def _too_large(prepared: Prepared, device: str) -> Outcome:
    protocol = prepared.trial.protocol
    where = "GPU" if device == "cuda" else "machine"
    reason = (
        f"out of memory: this trial alone ({prepared.trial.encoder}, batches of {protocol.batch_size} examples of up "
        f"to {protocol.max_length} tokens) does not fit into what the {where} has free. Try a smaller batch_size or "
        "max_length, or another device; run --retry-failed tries it again"
    )
    return failure(reason, prepared.task.metrics[0], np.empty(0))


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "not enough memory" in str(error)


def provenance(
    device: str, engine: str, encoder: Encoder, together: int, seconds: float, sharing: int
) -> dict[str, Any]:
    """How a record came about: for people who compare results, not part of any identity."""
    import transformers

    return {
        "palimpsest": __version__,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                     "python": platform.python_version()},
        "device": torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU",
        "precision": "bf16" if device == "cuda" and engine == "stacked" else "fp32",
        "engine": engine,
        "pack": together,
        "processes": sharing,
        "parameters": sum(w.numel() for w in encoder.state.values()),
        "seconds": round(seconds, 3),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip
