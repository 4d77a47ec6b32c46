"""A study run with its store on an S3 server that goes away in the middle, over HTTP on loopback."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import fsspec
import pytest
from s3_server import ENVIRONMENT, free_port, serving

from palimpsest.errors import StoreError
from palimpsest.execution.plan import make_plan
from palimpsest.execution.run import run_plan
from palimpsest.execution.worker import Event
from palimpsest.store import open_store
from palimpsest.store.running import drivers, remembered
from palimpsest.studies import load

# aiobotocore leaves its connection pool to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

URL = "s3://unplugged/results"
STUDY = """\
encoder: {encoder}
protocol: {{extends: paper, learning_rate: 0.001, epochs: 1}}
tasks:
  - {{name: verdicts, train: train.tsv, validation: validation.tsv, text: sentence, label: verdict}}
experiments:
  - {{kind: incremental, preserved: [0, 2], sizes: [16], trials: 3}}
"""


@pytest.fixture
def study(tmp_path: Path, tiny_checkpoint: Path) -> str:
    """Six trials of two steps, in one pack."""
    for split, n in (("train", 40), ("validation", 8)):
        lines = [f"the {'good' if i % 3 else 'bad'} king {'not ' * (i % 5)}\t{i % 2}" for i in range(n)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(["sentence\tverdict", *lines]) + "\n", encoding="utf-8")
    (tmp_path / "study.yaml").write_text(STUDY.format(encoder=tiny_checkpoint), encoding="utf-8")
    return str(tmp_path / "study.yaml")


def run(study: str, on_trial: object = None) -> None:
    def watch(event: Event) -> None:
        if event.kind == "trial" and callable(on_trial):
            on_trial()

    store = open_store(URL, create=True)
    run_plan(make_plan(load(study), store), store, URL, watch, "cpu", processes=1)


def test_the_server_goes_away_in_mid_run(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear error; when the server is back, finished records are intact and the same command goes on."""
    port, system = free_port(), fsspec.get_filesystem_class("s3")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    system.clear_instance_cache()  # of other servers

    def held() -> dict[str, bytes]:
        s3 = fsspec.filesystem("s3", use_listings_cache=False)
        return {path: s3.cat_file(path) for path in s3.find(f"{URL}/trials")}

    try:
        ended: list[None] = []
        with ExitStack() as server:
            server.enter_context(serving(port))
            fsspec.filesystem("s3", use_listings_cache=False).mkdir("unplugged")

            def unplug() -> None:
                ended.append(None)
                if len(ended) == 3:
                    server.close()

            with pytest.raises(StoreError, match=f"cannot write to the store {URL}: .*the same command again"):
                run(study, unplug)
        assert len(ended) == 3
        with serving(port):
            before = held()
            assert len(before) == 3
            run(study)
            after = held()
            assert len(after) == 6
            assert before.items() <= after.items()
            store = open_store(URL)
            assert len(store.finished_ids()) == 6
            assert store.problems == []
            known = remembered(store)
            assert known is not None
            assert known[0].name == "study"
            assert len(drivers(store)) <= 1  # the first could not take its note away, which will soon be too old
    finally:
        system.clear_instance_cache()
