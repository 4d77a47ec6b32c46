"""Ctrl-C in the middle of a run on two processes: what is finished stays, and the same command goes on from there."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from command_line import Command, records


def test_stopped_and_started_again(
    folder: Path, process: Callable[..., subprocess.Popen[str]], palimpsest: Command
) -> None:
    command = ("run", "study.yaml", "--store", "results", "--set", "trials=12", "--set", "protocol.epochs=6")
    running = process(*command, "--processes", 2)
    deadline = time.monotonic() + 240
    while not records(folder / "results"):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, "")
    kept = records(folder / "results")
    assert 0 < len(kept) < 24
    told = re.search(r"^Stopped\. (\d+) of 24 trials were finished and are in results; the same command", out, re.M)
    assert told
    assert int(told[1]) <= len(kept)  # the last ones may have been written and not yet told
    assert not list((folder / "results").rglob(".*"))  # nothing half written is left

    again = palimpsest(*command, "--processes", 1)
    assert again.code == 0
    assert f"{24 - len(kept)} trials finished" in again.out
    after = records(folder / "results")
    assert len(after) == 24
    assert {id: after[id] for id in kept} == kept
