"""Bad input on the command line: exit code 2, one readable message on stderr, no traceback, nothing lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from command_line import Command, records

ON_THE_LINE = {
    "unknown study": ("plan demoo", "unknown study 'demoo'. Did you mean 'demo'?"),
    "no study file": ("plan nosuch.yaml", "there is no study file nosuch.yaml"),
    "a study file misspelt": ("plan stduy.yaml", "there is no study file stduy.yaml. Did you mean study.yaml?"),
    "a shard that is none": ("run study.yaml --store new --shard 3/2", "--shard '3/2' is not of the form i/n"),
    "unknown kind of figure": ("figures study.yaml --kind scater", "unknown kind 'scater'. Did you mean 'scatter'?"),
    "unknown kind of table": ("tables study.yaml --kind sumary", "unknown kind 'sumary'. Did you mean 'summary'?"),
    "a directory for a study": ("plan .", ". is a directory; a study is a YAML file"),
    "unknown setting": ("plan study.yaml --set trils=3", "unknown setting 'trils'. Did you mean 'trials'?"),
    "a setting without a value": ("plan study.yaml --set trials", "--set takes key=value"),
    "a setting of nothing": ("plan study.yaml --set sizes=", "--set sizes= has no value"),
    "unknown protocol": ("plan study.yaml --set protocol=papr", "unknown protocol 'papr'. Did you mean 'paper'"),
    "unknown protocol field": ("plan study.yaml --set protocol.epoch=3", "Did you mean 'protocol.epochs'"),
    "unknown task": ("plan study.yaml --set tasks=colla", "unknown task 'colla'. Did you mean 'cola'?"),
    "no encoder directory": ("plan study.yaml --model ./nowhere", "there is no encoder directory './nowhere'"),
    "unknown encoder": ("plan study.yaml --model nowhere", "cannot get the encoder 'nowhere'"),
    "no checkpoint": ("plan study.yaml --model .", "no Hugging Face checkpoint"),
    "unknown device": ("run study.yaml --store new --device cud", "unknown device 'cud'. Did you mean 'cuda'"),
    "unknown device in a plan": ("plan study.yaml --device cud", "unknown device 'cud'. Did you mean 'cuda'"),
    "unknown engine": (
        "run study.yaml --store new --engine stakced",
        "unknown engine 'stakced'. Did you mean 'stacked'",
    ),
    "unknown format": ("export study.yaml --format parket", "unknown format 'parket'. Did you mean 'parquet'"),
    "layer out of range": ("plan study.yaml --set preserved=4", "layer 4 is out of range: this encoder has 3 layers"),
    "too many examples": (
        "plan study.yaml --set sizes=49",
        "49 training examples are asked for, but there are only 48",
    ),
    "no data directory": ("plan study.yaml --data nowhere", "nowhere: no such directory"),
    "no store": ("status study.yaml --store nowhere", "there is no store in nowhere"),
    "not a store": ("run study.yaml --store .", "is not a store"),
    "a file for a store": ("plan study.yaml --store dev.csv", "dev.csv is a file; a store is a directory"),
    "a store that cannot be made": ("run study.yaml --store dev.csv/x", "cannot open the store dev.csv/x"),
    "layers out of range": ("surgery {model} --reinit 2-4 --out new", "layer 4 is out of range"),
    "no layers": ("surgery {model} --reinit two --out new", "'two' is not a layer or a range of layers"),
    "heads out of range": ("surgery {model} --reinit-heads 1:3 --out new", "head 3 of layer 1 is out of range"),
    "no heads": ("surgery {model} --reinit-heads 1 --out new", "'1' is not LAYER:HEADS"),
    "no permutation": (
        "surgery {model} --permute 1,1,2 --out new",
        "1,1,2 is not a permutation of this encoder's layers",
    ),
    "no surgery": ("surgery {model} --out new", "nothing to do"),
    "surgery in a full place": ("surgery {model} --reinit 1 --out .", ". exists and is not empty"),
    "surgery by no law": ("surgery {model} --reinit 1 --out new --protocol papre", "Did you mean 'paper'"),
}

IN_THE_FILE = {
    "unknown key": ("trials: 2", "trils: 2", "unknown key 'trils'. Did you mean 'trials'"),
    "unknown kind": ("kind: incremental", "kind: incrementl", "unknown kind 'incrementl'. Did you mean 'incremental'?"),
    "unknown figure": (
        "figures:\n  - kind: inc",
        "figures:\n  - kind: ink",
        "unknown figure 'inkremental'. Did you mean",
    ),
    "unknown table": ("kind: summary", "kind: sumary", "unknown table 'sumary'. Did you mean 'summary'?"),
    "no number": ("trials: 2", "trials: two", "Input should be a valid integer (given: 'two')"),
    "no YAML": ("  - kind: incremental\n    pre", "  -kind: incremental\n    pre", "line 12 is not valid YAML"),
    "no such column": ("text: sentence", "text: sentense", "train.csv:1: there is no column 'sentense'; did you mean"),
    "no such file": ("train: train.csv", "train: trian.csv", "trian.csv: no such file"),
    "a known task's name": ("name: reviews", "name: cola", "is the name of a task that Palimpsest knows already"),
    "frozen layer": ("max_length: 32", "max_length: 32, frozen_layers: [4]", "frozen layer 4 is out of range"),
}

IN_THE_DATA = {
    "ragged": (b'sentence,verdict\n"a",pos\n"b",neg,x\n', "train.csv:3: 3 columns where there should be 2"),
    "encoding": (b"sentence,verdict\na,pos\n\xff,neg\n", "train.csv:3: byte 0xff is not UTF-8"),
    "empty": (b"", "train.csv:1: the file is empty"),
    "no examples": (b"sentence,verdict\n", "there is no example"),
    "label": (b"sentence,verdict\na,pos\nb,neg\n", "dev.csv:2: 'other' in column 'verdict' is not a label"),
}


def complaint(palimpsest: Command, line: str) -> str:
    """What a command says that must fail properly."""
    answer = palimpsest(*line.split())
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err
    return answer.err


@pytest.mark.parametrize(("line", "said"), ON_THE_LINE.values(), ids=ON_THE_LINE)
def test_on_the_line(folder: Path, palimpsest: Command, tiny_checkpoint: Path, line: str, said: str) -> None:
    assert said in complaint(palimpsest, line.format(model=tiny_checkpoint))
    assert not (folder / "new").exists()


def test_no_such_device(folder: Path, palimpsest: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "there is no CUDA device here" in complaint(palimpsest, "run study.yaml --store new --device cuda")
    assert not (folder / "new").exists()


@pytest.mark.parametrize(("old", "new", "said"), IN_THE_FILE.values(), ids=IN_THE_FILE)
def test_in_the_file(folder: Path, palimpsest: Command, old: str, new: str, said: str) -> None:
    path = folder / "study.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert said in complaint(palimpsest, "plan study.yaml")
    assert said in complaint(palimpsest, "run study.yaml --store new")
    assert not (folder / "new").exists()


@pytest.mark.parametrize(("content", "said"), IN_THE_DATA.values(), ids=IN_THE_DATA)
def test_in_the_data(folder: Path, palimpsest: Command, content: bytes, said: str) -> None:
    (folder / "train.csv").write_bytes(content)
    if "dev.csv" in said:
        (folder / "dev.csv").write_text("sentence,verdict\nwho,other\n")
    assert said in complaint(palimpsest, "plan study.yaml")


def test_an_unknown_drawing_is_said_before_anything_runs(folder: Path, palimpsest: Command) -> None:
    path = folder / "study.yaml"
    path.write_text(path.read_text().replace("kind: summary", "kind: sumary"))
    assert "unknown table 'sumary'. Did you mean 'summary'?" in complaint(palimpsest, "run study.yaml --store new")
    assert not (folder / "new").exists()


@pytest.mark.parametrize("line", ["plan", "nosuch", "--nosuch", "run study.yaml --limit 0", "surgery x --reinit 1"])
def test_usage(palimpsest: Command, line: str) -> None:
    answer = palimpsest(*line.split())
    assert answer.code == 2
    assert answer.out == ""
    assert "Usage:" in answer.err


def test_debug_shows_where(palimpsest: Command) -> None:
    answer = palimpsest("plan", "study.yaml", "--set", "trils=3", "--debug")
    assert answer.code == 2
    assert "Traceback" in answer.err
    assert "palimpsest/specs/settings.py" in answer.err
    assert answer.err.rstrip().splitlines()[-1].startswith("error: unknown setting 'trils'")


def test_a_bug_is_one_message_too(palimpsest: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("palimpsest.execution.plan.make_plan", broken)
    answer = palimpsest("plan", "study.yaml")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in answer.err
    assert "--debug" in answer.err


def test_a_tokenizer_of_another_encoder(folder: Path, palimpsest: Command, tiny_tokenizer: object) -> None:
    from families import model_of

    model_of("bert", vocabulary=50).save_pretrained(folder / "mixed")
    tiny_tokenizer.save_pretrained(folder / "mixed")  # type: ignore[attr-defined]
    answer = palimpsest("run", "study.yaml", "--store", "new", "--model", "./mixed", "--processes", 1)
    assert answer.code == 2
    assert "the tokenizer of mixed does not belong to its weights" in answer.err
    assert records(folder / "new") == {}


def test_a_store_that_cannot_be_written_to(folder: Path, palimpsest: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert palimpsest("run", "study.yaml", "--store", "results", "--processes", 1, "--limit", 1).code == 0
    before = records(folder / "results")

    def refuse(_: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "fsync", refuse)
    answer = palimpsest("run", "study.yaml", "--store", "results", "--processes", 1)
    assert answer.code == 2
    assert "cannot write to the store results: Read-only file system" in answer.err
    assert records(folder / "results") == before
    assert palimpsest("tables", "study.yaml", "--store", "results").code == 0
