"""From a run to one file that says everything: looked at where neither the encoder nor the data are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import STUDY, Answer, Command, records, write_reviews

from palimpsest import run

MORE = """\
  - kind: datasets
  - kind: claims
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """A study with claims and a table of its data; the data, the encoder and the finished store beside it."""
    folder = tmp_path_factory.mktemp("made")
    write_reviews(folder / "train.csv", 48, seed=1)
    write_reviews(folder / "dev.csv", 16, seed=2)
    shutil.copytree(tiny_checkpoint, folder / "models/mine")
    text = STUDY.format(encoder="./models/mine").replace("[24]", "[8, 24]")
    (folder / "study.yaml").write_text(text + MORE, encoding="utf-8")
    run(folder / "study.yaml", folder / "results", processes=1)
    return folder


@pytest.fixture
def archived(folder: Path, made: Path, palimpsest: Command) -> Path:
    """The archive, with everything that it was made of still beside it."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    answer = palimpsest("export", "study.yaml", "--store", "results", "--format", "archive", "--out", "r.parquet")
    assert (answer.code, answer.out, answer.err) == (0, "r.parquet\n", "")
    return folder / "r.parquet"


def looked_at(palimpsest: Command, store: str, out: Path, *more: str) -> tuple[list[Answer], dict[str, bytes]]:
    """What the looking commands say and write."""
    given = ("study.yaml", "--store", store, *more)
    answers = [
        palimpsest("figures", *given, "--out", out),
        palimpsest("tables", *given, "--out", out),
        palimpsest("tables", *given, "--out", out / "claims", "--claims"),
        palimpsest("export", *given, "--out", out / "tidy.csv"),
        palimpsest("status", *given),
    ]
    assert [answer.code for answer in answers] == [0] * 5, [answer.err for answer in answers]
    return answers, {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_the_same_from_the_archive_alone(folder: Path, archived: Path, palimpsest: Command) -> None:
    said, written = looked_at(palimpsest, "results", folder / "out")
    for gone in ("out", "models", "results"):
        shutil.rmtree(folder / gone)
    for gone in ("train.csv", "dev.csv"):
        (folder / gone).unlink()
    again, rewritten = looked_at(palimpsest, "r.parquet", folder / "out")
    assert again == said
    assert rewritten == written
    assert b"24 against 8, k = 3" in written["claims/claims.txt"]  # resampled with the answers
    assert {"incremental.png", "summary.csv", "datasets.md", "claims/claims.tex", "tidy.csv"} <= set(written)

    assert palimpsest("status", "study.yaml", "--store", "r.parquet", "--model", "mine") == said[-1]
    page = palimpsest("report", "study.yaml", "--store", "r.parquet", "--claims", "--out", "page.html")
    assert page.code == 0, page.err
    shown = (folder / "page.html").read_text()
    assert "palimpsest export --store r.parquet --format store --out palimpsest-store" in shown
    assert "palimpsest run study.yaml --store palimpsest-store" in shown

    whole = palimpsest("export", "--store", "r.parquet", "--format", "archive", "--out", "copy.parquet")
    assert (whole.code, whole.err) == (0, "")
    assert (folder / "copy.parquet").read_bytes() == archived.read_bytes()


def test_the_sentences_are_not_in_it(folder: Path, archived: Path) -> None:
    sentence = (folder / "dev.csv").read_text().splitlines()[1].split('"')[1]
    content = str(pq.read_table(archived).to_pylist()) + str(pq.read_metadata(archived).metadata)
    assert sentence not in content
    assert str(folder) not in content
    assert '"labels":["neg","pos"]' in content


def test_an_archive_is_not_run_into(folder: Path, archived: Path, palimpsest: Command) -> None:
    before = archived.read_bytes()
    shutil.rmtree(folder / "models")  # what is wrong with the store is said before anything is looked for
    for store in ("r.parquet", "new.parquet"):
        answer = palimpsest("run", "study.yaml", "--store", store)
        assert answer.code == 2
        assert f"{store} names an archive, which is read and not added to" in answer.err
    assert archived.read_bytes() == before
    assert not (folder / "new.parquet").exists()


def test_a_store_again(folder: Path, archived: Path, palimpsest: Command) -> None:
    answer = palimpsest("export", "--store", "r.parquet", "--format", "store", "--out", "back")
    assert (answer.code, answer.out) == (0, "back: 8 records of r.parquet, 8 of them new\n")
    assert records(folder / "back") == records(folder / "results")
    assert "Nothing to run" in palimpsest("run", "study.yaml", "--store", "back").out
    assert archived.is_file()


def test_without_a_study_one_says_where_the_encoder_is(folder: Path, archived: Path, palimpsest: Command) -> None:
    whole = ("export", "--store", "results", "--format", "archive", "--out", "whole.parquet")
    bare = palimpsest(*whole)
    assert bare.code == 0
    assert "To look at these results one will need the encoder mine@" in bare.err
    assert "To look at these results one will need the task reviews@" in bare.err
    assert "name the study that says where they are" in bare.err
    told = palimpsest(*whole, "--model", "models/mine")
    assert "the encoder" not in told.err
    shutil.rmtree(folder / "models")
    assert palimpsest("status", "study.yaml", "--store", "whole.parquet").code == 0
    assert archived.is_file()


def test_an_encoder_that_the_archive_does_not_have(folder: Path, archived: Path, palimpsest: Command) -> None:
    shutil.rmtree(folder / "models")
    answer = palimpsest("tables", "study.yaml", "--store", "r.parquet", "--model", "theirs")
    assert answer.code == 2
    assert "The archive has trials of mine@" in answer.err
    assert archived.is_file()


def test_places_that_cannot_be(palimpsest: Command, archived: Path) -> None:
    assert "needs a place to write to" in palimpsest("export", "--store", archived, "--format", "store").err
    assert "Did you mean 'archive'" in palimpsest("export", "--store", archived, "--format", "archiv").err
    answer = palimpsest("export", "--store", archived, "--format", "archive", "--out", "here.zip")
    assert (answer.code, "end its name in .parquet" in answer.err) == (2, True)
