"""Under which circumstances something was measured, for the files in ``benchmarks/results``."""

from __future__ import annotations

import json
import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any


def circumstances(*packages: str) -> dict[str, Any]:
    """The date, the machine in words and the versions that count."""
    return {
        "date": str(date.today()),
        "machine": f"{len(os.sched_getaffinity(0))} {platform.machine()} cores",
        "load before": round(os.getloadavg()[0], 1),  # 0 if the machine has nothing else to do
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }


def write(report: dict[str, Any], out: Path | None) -> None:
    if out is not None:
        out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds; 0 if it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0
    return 0.0
