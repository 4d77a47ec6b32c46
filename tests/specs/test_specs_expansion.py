"""From a study to its trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from palimpsest.errors import DataError, PalimpsestError, SpecError
from palimpsest.specs.expansion import Cell, EncoderIdentity, TaskIdentity, expand
from palimpsest.specs.intervention import PermuteLayers, Reinitialize, ReinitializeHeads
from palimpsest.specs.study import Study

TASKS = ("sst2", "qnli", "cola")
ROWS = {"sst2": 67349, "qnli": 104743, "cola": 8551}


def walk(*experiments: Mapping[str, Any], depth: int = 12, heads: int = 12, **study: Any) -> list[Cell]:
    fields = {"name": "test", "tasks": TASKS, "experiments": experiments} | study
    tasks = {name: TaskIdentity(name, None, ROWS[name]) for name in TASKS}
    return expand(Study.parse(fields, "test"), EncoderIdentity("bert", None, depth, heads), tasks)


@pytest.mark.parametrize(
    ("experiment", "at_12", "at_4"),
    [
        ({"kind": "incremental", "trials": 2, "sizes": [500, 5000]}, 13 * 4, 5 * 4),
        ({"kind": "incremental", "preserved": [0, "L/2", "L"], "trials": 2}, 3 * 2, 3 * 2),
        ({"kind": "localized", "trials": 1}, 20, 4),
        ({"kind": "localized", "trials": 1, "block_size": 1, "mode": "reinitialized"}, 12, 4),
        ({"kind": "permutation"}, 10, 10),
        ({"kind": "probing"}, 13 * 8, 5 * 8),
        ({"kind": "heads", "layers": [1, 2], "trials": 1}, 24, 24),
        ({"kind": "heads", "layers": "all", "heads": [1, 3], "trials": 1}, 24, 8),
        ({"kind": "custom", "trials": 2, "variants": {"a": [], "b": [{"kind": "reinitialize", "layers": [1]}]}}, 4, 4),
    ],
)  # fmt: skip
def test_how_many_trials(experiment: dict[str, Any], at_12: int, at_4: int) -> None:
    for depth, expected in ((12, at_12), (4, at_4)):
        cells = walk(experiment, depth=depth)
        assert len(cells) == 3 * expected
        assert len({str(sorted(c.at.items())) for c in cells}) == len(cells)


def test_the_main_figure_of_the_paper() -> None:
    both: dict[str, Any] = {"kind": "incremental", "trials": {500: 50, "default": 3}, "epochs": {500: 5, "default": 3}}
    cells = walk(
        both | {"tasks": ["sst2", "qnli"], "sizes": ["500", "5k", "50k"]},
        both | {"tasks": "cola", "sizes": ["500", "5k"]},
    )
    assert len(cells) == 13 * (2 * (50 + 3 + 3) + 50 + 3)
    assert {(c.at["size"], c.trial.protocol.epochs) for c in cells} == {("500", 5), ("5k", 3), ("50k", 3)}
    assert {c.trial.seeds.order for c in cells if c.at["size"] == "500"} == set(range(50))


def test_incremental_reinitialises_what_comes_after_the_kth_layer() -> None:
    cells = walk({"kind": "incremental", "tasks": "cola", "trials": 1}, depth=3)
    layers = {
        c.at["preserved"]: [i.layers for i in c.trial.interventions if isinstance(i, Reinitialize)] for c in cells
    }
    assert layers == {0: [(1, 2, 3)], 1: [(2, 3)], 2: [(3,)], 3: []}


def test_localized_blocks() -> None:
    cells = walk({"kind": "localized", "tasks": "cola", "trials": 1, "block_size": 2}, depth=3)
    layers = {(c.at["mode"], c.at["first"]): c.trial.interventions[0].layers for c in cells}  # type: ignore[union-attr]
    assert layers == {
        ("reinitialized", 1): (1, 2),
        ("reinitialized", 2): (2, 3),
        ("preserved", 1): (3,),
        ("preserved", 2): (1,),
    }


def test_experiments_share_the_trials_that_they_have_in_common() -> None:
    cells = walk(
        {"kind": "incremental", "trials": 1, "tasks": "cola"},
        {"kind": "localized", "block_size": 12, "trials": 1, "tasks": "cola"},
        {"kind": "custom", "trials": 1, "tasks": "cola", "variants": {"intact": []}},
    )
    where = {
        (c.at["part"], c.at.get("preserved", c.at.get("mode", c.at.get("variant")))): c.trial.identity for c in cells
    }
    assert where[0, 12] == where[1, "preserved"] == where[2, "intact"]
    assert where[0, 0] == where[1, "reinitialized"]
    assert len(set(where.values())) == 13


def test_the_nth_permutation_is_the_same_for_all_tasks() -> None:
    cells = walk({"kind": "permutation", "permutations": 5})
    orders: dict[int, set[tuple[int, ...]]] = {}
    for c in cells:
        [permute] = c.trial.interventions
        assert isinstance(permute, PermuteLayers)
        orders.setdefault(c.at["permutation"], set()).add(permute.order)
        assert c.trial.seeds.order == c.at["permutation"]
    assert all(len(o) == 1 for o in orders.values())
    assert len(set.union(*orders.values())) == 5
    assert orders[1] == {(3, 4, 5, 11, 2, 7, 1, 8, 12, 10, 9, 6)}


def test_one_head_at_a_time() -> None:
    cells = walk({"kind": "heads", "layers": ["L"], "heads": 2, "tasks": "cola", "trials": 1}, depth=4, heads=4)
    assert [c.trial.interventions for c in cells] == [(ReinitializeHeads(heads=((4, 2),)),)]


def test_probing_keeps_its_epochs_to_itself() -> None:
    cells = walk({"kind": "probing", "tasks": "cola", "trials": 1, "epochs": 7, "patience": 2}, depth=2)
    assert [(c.trial.probe.layer, c.trial.probe.epochs, c.trial.probe.patience) for c in cells if c.trial.probe] == [
        (0, 7, 2),
        (1, 7, 2),
        (2, 7, 2),
    ]
    assert {c.trial.protocol.epochs for c in cells} == {3}
    assert {c.trial.method for c in cells} == {"probing"}


def test_seeds_can_be_held() -> None:
    cells = walk({"kind": "incremental", "tasks": "cola", "preserved": 0, "hold": ["subsample", "order"]})
    assert [(c.trial.seeds.subsample, c.trial.seeds.order, c.trial.seeds.dropout) for c in cells] == [
        (0, 0, 0), (0, 0, 1), (0, 0, 2),
    ]  # fmt: skip


def test_an_experiment_may_have_a_protocol_of_its_own() -> None:
    cells = walk(
        {"kind": "incremental", "tasks": "cola", "preserved": 0, "trials": 1},
        {"kind": "incremental", "tasks": "cola", "preserved": 0, "trials": 1, "protocol": {"reinitialized_rate": 5}},
        protocol={"learning_rate": 1e-4},
    )
    assert [(c.trial.protocol.learning_rate, c.trial.protocol.reinitialized_rate) for c in cells] == [
        (1e-4, 1),
        (1e-4, 5),
    ]


def test_own_data_and_weights_are_part_of_a_trial() -> None:
    study = Study.parse({"name": "s", "tasks": "cola", "experiments": [{"kind": "incremental"}]}, "s")
    [a, b] = (
        expand(study, EncoderIdentity("e", weights, 2, 2), {"cola": TaskIdentity("cola", data, 9)})
        for weights, data in ((None, None), ("w", "d"))
    )
    assert not {c.trial.identity for c in a} & {c.trial.identity for c in b}
    assert (b[0].trial.weights, b[0].trial.data) == ("w", "d")


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        ({"kind": "incremental", "preserved": [13]}, "layer 13 is out of range.*12 layers"),
        ({"kind": "probing", "layers": [13]}, "layer 13 is out of range"),
        ({"kind": "heads", "layers": [0]}, "layer 0 is out of range"),
        ({"kind": "heads", "layers": [1], "heads": [13]}, "head 13 is out of range: bert has 12 heads"),
        ({"kind": "localized", "block_size": 13}, "a block of 13 layers does not fit"),
        ({"kind": "custom", "variants": {"x": [{"kind": "reinitialize", "layers": [13]}]}}, "variant 'x': layer 13"),
        (
            {"kind": "custom", "variants": {"x": [{"kind": "reinitialize-heads", "heads": [[1, 13]]}]}},
            "head 13 of layer 1",
        ),
        ({"kind": "custom", "variants": {"x": [{"kind": "permute", "order": [2, 1]}]}}, "permutation of 2 layers"),
        ({"kind": "incremental", "protocol": {"frozen_layers": [-13]}}, "frozen layer -13 is out of range"),
        ({"kind": "incremental", "protocol": {"frozen_layers": [0]}}, "frozen layer 0 is out of range"),
        ({"kind": "incremental", "trials": {"5k": 3}, "sizes": [500]}, "nothing is said for size 500"),
        ({"kind": "incremental", "trials": 10**12}, "taken for a slip"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(experiment: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        walk(experiment)


def test_more_examples_than_there_are() -> None:
    with pytest.raises(DataError, match="cola: 50000 training examples are asked for, but there are only 8551"):
        walk({"kind": "incremental", "sizes": "50k"})


def test_half_of_an_odd_depth_is_rounded_down() -> None:
    assert {c.at["preserved"] for c in walk({"kind": "incremental", "preserved": ["L/2", "L"]}, depth=5)} == {2, 5}
    assert len(walk({"kind": "incremental", "preserved": ["L/2", "L", 2, 5], "trials": 1}, depth=5)) == 3 * 2


def test_nothing_but_readable_errors() -> None:
    for depth in (1, 2):
        for kind in ("incremental", "localized", "permutation", "probing", "heads"):
            try:
                cells = walk({"kind": kind}, depth=depth, heads=1)
            except PalimpsestError:
                continue
            assert cells
