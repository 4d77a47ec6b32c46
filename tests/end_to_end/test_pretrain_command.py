"""`palimpsest pretrain` on a toy corpus: a checkpoint that the other commands take as an encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from palimpsest.cli import app
from palimpsest.encoders.identity import identify
from palimpsest.errors import DataError, PalimpsestError, SpecError

SHAPE = [
    "--layers", "2", "--hidden", "16", "--heads", "2", "--vocabulary", "90", "--max-length", "16",
    "--batch-tokens", "128", "--warmup-steps", "2", "--device", "cpu",
]  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    nouns, verbs = ("miller", "sailor", "teacher", "gardener"), ("paints", "forgets", "admires")
    lines = [f"the {a} {v} the {b} on day {n}." for n in range(20) for a in nouns for v in verbs for b in nouns]
    path = tmp_path / "toy.txt"
    path.write_text("\n".join(lines))
    return path


def test_a_corpus_becomes_an_encoder(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy-bert"
    result = CliRunner().invoke(app, ["pretrain", str(corpus), "--out", str(out), "--steps", "6", *SHAPE])
    assert result.exit_code == 0, result.output
    assert str(out) in result.output.replace("\n", "")
    identity = identify(str(out))
    assert (identity.depth, identity.heads) == (2, 2)
    facts = json.loads((out / "pretraining.json").read_text())
    assert facts["steps"] == 6
    assert facts["settings"]["hidden"] == 16
    assert (out / "README.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ([], SpecError, "either minutes or steps"),
        (["--steps", "5", "--minutes", "1"], SpecError, "either minutes or steps"),
        (["--steps", "5", "--heads", "3"], SpecError, "not a multiple"),
        (["--steps", "0"], SpecError, "steps"),
    ],
)
def test_settings_that_make_no_sense(
    corpus: Path, tmp_path: Path, arguments: list[str], error: type[PalimpsestError], said: str
) -> None:
    line = ["pretrain", str(corpus), "--out", str(tmp_path / "out"), *SHAPE, *arguments]
    result = CliRunner().invoke(app, line)
    assert isinstance(result.exception, error)
    assert said in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_corpus_that_is_not_there(tmp_path: Path) -> None:
    line = ["pretrain", str(tmp_path / "none.txt"), "--out", str(tmp_path / "out"), "--steps", "1", *SHAPE]
    assert isinstance(CliRunner().invoke(app, line).exception, DataError)
