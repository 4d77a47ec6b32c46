"""Every study of the paper, run to its figures and tables: a tiny encoder, a few dozen miniature sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from families import save
from typer.testing import CliRunner, Result

from palimpsest.cli import app
from palimpsest.figures.style import STYLE
from palimpsest.store import open_store
from palimpsest.studies import load
from palimpsest.tasks.registry import load as load_task

MINIATURES = ("mini-inference", "mini-acceptability")
STUDIES = [study.name for study in load("tamkin2020")]


class Paper:
    """The whole paper on a tiny encoder, in one store."""

    def __init__(self, folder: Path, tokenizer: Any) -> None:
        self.out, self.store = folder / "out", folder / "store"
        self._model = save(folder / "tiny", "bert", tokenizer)
        tasks = [_small(folder, name) for name in MINIATURES]
        self.one_task = f"tasks={json.dumps(tasks[:1])}"
        self._settings = [
            f"tasks={json.dumps(tasks)}", "sizes=12", "incremental.sizes=8,12",
            "trials=2", "epochs=1", "block_size=2", "permutations=3",
            "probing.sizes=all", "probing.epochs=2", "protocol.max_length=16",
        ]  # fmt: skip

    def __call__(self, command: str, study: str, *options: str) -> Result:
        """Run a command in this process."""
        experiments = [e for known in load(study) for e in known.experiments]

        def means_something(setting: str) -> bool:
            kind, dot, key = setting.partition("=")[0].rpartition(".")
            if kind in ("", "protocol"):
                return (
                    dot == "."
                    or key == "tasks"
                    or any(key in {*type(e).model_fields} - {*e.fixed} for e in experiments)
                )
            return any(getattr(e, "kind", "") == kind for e in experiments)

        settings = [s for s in self._settings if means_something(s)]
        arguments = [command, study, "--model", str(self._model), "--store", str(self.store)]
        arguments += [part for s in settings for part in ("--set", s)]
        result = CliRunner().invoke(app, [*arguments, *options])
        assert result.exception is None, result.output
        return result


def _small(folder: Path, name: str) -> dict[str, Any]:
    """The beginning of a miniature, as files of the user's own."""
    task = load_task(name, None)
    files = {}
    for part, split, rows in (("train", task.train, 24), ("validation", task.validation, 16)):
        files[part] = folder / f"{name}-{part}.jsonl"
        lines = []
        for i in range(rows):
            row = {"a": split.first[i], "label": task.labels[int(split.targets[i])]}  # type: ignore[call-overload]
            lines.append(json.dumps(row | ({"b": split.second[i]} if split.second is not None else {})))
        files[part].write_text("\n".join(lines))
    text: Any = ["a", "b"] if task.train.second is not None else "a"
    return {"name": name.replace("mini", "small"), **{k: str(v) for k, v in files.items()}, "text": text,
            "label": "label", "labels": list(task.labels), "metrics": [task.metrics[0]]}  # fmt: skip


@pytest.fixture(autouse=True)
def quick_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STYLE, "savefig.dpi", 30)
    monkeypatch.setitem(STYLE, "pdf.fonttype", 3)  # type 42 is what users get, and takes a second per file


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Paper:
    paper = Paper(tmp_path_factory.mktemp("paper"), tiny_tokenizer)
    paper("run", "tamkin2020", "--processes", "1", "--device", "cpu")
    return paper


def test_running_the_paper_leaves_nothing_to_run(paper: Paper) -> None:
    assert "Nothing to run" in paper("run", "tamkin2020", "--device", "cpu").output
    assert "Nothing to run" in paper("run", "tamkin2020/figure3", "--device", "cpu").output
    ids = open_store(paper.store).ids()
    # incremental 4 k, blocks 2 × 2 (three of them k = 1 or 2 by another name), single layers, 5 × rate, kept layer
    # norm, permutations, probes; the appendix has one epoch here, and so nothing of its own
    assert 0 < len(ids) < 2 * 2 * 2 * (4 + 4 + 3 + 3 + 3) + 2 * 3 * 2 + 2 * 4 * 2


@pytest.mark.parametrize("name", [s for s in STUDIES if load(s)[0].figures])
def test_every_figure_is_drawn(paper: Paper, name: str) -> None:
    out = paper.out / name
    shown = paper("figures", name, "--out", str(out), "--published").output
    [figure] = load(name)[0].figures
    assert {path.name for path in out.iterdir()} == {f"{figure.kind}.png", f"{figure.kind}.pdf"}
    assert str(out) in shown.replace("\n", "")


def test_every_table_is_printed(paper: Paper) -> None:
    tables = {name: paper("tables", f"tamkin2020/{name}").output for name in ("table1", "table2", "runtime", "figure6")}
    assert "small-inference, small-acceptability" in tables["table1"]
    assert " 24 " in tables["table2"]
    assert "in all" in tables["runtime"]
    assert "22 GPU-days" in tables["runtime"]
    assert "layer 3 re-initialised" in tables["figure6"]
    beside = paper("tables", "tamkin2020/table1", "--published").output
    assert "Published Spearman" in beside


def test_the_claims_are_tested_on_all_of_the_papers_trials(paper: Paper) -> None:
    out = paper.out / "claims"
    shown = paper("tables", "tamkin2020", "--claims", "--out", str(out)).output
    for claim in range(1, 5):
        assert f"\n{claim} " in shown
    assert "claim as a whole" in shown
    other = ("reinitialized_rat", "layer_norm")  # the arms of Figures 7 and 8 have no probing
    assert not [line for line in shown.splitlines() if " needs " in line and not any(arm in line for arm in other)]
    assert (out / "claims.csv").is_file()


def test_the_errata_study(paper: Paper) -> None:
    name, small = (
        "tamkin2020/errata",
        ("--set", paper.one_task, "--set", "protocol.max_length=8", "--set", "preserved=0,L"),
    )
    paper("run", name, "--processes", "1", "--device", "cpu", *small)
    out = paper.out / "errata"
    paper("figures", name, "--out", str(out), *small)
    assert {p.stem for p in out.iterdir()} == {"side-by-side", "comparison"}
    shown = paper("tables", name, *small).output
    for protocol in ("paper", "released-code", "bert-original", "near-zero-init", "pretrained-pooler", "padded"):
        assert f"\n{protocol}, max_length 8 " in shown


def test_an_unfinished_paper_draws_what_is_there(paper: Paper, tmp_path: Path) -> None:
    paper.store, finished = tmp_path / "store", paper.store
    try:
        paper("run", "tamkin2020/figure6", "--processes", "1", "--device", "cpu", "--limit", "4")
        result = paper("figures", "tamkin2020", "--out", str(tmp_path / "out"))
    finally:
        paper.store = finished
    assert "tamkin2020/figure4" in result.output
    assert "nothing finished yet" in result.output.replace("\n", " ")
    assert (tmp_path / "out/tamkin2020/figure1/schematic.png").is_file()
    assert (tmp_path / "out/tamkin2020/figure6/single.pdf").is_file()


def test_a_kind_is_drawn_where_it_can_be(paper: Paper, tmp_path: Path) -> None:
    paper("figures", "tamkin2020", "--kind", "permutation", "--out", str(tmp_path / "out"))
    assert {path.parent.name for path in (tmp_path / "out").rglob("*.png")} == {"figure1", "figure4", "table1"}
    table = paper("tables", "tamkin2020", "--kind", "correlations").output
    assert table.count("Spearman") == 3
    with pytest.raises(AssertionError, match=r"NotInStudy.*needs an experiment of kind 'heads'"):
        paper("figures", "tamkin2020", "--kind", "heads", "--out", str(tmp_path / "none"))


def test_the_diagram_needs_no_results(paper: Paper, tmp_path: Path) -> None:
    paper.store, finished = tmp_path / "none", paper.store
    try:
        paper("figures", "tamkin2020/figure1", "--out", str(tmp_path / "out"))
    finally:
        paper.store = finished
    assert (tmp_path / "out/schematic.pdf").is_file()
    assert not (tmp_path / "none").exists()


def test_errata_are_printed() -> None:
    result = CliRunner().invoke(app, ["errata"])
    assert result.exit_code == 0
    assert "near-zero-init" in result.output
    assert "±0.0008" in result.output
    assert "t distribution" in result.output
