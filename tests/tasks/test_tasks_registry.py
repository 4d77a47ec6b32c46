"""The listing of tasks, and what of them goes into a trial's identity."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from palimpsest.tasks import registry
from palimpsest.tasks.base import Answers, Split
from palimpsest.tasks.fingerprint import fingerprint


def test_the_listing_has_every_name_and_says_something_of_each() -> None:
    rows = registry.describe()
    assert [row.name for row in rows] == registry.names()
    assert {"cola", "squad2", "mini-sentiment", "mini-acceptability", "mini-inference"} <= set(registry.names())
    assert len({row.summary for row in rows}) == len(rows)
    assert all(row.train_rows > row.validation_rows > 0 and row.metrics and row.summary for row in rows)


def test_built_in_tasks_do_not_care_about_the_directory(tmp_path: Path) -> None:
    task = registry.load("mini-sentiment", tmp_path / "nowhere")
    assert task is registry.load("mini-sentiment")
    assert registry.identify("mini-sentiment").train_rows == len(task.train)


def test_identity_from_the_hub_needs_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    identity = registry.identify("QNLI")
    assert (identity.name, identity.data, identity.train_rows) == ("qnli", None, 104743)


def test_the_official_row_counts_are_the_official_task(tmp_path: Path) -> None:
    (tmp_path / "WNLI").mkdir()
    rows = "".join(f"{n}\tsentence {n}\tother\t{n % 2}\n" for n in range(635)).splitlines(keepends=True)
    header = "index\tsentence1\tsentence2\tlabel\n"
    (tmp_path / "WNLI" / "dev.tsv").write_text(header + "".join(rows[:71]))
    (tmp_path / "WNLI" / "train.tsv").write_text(header + "".join(rows))
    assert registry.identify("wnli", tmp_path) == registry.identify("wnli", None)
    (tmp_path / "WNLI" / "train.tsv").write_text(header + "".join(rows[:-1]))
    partial = registry.identify("wnli", tmp_path)
    assert (partial.train_rows, partial.data is None) == (634, False)


def test_a_fingerprint_tells_contents_apart() -> None:
    def of(first: list[str], second: list[str] | None, targets: list[int] | list[float] | list[Answers]) -> str:
        answers = [t for t in targets if isinstance(t, Answers)]
        split = Split(first, second, answers or np.array(targets))
        return fingerprint([split, split])

    found = [
        of(["ab", "c"], None, [0, 1]),
        of(["a", "bc"], None, [0, 1]),
        of(["c", "ab"], None, [0, 1]),
        of(["ab", "c"], None, [1, 0]),
        of(["ab", "c"], None, [0.0, 1.0]),
        of(["ab"], ["c"], [0]),
        of(["ab"], ["c"], [Answers((), ())]),
        of(["ab"], ["c"], [Answers(("c",), (0,))]),
        of(["ab"], ["c"], [Answers(("c",), (1,))]),
    ]
    assert len(set(found)) == len(found)
    assert of(["ab", "c"], None, [0, 1]) == found[0]


def test_a_fingerprint_is_the_same_everywhere() -> None:
    split = Split(["naïve", ""], ["a", "b"], np.array([1, 0]))
    assert fingerprint([split], "x") == "46e8cdb64a2b9a97"


def test_specs_of_task_files_stay_light() -> None:
    code = (
        "import sys, palimpsest.specs.task_file;"
        "print([m for m in ('torch', 'transformers', 'pandas', 'sklearn', 'scipy', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
