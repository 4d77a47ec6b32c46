"""What an executor is: a place where jobs run. Places differ in who starts the processes; the work is the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from palimpsest.execution.packing import Job
from palimpsest.execution.plan import Resources
from palimpsest.execution.time_limit import TimeLimit
from palimpsest.execution.worker import Emit, Engine
from palimpsest.store import Store

HOST_PACK = 8  # trials stacked on a CPU: more gain nothing, and a finished pack is soon safe
DEVICE_PACK = 72  # at most (5 trials of 13 cells fit); memory decides, on the machine that trains


@dataclass(frozen=True, eq=False)
class Work:
    """What all jobs of a run have in common."""

    resources: Resources
    store: Store
    place: str  # the store again, for other processes to open
    device: str  # as asked for: auto, cpu or cuda
    engine: Engine
    pack_timeout: float | None = None  # seconds after which a pack counts as hanging, and its worker as lost
    limit: TimeLimit | None = None  # of the run: jobs that it does not allow are not begun


class Executor(ABC):
    """Runs jobs somewhere.

    Whatever happens to a worker, trials that have ended are in the store by then, and `run` sees to it that the others
    are run again. It returns when all have ended, and raises a PalimpsestError when that cannot be.
    """

    largest: int  # trials in a pack, at most
    workers: int  # packs at once, as far as that is known beforehand

    @abstractmethod
    def run(self, jobs: Sequence[Job], emit: Emit) -> None: ...
