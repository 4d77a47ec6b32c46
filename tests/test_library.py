"""The package as a library: what a script or a notebook calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import palimpsest
from palimpsest.specs.study import Study

DATA = "sentence\tverdict\n" + "".join(
    f"{'good' if i % 3 else 'bad'} king {'river ' * (i % 5)}\t{i % 2}\n" for i in range(24)
)


@pytest.fixture
def study(tmp_path: Path, tiny_checkpoint: Path) -> Study:
    (tmp_path / "data.tsv").write_text(DATA)
    task = {"name": "verdicts", "text": "sentence", "label": "verdict"}
    return Study.parse(
        {
            "name": "mine",
            "encoder": str(tiny_checkpoint),
            "protocol": {"extends": "paper", "epochs": 1},
            "tasks": [task | {"train": str(tmp_path / "data.tsv"), "validation": str(tmp_path / "data.tsv")}],
            "experiments": [{"kind": "incremental", "preserved": [0, 3], "sizes": [8], "trials": 2}],
        },
        "a script",
    )


def test_run_gives_a_table_and_runs_nothing_twice(study: Study, tmp_path: Path) -> None:
    seen: list[str] = []
    table = palimpsest.run(study, tmp_path / "store", processes=1, on_event=lambda e: seen.append(e.kind))
    assert seen.count("trial") == 4
    assert list(table["preserved"]) == [0, 0, 3, 3]
    assert set(table["status"]) == {"finished"}
    assert table["score"].between(0, 1).all()
    again = palimpsest.run(study, tmp_path / "store", on_event=lambda e: seen.append(e.kind))
    assert seen.count("trial") == 4
    assert list(again["score"]) == list(table["score"])


@pytest.mark.parametrize("way", ["script.py", "-"])
def test_a_plain_script_may_run_a_study_on_several_processes(
    study: Study, tmp_path: Path, tiny_checkpoint: Path, way: str
) -> None:
    settings = study.model_dump(mode="json", exclude_defaults=True) | {"encoder": str(tiny_checkpoint)}
    text = (
        "import palimpsest\nfrom palimpsest.specs.study import Study\nprint('begins', flush=True)\n"
        f"study = Study.parse({settings!r}, 'it')\n"
        "print(len(palimpsest.run(study, 'store', processes=2, device='cpu')), __name__, flush=True)\n"
    )
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run([sys.executable, way], input=text, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout) == (0, "begins\n4 __main__\n"), done.stderr


def test_what_there_is_can_be_found() -> None:
    assert set(palimpsest.__all__) <= set(dir(palimpsest))


def test_run_takes_what_the_command_line_takes(tmp_path: Path) -> None:
    with pytest.raises(palimpsest.PalimpsestError, match="unknown setting 'trils'"):
        palimpsest.run("demo", tmp_path / "store", settings={"trils": 1})
    with pytest.raises(palimpsest.PalimpsestError, match="unknown device"):
        palimpsest.run("demo", tmp_path / "store", device="tpu")


def test_settings_are_for_studies_that_are_read(study: Study, tmp_path: Path, tiny_checkpoint: Path) -> None:
    with pytest.raises(palimpsest.PalimpsestError, match="settings"):
        palimpsest.run(study, tmp_path / "store", settings={"trials": 1})
    with pytest.raises(palimpsest.PalimpsestError, match="model"):
        palimpsest.run(study, tmp_path / "store", model=str(tiny_checkpoint))


def test_surgery_on_a_model_in_memory(tiny_checkpoint: Path) -> None:
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForSequenceClassification.from_pretrained(tiny_checkpoint)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert palimpsest.reinitialize(model, layers=[3], heads=[(1, 2)]) is model
    palimpsest.permute_layers(model, [2, 1, 3])
    after = dict(model.named_parameters())
    assert torch.equal(
        after["bert.encoder.layer.0.output.dense.weight"], before["bert.encoder.layer.1.output.dense.weight"]
    )
    assert not torch.equal(
        after["bert.encoder.layer.2.output.dense.weight"], before["bert.encoder.layer.2.output.dense.weight"]
    )
    for name in ("classifier.weight", "bert.embeddings.word_embeddings.weight"):
        assert torch.equal(after[name], before[name])


def test_importing_the_package_costs_nothing() -> None:
    code = "import sys, palimpsest; assert not {'torch', 'pandas', 'transformers', 'pydantic'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert all(hasattr(palimpsest, name) for name in palimpsest.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = palimpsest.nonsense
