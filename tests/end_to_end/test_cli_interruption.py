"""Ctrl-C or SIGTERM in the middle of a run on two processes: what is finished stays, and the same command goes on."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Command, records


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_and_started_again(
    folder: Path, process: Callable[..., subprocess.Popen[str]], palimpsest: Command, sent: signal.Signals, code: int
) -> None:
    command = ("run", "study.yaml", "--store", "results", "--set", "trials=12", "--set", "protocol.epochs=6")
    running = process(*command, "--processes", 2)
    deadline = time.monotonic() + 240
    while not records(folder / "results"):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(sent)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (code, "")
    kept = records(folder / "results")
    assert 0 < len(kept) < 24
    told = re.search(r"^Stopped\. (\d+) of 24 trials were finished and are in results; the same command", out, re.M)
    assert told
    assert int(told[1]) <= len(kept)  # the last ones may have been written and not yet told
    assert not list((folder / "results").rglob(".*"))  # nothing half written is left
    assert not list((folder / "results" / "running").glob("*"))  # and nothing is said to be going on

    again = palimpsest(*command, "--processes", 1)
    assert again.code == 0
    assert f"{24 - len(kept)} trials finished" in again.out
    after = records(folder / "results")
    assert len(after) == 24
    assert {id: after[id] for id in kept} == kept
