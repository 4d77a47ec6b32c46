"""Measures, sequences and heads on the command line: run, drawn and tabulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from command_line import Answer

STUDY = """\
encoder: {encoder}
protocol: {{extends: paper, learning_rate: 0.001, epochs: 1}}
tasks:
  - {{name: first, train: train.csv, validation: dev.csv, text: sentence, label: verdict}}
  - {{name: second, train: dev.csv, validation: train.csv, text: sentence, label: verdict}}
experiments:
  - {{kind: incremental, tasks: [first], preserved: [L], sizes: [8], trials: 2, measure: [drift, cka]}}
  - {{kind: sequential, tasks: [first], sizes: [8], trials: 2, measure: [drift, cka]}}
  - {{kind: heads, tasks: [first], layers: [1], heads: [1, 2], sizes: [8], trials: 2, measure: [drift, cka]}}
figures:
  - {{kind: drift, options: {{distance: spectral, normalised: true}}}}
  - kind: cka
  - {{kind: curves, options: {{kind: sequential}}}}
  - kind: sequential
  - {{kind: heads, options: {{correction: bh}}}}
tables:
  - kind: sequential-matrix
  - kind: sequential-tests
  - kind: heads-by-layer
  - kind: heads-tests
"""


def test_measures_sequences_and_heads(folder: Path, tiny_checkpoint: Path, palimpsest: Callable[..., Answer]) -> None:
    (folder / "reports.yaml").write_text(STUDY.format(encoder=tiny_checkpoint), encoding="utf-8")
    ran = palimpsest("run", "reports.yaml", "--store", "s", "--processes", 1)
    assert ran.code == 0, ran.err
    assert list((folder / "s" / "weights").iterdir()) == []
    drawn = palimpsest("figures", "reports.yaml", "--store", "s", "--out", "f")
    assert drawn.code == 0, drawn.err
    kinds = ("drift", "cka", "curves", "sequential", "heads")
    assert {p.name for p in (folder / "f").iterdir()} == {f"{k}.{e}" for k in kinds for e in ("png", "pdf")}
    told = palimpsest("tables", "reports.yaml", "--store", "s")
    assert told.code == 0, told.err
    assert "after second" in told.out
    assert "Std Dev" in told.out
    assert "Corrected p" in told.out
