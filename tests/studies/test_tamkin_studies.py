"""The studies of Tamkin et al. 2020: which trials they name, which they share, and what can be set."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.errors import SpecError
from palimpsest.figures.registry import check
from palimpsest.specs.differences import DIFFERENCES
from palimpsest.specs.expansion import Cell, EncoderIdentity, TaskIdentity, expand, left_out
from palimpsest.specs.protocol import PROTOCOLS, resolve
from palimpsest.specs.settings import parse_settings
from palimpsest.specs.study import Study
from palimpsest.studies import load, names

ROWS = {"sst2": 67_349, "qnli": 104_743, "cola": 8_551}
BERT = EncoderIdentity("bert-base-uncased", None, 12, 12)
FIGURES = ("figure2", "figure3", "figure4", "figure6", "figure7", "figure8")


def study(name: str, *settings: str) -> Study:
    [found] = load(f"tamkin2020/{name}", parse_settings(list(settings)))
    return found


def cells(name: str, *settings: str, encoder: EncoderIdentity = BERT, rows: dict[str, int] = ROWS) -> list[Cell]:
    found = study(name, *settings)
    tasks = {task: TaskIdentity(task, None, rows.get(task, 100_000)) for task in found.task_names}
    return expand(found, encoder, tasks)


def ids(found: list[Cell], **at: Any) -> set[str]:
    return {c.trial.identity for c in found if all(c.at.get(key) == value for key, value in at.items())}


@pytest.mark.parametrize("name", [n for n in names() if n.startswith("tamkin2020/")])
def test_every_study_can_be_drawn_and_says_what_it_asks(name: str) -> None:
    [found] = load(name)
    check(found)
    assert found.title
    assert found.description
    assert found.figures or found.tables
    assert (found.encoder, found.protocol.canonical, found.task_names) == ("bert-base-uncased", {}, tuple(ROWS))


def test_the_intact_model_at_5k_is_run_once_for_all_figures() -> None:
    intact = {
        name: {c.trial.identity for c in cells(name) if not c.trial.interventions and c.at["size"] == "5k"}
        for name in FIGURES
    }
    assert len(intact["figure2"]) == 3 * 3  # tasks × trials
    assert all(found == intact["figure2"] for found in intact.values())


def test_figures_share_their_other_trials_too() -> None:
    figure2 = {c.trial.identity for c in cells("figure2")}
    assert {c.trial.identity for c in cells("figure5")} <= figure2
    assert ids(cells("figure7"), experiment="same learning rate") == ids(cells("figure2"), size="5k")
    assert ids(cells("figure8"), experiment="layer norm re-initialised") == ids(cells("figure2"), size="5k")
    assert {c.trial.identity for c in cells("table1")} == ids(cells("figure4"), kind="permutation")
    others = {c.trial.identity for name in ("figure2", "figure3", "figure4") for c in cells(name)}
    for name in ("figure1", "table2", "runtime"):
        assert {c.trial.identity for c in cells(name)} <= others


def test_the_whole_paper_is_its_folder_without_the_errata() -> None:
    whole = [s.name for s in load("tamkin2020")]
    assert "tamkin2020/errata" not in whole
    assert {"tamkin2020/figure2", "tamkin2020/appendix-e", "tamkin2020/table2"} <= set(whole)
    assert len(whole) == 12


def test_the_grids_are_the_papers() -> None:
    figure2 = cells("figure2")
    trials = {
        (task, size): len(ids(figure2, kind="incremental", task=task, size=size))
        for task in ROWS
        for size in ("500", "5k", "50k")
    }
    assert trials == {
        (task, size): 13 * {"500": 50, "5k": 3, "50k": 3}[size] * ((task, size) != ("cola", "50k"))
        for task in ROWS
        for size in ("500", "5k", "50k")
    }
    assert {(c.at["size"], c.trial.protocol.epochs) for c in figure2 if c.at["kind"] == "incremental"} == {
        ("500", 5), ("5k", 3), ("50k", 3),
    }  # fmt: skip
    probes = [c for c in figure2 if c.at["kind"] == "probing"]
    assert len(probes) == 3 * 13 * 8
    assert {(c.at["size"], c.trial.probe.epochs if c.trial.probe else 0) for c in probes} == {("all", 40)}
    assert len(ids(cells("figure3"), kind="localized")) == 3 * 10 * 2 * 10
    assert len(ids(cells("figure4"), kind="permutation")) == 3 * 10
    assert len(ids(cells("figure6"), kind="localized")) == 3 * 12 * 3
    assert {c.trial.protocol.epochs for c in cells("appendix-e")} == {10}
    assert {c.at["preserved"] for c in cells("appendix-e")} == {0, 6, 12}


def test_only_what_is_drawn_over_the_epochs_looks_at_every_one() -> None:
    whole = [s.name.removeprefix("tamkin2020/") for s in load("tamkin2020")]
    assert [n for n in whole if any(c.trial.protocol.evaluate == "epoch" for c in cells(n))] == ["appendix-e"]
    other = cells("appendix-e", "protocol=released-code")
    assert {(c.trial.protocol.evaluate, c.at["protocol"]) for c in other} == {("epoch", "released-code")}


def test_the_whole_paper_can_be_asked_to_look_at_every_epoch() -> None:
    usual, asked = cells("figure2"), cells("figure2", "protocol.evaluate=epoch")
    for cell, other in zip(usual, asked, strict=True):  # a probe stops early: it has seen every epoch anyway
        assert (cell.trial == other.trial) == (cell.at["kind"] == "probing")
        assert other.trial.probe or other.trial.protocol.evaluate == "epoch"
    for name in ("figure7", "appendix-e"):
        assert {c.trial.protocol.evaluate for c in cells(name, "protocol.evaluate=epoch")} == {"epoch"}
    assert len(load("tamkin2020", {"protocol.evaluate": "epoch"})) == len(load("tamkin2020"))
    assert cells("figure7", "protocol.evaluate=epoch", "epochs=1") == cells("figure7", "epochs=1")


def test_the_grids_follow_the_encoder() -> None:
    shallow = EncoderIdentity("shallow", None, 4, 2)
    assert {c.at["preserved"] for c in cells("figure2", encoder=shallow) if "preserved" in c.at} == set(range(5))
    assert {c.at["first"] for c in cells("figure3", encoder=shallow) if "first" in c.at} == {1, 2}
    assert {c.at["preserved"] for c in cells("appendix-e", encoder=shallow)} == {0, 2, 4}
    orders = {i.order for c in cells("figure4", encoder=shallow) for i in c.trial.interventions if i.kind == "permute"}
    assert {len(order) for order in orders} == {4}


def test_everything_can_be_set() -> None:
    found = cells("figure2", "sizes=500,5000", "trials=10")
    sizes = {(c.at["kind"], c.at["size"]) for c in found}
    assert sizes == {("incremental", "500"), ("incremental", "5k"), ("probing", "all")}  # probes keep all examples
    assert len(ids(found, task="sst2", size="500", preserved=3)) == 10
    assert {c.at["size"] for c in cells("figure2", "probing.sizes=200") if c.at["kind"] == "probing"} == {"200"}
    assert {c.at["first"] for c in cells("figure3", "block_size=4") if "first" in c.at} == set(range(1, 10))
    assert len(ids(cells("figure4", "permutations=25"), kind="permutation")) == 3 * 25
    assert {c.at["task"] for c in cells("figure3", "tasks=mini-sentiment,cola")} == {"mini-sentiment", "cola"}
    assert {c.trial.protocol.batch_size for c in cells("figure8", "protocol.batch_size=32")} == {32}


def test_settings_of_a_folder_reach_the_studies_that_they_mean_something_to() -> None:
    studies = {s.name.split("/")[1]: s for s in load("tamkin2020", {"block_size": 2, "permutations": 4})}
    blocks = {n: [getattr(e, "block_size", None) for e in s.experiments] for n, s in studies.items()}
    assert blocks["figure3"] == [2, None]
    assert blocks["figure6"] == [1, None]  # single layers are what this figure is about
    assert getattr(studies["figure4"].experiments[0], "permutations") == 4  # noqa: B009 (kinds differ in their fields)
    with pytest.raises(SpecError, match=r"setting 'block_size' is fixed.*localized\.block_size"):
        load("tamkin2020/figure6", {"block_size": 2})


def test_sizes_that_cannot_be_had_are_skipped_where_the_study_allows_it_and_named() -> None:
    small = {"sst2": 67_349, "qnli": 14_890, "cola": 8_551}
    tasks = {name: TaskIdentity(name, None, rows) for name, rows in small.items()}
    found = cells("figure2", rows=small)
    assert not ids(found, task="qnli", size="50k")
    assert ids(found, task="sst2", size="50k")
    assert left_out(study("figure2"), tasks) == [
        "cola at 50k: there are only 8,551 training examples",
        "qnli at 50k: there are only 14,890 training examples",
    ]
    with pytest.raises(SpecError, match="nothing is left"):
        cells("figure2", "sizes=90000", "tasks=sst2", "probing.sizes=90000", "unavailable=skip")


def test_a_protocol_is_set_for_all_of_a_study() -> None:
    arms = {c.at["experiment"]: c.trial.protocol for c in cells("figure7", "protocol=released-code", "preserved=0")}
    base, faster = arms.values()
    assert base.canonical == PROTOCOLS["released-code"].canonical
    assert faster.canonical == {**base.canonical, "reinitialized_rate": 5.0}
    assert faster.name == "released-code, reinitialized_rate 5"


def test_protocols_without_a_name_are_told_apart() -> None:
    assert resolve({"reinitialized_rate": 5}).name == "paper, reinitialized_rate 5"
    assert resolve({"initialiser": {"layer_norm": "keep"}}).name == "paper, layer_norm keep"
    assert resolve({"extends": "bert-original", "frozen_layers": [-1, 1]}).name == "bert-original, frozen_layers -1 1"
    assert resolve({"epochs": 3}).name == "paper"  # which it is
    assert resolve({"epochs": 4, "name": "longer"}).name == "longer"
    assert resolve({"evaluate": "epoch"}).name == "paper"  # what comes out is the same


def test_the_released_code_is_the_sum_of_its_differences() -> None:
    together: dict[str, Any] = {}
    law: dict[str, Any] = {}
    for difference in (d for d in DIFFERENCES if d.released):
        alone = PROTOCOLS[difference.name].canonical
        assert alone  # it does differ from the paper
        law |= alone.get("initialiser", {})
        together |= alone
    assert PROTOCOLS["released-code"].canonical == {**together, "initialiser": law}
    rate = PROTOCOLS["released-code-learning-rate"]
    assert (rate.learning_rate, rate.reinitialized_rate, rate.frozen_layers) == (5e-5, 2.0, (-1,))
    original = PROTOCOLS["bert-original"]
    assert (original.initialiser.biases, original.pooling, original.pooler) == ("zero", "pooler", "reset")


def test_the_errata_study_has_every_difference_and_shares_what_does_not_differ() -> None:
    found = cells("errata")
    labels = {(c.at["kind"], c.at["protocol"]) for c in found}
    for name in ("paper", "released-code", "bert-original", *(d.name for d in DIFFERENCES)):
        assert ("incremental", name) in labels
    assert {kind for kind, name in labels if name == "released-code"} == {
        "incremental", "probing", "localized", "permutation",
    }  # fmt: skip
    paper = ids(found, kind="probing", protocol="paper")
    assert ids(found, kind="probing", protocol="near-zero-init") == paper
    assert not ids(found, kind="probing", protocol="pretrained-pooler") & paper
    assert ids(found, protocol="biases-kept", preserved=12) == ids(found, protocol="paper", preserved=12)
    assert not ids(found, protocol="biases-kept", preserved=11) & ids(found, protocol="paper", preserved=11)
    assert ids(found, kind="incremental", protocol="paper", size="5k") <= ids(cells("figure2"), size="5k")
