"""What `make audit` makes of pip-audit's answers: silence of the database is not a clean bill of health."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

verdict = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "audit.py"))["verdict"]

FINE = {"name": "fine", "version": "1", "vulns": []}
FLAWED = {"name": "flawed", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}
UNKNOWN = {"name": "homemade", "skip_reason": "not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "code", "says"),
    [
        ([FINE], 0, "0 known vulnerabilities in 1 packages"),
        ([FINE, UNKNOWN], 0, "Not in the database: homemade"),
        ([FINE, FLAWED], 1, "flawed 2: PYSEC-1, mended in 2.1"),
        ([UNKNOWN], 2, "NOT AUDITED"),
        ([], 2, "NOT AUDITED"),
    ],
)
def test_verdict(packages: list[dict[str, Any]], code: int, says: str) -> None:
    found, message = verdict(packages)
    assert found == code
    assert says in message
