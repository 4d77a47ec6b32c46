"""The way of a study on the command line: plan, run, status, figures, tables, export."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from command_line import Command, records

from palimpsest.store import open_store
from palimpsest.store.running import write_note

HEAVY = ("torch", "transformers", "pandas", "matplotlib", "scipy", "sklearn", "seaborn")


@pytest.fixture
def finished(folder: Path, palimpsest: Command) -> Path:
    """A store in which the study's four trials are finished."""
    answer = palimpsest("run", "study.yaml", "--store", "results", "--processes", 1)
    assert answer.code == 0, answer.err
    return folder / "results"


def test_from_a_study_to_a_figure(folder: Path, palimpsest: Command) -> None:
    plan = palimpsest("plan", "study.yaml", "--store", "results")
    assert plan.code == 0
    assert re.search(r"trials named +4\n", plan.out)
    assert re.search(r"to run +4\n", plan.out)
    assert re.search(r"optimiser steps +12\n", plan.out)  # 24 examples in batches of 8, four times
    assert not (folder / "results").exists()

    run = palimpsest("run", "study.yaml", "--store", "results", "--processes", 1)
    assert (run.code, run.err) == (0, "")
    assert re.findall(r"^(\d/4) reviews accuracy 0\.\d{3}$", run.out, re.M) == ["1/4", "2/4", "3/4", "4/4"]
    assert "palimpsest figures study.yaml --store results" in run.out
    before = records(folder / "results")
    assert len(before) == 4

    again = palimpsest("run", "study.yaml", "--store", "results")
    assert again.code == 0
    assert "Nothing to run: all 4 trials are in results." in again.out
    assert records(folder / "results") == before
    assert re.search(r"already finished +4 ", palimpsest("plan", "study.yaml", "--store", "results").out)
    first = palimpsest("plan", "study.yaml", "--store", "none", "--first", "1").out
    assert re.search(r"distinct +4\n", first)
    assert re.search(r"to run +2   of the first 1 of every point\n", first)

    status = palimpsest("status", "study.yaml", "--store", "results")
    assert re.search(r"incremental +reviews +24 +4 +0 +0 ", status.out)

    figures = palimpsest("figures", "study.yaml", "--store", "results", "--out", "drawn")
    assert figures.out.split() == ["drawn/incremental.png", "drawn/incremental.pdf"]
    assert (folder / "drawn/incremental.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "drawn/incremental.pdf").read_bytes().startswith(b"%PDF")

    tables = palimpsest("tables", "study.yaml", "--store", "results", "--out", "drawn")
    assert "k = 0" in tables.out
    assert "k = 3" in tables.out
    assert {p.suffix for p in (folder / "drawn").glob("summary.*")} == {".txt", ".md", ".csv", ".tex"}


def test_records_say_how_they_came_about(finished: Path) -> None:
    record = json.loads(next(iter(records(finished).values())))
    assert {"palimpsest", "versions", "device", "precision", "engine", "seconds"} <= set(record["provenance"])
    assert record["provenance"]["versions"].keys() >= {"torch", "transformers", "python"}


def test_export(folder: Path, finished: Path, palimpsest: Command) -> None:
    csv = palimpsest("export", "study.yaml", "--store", finished)
    parquet = palimpsest("export", "--store", finished, "--format", "parquet", "--out", "all.parquet")
    assert (csv.out, parquet.out) == ("palimpsest.csv\n", "all.parquet\n")
    a, b = pd.read_csv(folder / "palimpsest.csv"), pd.read_parquet(folder / "all.parquet")
    assert len(a) == len(b) == 4
    assert set(a["id"]) == set(b["id"]) == set(records(finished))
    assert sorted(a["score"]) == pytest.approx(sorted(b["score"]))


def test_one_table_that_cannot_be_made_does_not_hold_up_the_others(
    folder: Path, finished: Path, palimpsest: Command
) -> None:
    path = folder / "study.yaml"
    spans = "  - {kind: summary, options: {metric: best_f1}}\n"
    path.write_text(path.read_text().replace("tables:\n", f"tables:\n{spans}"))
    both = palimpsest("tables", "study.yaml", "--store", finished)
    assert both.code == 0
    assert "k = 0" in both.out
    assert "no finished trial has the metric best_f1" in both.err
    curves = palimpsest("tables", "study.yaml", "--store", finished, "--kind", "by-layer")
    assert (curves.code, curves.err) == (0, "")
    assert "Columns: layers preserved" in curves.out
    path.write_text(path.read_text().replace("  - kind: summary\n", ""))
    none = palimpsest("tables", "study.yaml", "--store", finished)
    assert (none.code, none.out) == (2, "")


def test_figures_of_one_kind_need_not_be_named(folder: Path, finished: Path, palimpsest: Command) -> None:
    drawn = palimpsest("figures", "study.yaml", "--store", finished, "--kind", "curves")
    assert sorted(Path(line).name for line in drawn.out.split()) == ["curves.pdf", "curves.png"]
    same = palimpsest("figures", "study.yaml", "--schematic", "--out", "a", "--store", "none")
    other = palimpsest("figures", "study.yaml", "--kind", "schematic", "--out", "b", "--store", "none")
    assert same.code == other.code == 0
    assert (folder / "a/schematic.png").read_bytes() == (folder / "b/schematic.png").read_bytes()


def test_status_keeps_scores_together_beside_long_names(folder: Path, finished: Path, palimpsest: Command) -> None:
    path = folder / "study.yaml"
    path.write_text(
        path.read_text().replace("kind: incremental\n", f"kind: incremental\n    label: {'long ' * 20}\n", 1)
    )
    shown = palimpsest("status", "study.yaml", "--store", finished).out
    assert re.search(r"\d\.\d{3} – \d\.\d{3}", shown)


def test_status_says_that_a_run_is_at_work(finished: Path, palimpsest: Command) -> None:
    note = {"finished": 3, "total": 9, "trials_per_minute": 2.5, "seconds_left": 23}
    write_note(open_store(finished), "running", "1-2", note)
    assert (
        "running: 3 of 9 trials, 2.5 per minute, about 23 s left"
        in palimpsest("status", "study.yaml", "--store", finished).out
    )


def test_two_studies_share_a_trial(folder: Path, finished: Path, palimpsest: Command) -> None:
    text = (folder / "study.yaml").read_text()
    (folder / "other.yaml").write_text(text.replace("My reviews", "Another").replace("[0, 3]", "[3, 2]"))
    plan = palimpsest("plan", "other.yaml", "--store", finished)
    assert re.search(r"already finished +2 ", plan.out)
    assert re.search(r"to run +2\n", plan.out)


def test_limit_runs_so_many(folder: Path, palimpsest: Command) -> None:
    for done in (1, 3, 4):
        limit = 1 if done == 1 else 2
        assert palimpsest("run", "study.yaml", "--store", "results", "--processes", 1, "--limit", limit).code == 0
        assert len(records(folder / "results")) == done


def test_a_time_limit_leaves_the_rest_for_later(palimpsest: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("palimpsest.execution.time_limit.TimeLimit.allows", lambda *_: False)
        run = palimpsest("run", "study.yaml", "--store", "results", "--processes", 1, "--time-limit", 5)
    assert run.code == 0
    assert "The time is up: 4 of 4 trials were not begun; the same command goes on from there." in run.out
    run = palimpsest("run", "study.yaml", "--store", "results", "--processes", 1, "--time-limit", 5)
    assert "4 trials finished" in run.out
    assert "time is up" not in run.out


def test_settings_change_the_study(palimpsest: Command) -> None:
    plan = palimpsest(
        "plan", "study.yaml", "--set", "sizes=8,50%", "--set", "trials=3", "--set", "protocol.epochs=2",
        "--set", "preserved=all",
    )  # fmt: skip
    assert re.search(r"trials named +24\n", plan.out)
    assert re.search(r"optimiser steps +96\n", plan.out)  # 12 trials of 1 × 2 steps and 12 of 3 × 2


def test_another_encoder(palimpsest: Command) -> None:
    plan = palimpsest("plan", "study.yaml", "--model", "pocket", "--set", "preserved=12")
    assert plan.out.startswith("study.yaml on pocket")
    assert re.search(r"trials named +2\n", plan.out)


def test_an_encoder_beside_the_study(folder: Path, tiny_checkpoint: Path, palimpsest: Command) -> None:
    (folder / "deep").mkdir()
    (folder / "deep/mine").symlink_to(tiny_checkpoint)
    text = (folder / "study.yaml").read_text().replace(str(tiny_checkpoint), "./mine")
    (folder / "deep/study.yaml").write_text(text.replace("train.csv", "../train.csv").replace("dev.csv", "../dev.csv"))
    answer = palimpsest("plan", "deep/study.yaml")
    assert (answer.code, answer.err) == (0, "")


def test_both_engines_agree(folder: Path, finished: Path, palimpsest: Command) -> None:
    answer = palimpsest("run", "study.yaml", "--store", "plain", "--processes", 1, "--engine", "reference")
    assert answer.code == 0, answer.err
    stacked, reference = records(finished), records(folder / "plain")
    assert stacked.keys() == reference.keys()
    for id in stacked:
        a, b = json.loads(stacked[id])["outcome"], json.loads(reference[id])["outcome"]
        assert a["epochs"][0]["train_loss"] == pytest.approx(b["epochs"][0]["train_loss"], rel=1e-4)
        assert a["epochs"][0]["validation_loss"] == pytest.approx(b["epochs"][0]["validation_loss"], rel=1e-4)


def test_a_failed_trial_is_told_and_run_again_when_asked(palimpsest: Command) -> None:
    hot = ("--store", "results", "--processes", 1, "--set", "protocol.learning_rate=1e30", "--set", "preserved=3")
    run = palimpsest("run", "study.yaml", *hot)
    assert run.code == 0
    assert "2 trials failed; `palimpsest status` says why." in run.out
    status = palimpsest("status", "study.yaml", "--store", "results", *hot[4:])
    assert len(re.findall(r"^failed [0-9a-f]{12} reviews: the training loss became", status.out, re.M)) == 2
    assert "Nothing to run" in palimpsest("run", "study.yaml", *hot).out
    assert re.search(r"failed +2 ", palimpsest("plan", "study.yaml", "--store", "results", *hot[4:]).out)
    assert "2 trials failed" in palimpsest("run", "study.yaml", *hot, "--retry-failed").out


def test_damaged_records_are_named_kept_and_run_again(finished: Path, palimpsest: Command) -> None:
    first, second = sorted(finished.glob("trials/*/*.json"))[:2]
    first.write_bytes(first.read_bytes()[:200])
    newer = json.loads(second.read_text())
    newer["format"] = 99
    second.write_text(json.dumps(newer))
    status = palimpsest("status", "study.yaml", "--store", finished)
    told = status.out.replace("\n", "")
    assert status.code == 0
    assert first.name in told
    assert second.name in told
    assert "newer" in told
    figures = palimpsest("figures", "study.yaml", "--store", finished)
    assert figures.code == 0
    assert first.name in figures.err.replace("\n", "")
    damaged = {first.read_bytes(), second.read_bytes()}
    run = palimpsest("run", "study.yaml", "--store", finished, "--processes", 1)
    assert "2 trials finished" in run.out
    assert {path.read_bytes() for path in (finished / "damaged").iterdir()} == damaged
    assert "Nothing to run" in palimpsest("run", "study.yaml", "--store", finished).out


@pytest.mark.parametrize("command", ["tasks", "models", "studies"])
def test_listings_fit_into_80_columns(palimpsest: Command, command: str) -> None:
    answer = palimpsest(command)
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 85
    words = re.findall(r"\w+", answer.out)
    assert {"tasks": "stsb", "models": "pocket", "studies": "demo"}[command] in words
    assert (
        sum(len(line.split()) == 1 for line in answer.out.splitlines()) < 8
    )  # nothing is squeezed into a narrow column


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, palimpsest.cli as cli\n"
        "sys.argv = ['palimpsest', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit as stop: assert stop.code in (0, None)\n"
        f"assert not [m for m in {HEAVY!r} if m in sys.modules], sorted(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "which pretrained layers matter" in done.stdout


@pytest.mark.usefixtures("folder")
def test_planning_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, palimpsest.cli as cli\n"
        "sys.argv = ['palimpsest', 'plan', 'study.yaml']\n"
        "try: cli.main()\n"
        "except SystemExit as stop: assert stop.code in (0, None)\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_may_be_cut_off(process: Callable[..., subprocess.Popen[str]]) -> None:
    listing = process("tasks")
    assert listing.stdout is not None
    listing.stdout.close()  # what `| head -0` does
    assert listing.stderr is not None
    assert listing.stderr.read() == ""
    listing.stderr.close()
    listing.wait(60)
