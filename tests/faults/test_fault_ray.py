"""A real Ray cluster of several nodes, as processes of this machine: the same results, and nothing lost with a node."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fault_tools import command_line, quick_context, results, stamps

from palimpsest.errors import SpecError, TrainingError
from palimpsest.execution.worker import Event
from palimpsest.store import DirectoryStore

# Ray leaves sockets and files to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with one core; a test that wants more nodes adds them."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


@pytest.fixture
def on_ray(cluster: Any, run_study: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
    def run(path: Path, where: Path, **options: Any) -> list[Event]:
        options = {"executor": "ray", "address": str(cluster.address), "processes": None} | options
        return run_study(path, where, **options)

    return run


@pytest.fixture
def connected(cluster: Any) -> Iterator[Callable[..., None]]:
    """Connect to the cluster with workers that something happens to; the executor uses the connection that there is."""
    import ray

    def connect(setup: Callable[[], None]) -> None:
        ray.init(str(cluster.address), log_to_driver=False, runtime_env={"worker_process_setup_hook": setup})

    yield connect
    ray.shutdown()


def _ended(events: list[Event]) -> list[str]:
    return [e.trial.identity for e in events if e.kind == "trial" and e.trial is not None]


def test_no_cluster_is_said_and_none_is_started(run_study: Any, study: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("ray.init", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("nobody there")))
    with pytest.raises(TrainingError, match=r"no Ray cluster at 127\.0\.0\.1:1: nobody there.*ray start --head"):
        run_study(study(), tmp_path, executor="ray", address="127.0.0.1:1", processes=None)
    with pytest.raises(SpecError, match="--processes is for --executor local"):
        run_study(study(), tmp_path, executor="ray", processes=2)
    with pytest.raises(SpecError, match="with --executor ray only"):
        run_study(study(), tmp_path, address="127.0.0.1:1")


def test_a_node_is_removed_in_mid_run(cluster: Any, on_ray: Any, run_study: Any, study: Any, tmp_path: Path) -> None:
    """The results are those of one machine; nothing that was finished is run again, nor by a second run."""
    path = study(trials=8, size=64)
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    where = tmp_path / "ray"
    seen: dict[str, tuple[int, int]] = {}

    def remove() -> None:
        while len(stamps(where)) < 3:
            time.sleep(0.02)
        seen.update(stamps(where))
        cluster.remove_node(node, allow_graceful=False)

    saboteur = threading.Thread(target=remove)
    saboteur.start()
    events = on_ray(path, where)
    saboteur.join()
    run_study(path, tmp_path / "here")
    assert results(where) == results(tmp_path / "here")
    assert len(_ended(events)) == len(set(_ended(events))) == 32
    assert len(seen) < 32
    assert seen.items() <= stamps(where).items()
    assert not list(where.glob(".ray*"))
    assert on_ray(path, where) == []


def test_many_packs(connected: Any, on_ray: Any, study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoder and data are put into Ray's object store once, and read once by each worker, which does not grow."""
    import ray

    diary = tmp_path / "diary"
    diary.mkdir()

    def keep_diaries() -> None:
        import os
        from pathlib import Path

        import palimpsest.execution.ray as executor

        execute = executor.execute

        def noted(*args: Any) -> None:
            execute(*args)
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            with (diary / str(os.getpid())).open("a") as file:
                file.write(f"{pages * os.sysconf('SC_PAGE_SIZE') / 1e6} {executor._fetch.cache_info().misses}\n")

        executor.execute = noted

    put, things = ray.put, []

    def counted(thing: Any, **options: Any) -> Any:
        things.append(type(thing).__name__)
        return put(thing, **options)

    connected(keep_diaries)
    monkeypatch.setattr(ray, "put", counted)
    events = on_ray(study(trials=60), tmp_path / "ray")
    assert len(set(_ended(events))) == 240
    assert sorted(things) == ["Data", "Encoder"]
    packs = {file.name: [line.split() for line in file.read_text().splitlines()] for file in diary.iterdir()}
    assert sum(map(len, packs.values())) == 30
    assert {misses for pages in packs.values() for _, misses in pages} == {"2"}
    weights = [float(megabytes) for megabytes, _ in max(packs.values(), key=len)]
    third = len(weights) // 3
    assert third >= 4
    assert max(weights[-third:]) - max(weights[:third]) < 16, weights


def test_the_store_is_recognised_by_a_token_not_by_its_path(tmp_path: Path) -> None:
    from palimpsest.execution.ray import Errand, RelayStore, _reach, _token

    store = DirectoryStore.open(tmp_path / "store", create=True)
    with _token(store) as token:
        errand = Errand(None, str(store.path), token, "cpu", "stacked", 1, None)
        assert isinstance(_reach(errand), DirectoryStore)
    assert isinstance(_reach(errand), RelayStore)


def test_a_worker_that_hangs_and_does_not_reach_the_store(
    connected: Any, on_ray: Any, run_study: Any, study: Any, tmp_path: Path
) -> None:
    """It is taken for lost after the time limit; its successor sends the records to the driver, which keeps them."""
    flag = tmp_path / "hung"

    def sabotage() -> None:
        import time

        import palimpsest.execution.ray as executor
        from palimpsest.training import stacked

        train = stacked.train

        def hang_once(*args: Any, **options: Any) -> Any:
            if not flag.exists():
                flag.touch()
                time.sleep(600)
            return train(*args, **options)

        stacked.train = hang_once
        executor._reach = lambda errand: executor.RelayStore(errand.mailbox)

    connected(sabotage)
    events = on_ray(study(2), tmp_path / "ray", pack_timeout=20.0)
    run_study(study(2), tmp_path / "here")
    assert flag.exists()
    assert results(tmp_path / "ray") == results(tmp_path / "here")
    assert len(_ended(events)) == len(set(_ended(events))) == 8


def _performing(cluster: Any) -> list[int]:
    """The worker processes of this cluster's nodes that are at a pack."""
    found = []
    for raylet in (p.process.pid for node in cluster.list_all_nodes() for p in node.all_processes["raylet"]):
        for children in Path(f"/proc/{raylet}/task").glob("*/children"):
            for child in children.read_text().split():
                with suppress(OSError):  # it has just ended
                    if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"ray::_perform"):
                        found.append(int(child))
    return found


def test_ctrl_c(cluster: Any, run_study: Any, study: Any, tmp_path: Path) -> None:
    """The driver ends soon and says how far it was, nobody works on, and the next run, wherever, goes on from there."""
    path, where, out = study(trials=8, size=128), tmp_path / "store", tmp_path / "said"
    command = ["run", str(path), "--store", str(where), "--executor", "ray", "--address", str(cluster.address)]
    driver = quick_context().Process(target=command_line, args=(command, out))
    driver.start()
    deadline = time.monotonic() + 200
    while not stamps(where):
        assert driver.is_alive(), out.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert _performing(cluster)
    os.kill(driver.pid, signal.SIGINT)
    begin = time.monotonic()
    driver.join(timeout=60)
    assert driver.exitcode == 130
    took = time.monotonic() - begin
    while _performing(cluster):
        assert time.monotonic() < begin + 60
        time.sleep(0.1)
    before = stamps(where)
    assert 0 < len(before) < 32
    assert len(results(where)) == len(before)
    told = re.search(r"Stopped\. (\d+) of 32 trials were finished and are in", out.read_text())
    assert told, out.read_text()
    assert int(told[1]) <= len(before)
    assert not list(where.rglob(".*"))  # nothing half written is left
    assert took < 30  # a second or two, on a machine that has nothing else to do
    assert len(set(_ended(run_study(path, where)))) == 32 - len(before)
    assert len(results(where)) == 32
    assert before.items() <= stamps(where).items()


def test_an_error_of_a_worker_is_the_drivers(connected: Any, on_ray: Any, study: Any, tmp_path: Path) -> None:
    def full() -> None:
        import errno
        import os

        def no_space(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        os.fsync = no_space

    connected(full)
    from palimpsest.errors import StoreError

    with pytest.raises(StoreError, match="No space left on device"):
        on_ray(study(), tmp_path / "ray")
    assert results(tmp_path / "ray") == {}
