"""`palimpsest surgery`: a checkpoint that plain transformers loads, and that differs exactly where it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from command_line import Command
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

Weights = dict[str, torch.Tensor]


def weights(folder: Path) -> Weights:
    logging.disable_progress_bar()
    model = AutoModel.from_pretrained(folder)
    return {name: p.detach() for name, p in model.named_parameters()}


def changed(before: Weights, after: Weights) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if not torch.equal(before[name], after[name])}


def layer(number: int, names: Weights) -> set[str]:
    return {name for name in names if name.startswith(f"encoder.layer.{number - 1}.")}


def test_a_pooler_that_is_not_there_is_not_made_up(folder: Path, palimpsest: Command, tiny_checkpoint: Path) -> None:
    bare = AutoModel.from_pretrained(tiny_checkpoint, add_pooling_layer=False)
    bare.save_pretrained(folder / "bare")
    AutoTokenizer.from_pretrained(tiny_checkpoint).save_pretrained(folder / "bare")
    for name in ("one", "two"):
        answer = palimpsest("surgery", "bare", "--reinit", "2", "--out", name)
        assert (answer.code, answer.out.splitlines()[0]) == (0, "layer 2 re-initialised")
    one, two = ((folder / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    assert b"pooler" not in one


def test_layers_are_reinitialised(folder: Path, palimpsest: Command, tiny_checkpoint: Path) -> None:
    answer = palimpsest("surgery", tiny_checkpoint, "--reinit", "2-3", "--out", "new")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == ["layers 2, 3 re-initialised", "written to new"]
    before, after = weights(tiny_checkpoint), weights(folder / "new")
    assert changed(before, after) == layer(2, before) | layer(3, before)
    drawn = after["encoder.layer.2.output.dense.weight"]
    assert drawn.abs().max() <= 0.04
    assert torch.equal(after["encoder.layer.1.output.LayerNorm.weight"], torch.ones(16))
    assert AutoTokenizer.from_pretrained(folder / "new")("the king")["input_ids"]
    note = json.loads((folder / "new/palimpsest.json").read_text())
    assert note["interventions"] == [{"kind": "reinitialize", "layers": [2, 3]}]


def test_another_seed_draws_other_values(folder: Path, palimpsest: Command, tiny_checkpoint: Path) -> None:
    for seed, out in ((0, "a"), (0, "b"), (1, "c")):
        assert palimpsest("surgery", tiny_checkpoint, "--reinit", 1, "--seed", seed, "--out", out).code == 0
    a, b, c = (weights(folder / out) for out in "abc")
    assert changed(a, b) == set()
    assert {name for name in changed(a, c) if "LayerNorm" not in name} == changed(a, c) <= layer(1, a)


def test_layers_are_permuted(folder: Path, palimpsest: Command, tiny_checkpoint: Path) -> None:
    assert palimpsest("surgery", tiny_checkpoint, "--permute", "3,1,2", "--out", "new").code == 0
    before, after = weights(tiny_checkpoint), weights(folder / "new")
    assert changed(before, after) <= {name for name in before if name.startswith("encoder.layer.")}
    for position, source in ((1, 3), (2, 1), (3, 2)):
        for name in layer(position, after):
            origin = name.replace(f"layer.{position - 1}.", f"layer.{source - 1}.")
            assert torch.equal(after[name], before[origin])


def test_heads_are_reinitialised(folder: Path, palimpsest: Command, tiny_checkpoint: Path) -> None:
    answer = palimpsest("surgery", tiny_checkpoint, "--reinit-heads", "1:2", "--reinit-heads", "3:1", "--out", "new")
    assert answer.code == 0
    before, after = weights(tiny_checkpoint), weights(folder / "new")
    for number, rows, others in ((0, slice(8, 16), slice(0, 8)), (2, slice(0, 8), slice(8, 16))):
        prefix = f"encoder.layer.{number}.attention."
        for part in ("query", "key", "value"):
            name = f"{prefix}self.{part}.weight"
            assert torch.equal(before[name][others], after[name][others])
            assert not torch.isclose(before[name][rows], after[name][rows]).all(1).any()
        name = f"{prefix}output.dense.weight"
        assert torch.equal(before[name][:, others], after[name][:, others])
        assert not torch.isclose(before[name][:, rows], after[name][:, rows]).all(0).any()
    touched = {name.split(".attention.")[0] for name in changed(before, after)}
    assert touched == {"encoder.layer.0", "encoder.layer.2"}


@pytest.mark.parametrize(
    "options", [("--permute", "2,1,3", "--reinit", "3"), ("--reinit", "1", "--reinit-heads", "2:1")]
)
def test_operations_combine(folder: Path, palimpsest: Command, tiny_checkpoint: Path, options: tuple[str, ...]) -> None:
    assert palimpsest("surgery", tiny_checkpoint, *options, "--out", "new").code == 0
    assert len(json.loads((folder / "new/palimpsest.json").read_text())["interventions"]) == 2
    assert AutoModel.from_pretrained(folder / "new").config.num_hidden_layers == 3
