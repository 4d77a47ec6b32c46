"""The studies of the two CS224N reports: their grids, their protocol, and SQuAD 2.0 from its files to a record."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from families import encoder_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from palimpsest.analysis.table import table
from palimpsest.encoders.loading import load as load_encoder
from palimpsest.errors import SpecError, SurgeryError
from palimpsest.execution.plan import make_plan
from palimpsest.execution.run import run_plan
from palimpsest.figures.registry import check
from palimpsest.specs.expansion import Cell, EncoderIdentity, TaskIdentity, expand
from palimpsest.specs.intervention import DeleteLayers, deleted
from palimpsest.specs.protocol import PROTOCOLS, Convergence
from palimpsest.specs.study import Study
from palimpsest.store import open_store
from palimpsest.studies import load, names
from palimpsest.surgery.checkpoint import operate_on_checkpoint
from palimpsest.surgery.initialisers import draw
from palimpsest.surgery.operations import delete
from palimpsest.training.predictions import unpack

BERT = EncoderIdentity("bert-base-cased", None, 12, 12)


def cells_of(study: Study) -> list[Cell]:
    return expand(study, BERT, {name: TaskIdentity(name, None, 60_000) for name in study.task_names})


@pytest.mark.parametrize("name", [n for n in names() if n.startswith(("singh2020/", "cs224n/"))])
def test_every_study_can_be_planned_and_drawn(name: str) -> None:
    [study] = load(name)
    check(study)
    assert study.title
    assert study.description
    assert cells_of(study)


def test_the_grids_are_those_of_the_reports() -> None:
    studies = {s.name: cells_of(s) for folder in ("singh2020", "cs224n") for s in load(folder)}
    sizes = {(c.at["task"], c.at["size"]) for c in studies["singh2020/figure1"]}
    three = {(task, size) for task in ("sst2", "qnli") for size in ("all", "10%", "1%")}
    assert sizes == three | {("qnli", "0.6%"), ("cola", "all")}
    assert all(c.trial.measure == ("cka", "drift") for c in studies["singh2020/figure3"])
    matrix = {(c.at["task"], c.at["chain"]) for c in studies["cs224n/sequential"]}
    four = ("cola", "mrpc", "rte", "wnli")
    assert {(a, b) for a in four for b in four if a != b} | {(a, "direct") for a in four} <= matrix
    assert ("cola", "wnli, mrpc, rte") in matrix
    assert ("rte", "with cola, mrpc, rte, wnli") in matrix
    heads = {(c.at["layer"], c.at["head"]) for c in studies["cs224n/heads"] if c.at["kind"] == "heads"}
    assert heads == {(layer, head) for layer in (1, 2, 11, 12) for head in range(1, 13)}
    squad = [c.trial for c in studies["cs224n/layers"] if c.at["task"] == "squad2"]
    assert {(t.protocol.batch_size, t.protocol.max_length, t.size) for t in squad} == {(1, 384, 0.1)}
    assert {c.at["preserved"] for c in studies["cs224n/layers"]} == set(range(13))
    assert {c.trial.protocol.converge for c in studies["cs224n/converged"]} == {Convergence()}


def test_drawings_follow_the_tasks_that_are_chosen() -> None:
    [heads] = load("cs224n/heads", {"tasks": "CoLA"})
    assert {tuple(d.options.get("tasks", ())) for d in heads.tables} == {("cola",), ()}
    assert len(heads.tables) == 4
    [layers] = load("cs224n/layers", {"tasks": ["rte", "mrpc"]})
    assert [d.options.get("tasks") for d in layers.figures] == [None, ["rte", "mrpc"]]
    mine = {"name": "mine", "train": "t.csv", "validation": "d.csv", "text": "sentence", "label": "verdict"}
    [others] = load("cs224n/heads", {"tasks": ["mini-sentiment", mine]})
    assert [d.kind for d in others.tables] == ["heads-tests"]


def test_the_parent_of_a_sequence_is_the_baseline_of_its_task() -> None:
    [study] = load("cs224n/sequential")
    cells = cells_of(study)
    direct = {(c.at["task"], c.at["trial"]): c.trial.identity for c in cells if c.at["chain"] == "direct"}
    for cell in cells:
        if cell.trial.after is not None and cell.trial.after.after is None:
            assert cell.trial.after.identity == direct[cell.trial.after.task, cell.at["trial"]]


def test_the_law_of_the_cased_protocol_is_scipys_with_scale_one() -> None:
    protocol = PROTOCOLS["cs224n-cased"]
    assert (protocol.batch_size, protocol.learning_rate, protocol.epochs) == (32, 2e-5, 3)
    drawn = draw((200, 100), protocol.initialiser, "reinit", 0, "weight").double().numpy().ravel()
    law = stats.truncnorm(-0.02, 0.02)
    assert drawn.std() == pytest.approx(0.0115, rel=0.02)
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-3


def planned(**experiment: Any) -> list[Cell]:
    names = experiment.pop("names", ["a", "b", "c"])
    protocol = experiment.pop("protocol", "paper")
    study = {"name": "s", "tasks": names, "protocol": protocol, "experiments": [experiment]}
    known = {name: TaskIdentity(name, None, 100) for name in names}
    return expand(Study.parse(study, "test"), EncoderIdentity("tiny", None, 3, 2), known)


def test_a_chain_of_three_has_three_ancestors() -> None:
    cells = planned(kind="sequential", chains=[["a", "b", "c"]], intermediate=[], trials=1, direct=False)
    assert [(c.at["task"], c.at["chain"]) for c in cells] == [("a", "a, b, c"), ("b", "a, b, c")]
    for cell in cells:
        assert [t.task for t in cell.trial.ancestors] == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["direct", "with b", "a, b"])
def test_names_that_chains_could_not_be_told_apart_by(name: str) -> None:
    for kind in ("sequential", "interleaved"):
        with pytest.raises(SpecError, match=f"the task {name!r} must have another name"):
            planned(kind=kind, names=[name, "b"])
    assert planned(kind="incremental", names=[name], trials=1)


def test_what_can_be_learnt_together() -> None:
    with pytest.raises(SpecError, match="there is only a; name two or more"):
        planned(kind="interleaved", names=["a"])
    with pytest.raises(SpecError, match="named twice among those learnt together: a, a"):
        planned(kind="interleaved", together=[["a", "a"]])


def test_frozen_layers_are_counted_among_those_that_are_left() -> None:
    short = {"kind": "custom", "variants": {"intact": [], "short": [{"kind": "delete", "layers": [1]}]}, "trials": 1}
    with pytest.raises(SpecError, match="frozen layer 3 is out of range: the variant 'short' has 2 layers"):
        planned(**short, protocol={"frozen_layers": [3]})
    with pytest.raises(SpecError, match="frozen layer 4 is out of range: tiny has 3 layers"):
        planned(**short, protocol={"frozen_layers": [4]})
    assert len(planned(**short, protocol={"frozen_layers": [-1, 2]})) == 6


# Deleting layers


@settings(deadline=None)  # the first example builds the encoder
@given(st.sets(st.integers(1, 3), min_size=1, max_size=2))
def test_deleting_renames_what_is_left(layers: set[int]) -> None:
    encoder = encoder_of("bert")
    anatomy = encoder.anatomy
    found = delete(encoder.state, anatomy, layers)
    left = [layer for layer in (1, 2, 3) if layer not in layers]
    assert {anatomy.layer_of(n) for n in found} == {None, *range(1, len(left) + 1)}
    for position, layer in enumerate(left, 1):
        assert torch.equal(found[anatomy.weight(position, "key")], encoder.state[anatomy.weight(layer, "key")])


def test_something_must_be_left() -> None:
    encoder = encoder_of("bert")
    with pytest.raises(SurgeryError, match="nothing is left"):
        delete(encoder.state, encoder.anatomy, [1, 2, 3])
    with pytest.raises(SurgeryError, match="out of range"):
        delete(encoder.state, encoder.anatomy, [4])


def variant(*interventions: dict[str, object]) -> Study:
    data = {"name": "x", "tasks": ["rte"], "experiments": [{"kind": "custom", "variants": {"v": list(interventions)}}]}
    return Study.parse(data, "test")


def test_later_interventions_count_what_is_left() -> None:
    cells = cells_of(variant({"kind": "delete", "layers": [9, 10, 11]}, {"kind": "reinitialize", "layers": [9]}))
    assert deleted(cells[0].trial.interventions) == 3
    assert cells[0].trial.interventions[0] == DeleteLayers(layers=(9, 10, 11))
    with pytest.raises(SpecError, match="layer 10 does not fit"):
        cells_of(variant({"kind": "delete", "layers": [9, 10, 11]}, {"kind": "reinitialize", "layers": [10]}))
    with pytest.raises(SpecError, match="nothing is left"):
        cells_of(variant({"kind": "delete", "layers": list(range(1, 13))}))


def test_a_checkpoint_without_some_layers(tmp_path: Path, tiny_checkpoint: Path) -> None:
    said = operate_on_checkpoint(str(tiny_checkpoint), tmp_path / "short", [3], [], None, "paper", 0, gone=[1])
    assert said[:2] == ["layer 3 re-initialised", "layer 1 deleted"]
    whole, short = load_encoder(str(tiny_checkpoint)), load_encoder(str(tmp_path / "short"))
    assert short.anatomy.depth == whole.anatomy.depth - 1
    second = whole.state[whole.anatomy.weight(2, "value")]
    assert torch.equal(short.state[short.anatomy.weight(1, "value")], second)
    assert float(short.state[short.anatomy.weight(2, "value")].abs().max()) <= 0.04  # was layer 3
    with pytest.raises(SurgeryError, match="out of range"):
        operate_on_checkpoint(str(tiny_checkpoint), tmp_path / "x", [], [], None, "paper", 0, gone=[99])


# What a study file says


def experiment(**keys: object) -> Cell:
    data = {"name": "x", "tasks": ["rte", "mrpc"], "experiments": [{"trials": 1, **keys}]}
    return cells_of(Study.parse(data, "test"))[0]


def test_until_converged_in_a_study_file() -> None:
    trial = experiment(kind="incremental", epochs="converge").trial
    assert (trial.protocol.epochs, trial.protocol.converge) == (20, Convergence())
    trial = experiment(kind="incremental", epochs=7, converge={"patience": 1}).trial
    assert (trial.protocol.epochs, trial.protocol.converge) == (7, Convergence(patience=1))


def test_measures_make_another_trial_and_their_absence_the_old_one() -> None:
    plain, measured = experiment(kind="incremental"), experiment(kind="incremental", measure=["drift"])
    assert "measure" not in plain.trial.canonical
    assert "after" not in plain.trial.canonical
    assert plain.trial.identity != measured.trial.identity


def test_tasks_that_a_sequence_names_must_be_the_studys() -> None:
    for keys in ({"kind": "sequential", "chains": [["cola"]]}, {"kind": "interleaved", "together": [["rte", "sst2"]]}):
        with pytest.raises(SpecError, match="not among the study's"):
            experiment(**keys)
    with pytest.raises(SpecError, match="only rte"):
        experiment(kind="interleaved", together=[["rte"]])


# SQuAD 2.0, end to end


def _document(n: int, seed: int) -> str:
    """Paragraphs of several windows, each with a question that has an answer and one that has none."""
    rng = random.Random(seed)
    paragraphs = []
    for _ in range(n):
        words = rng.choices(["the", "king", "was", "born", "in", "a", "city", "of", "river"], k=30)
        words[rng.randrange(5, 25)] = "queen"
        context = " ".join(words)
        answer = {"text": "queen", "answer_start": context.index("queen")}
        questions = [
            {"id": str(rng.random()), "question": "who was in the city", "is_impossible": False, "answers": [answer]},
            {"id": str(rng.random()), "question": "what year", "is_impossible": True, "answers": []},
        ]
        paragraphs.append({"context": context, "qas": questions})
    return json.dumps({"version": "v2.0", "data": [{"title": "", "paragraphs": paragraphs}]})


STUDY = """\
encoder: {encoder}
protocol: {{extends: cs224n-cased, batch_size: 4, max_length: 24, doc_stride: 8, epochs: 1, learning_rate: 0.001}}
tasks: [squad2]
experiments:
  - {{kind: incremental, preserved: [0, L], sizes: [50%], trials: 1, measure: [drift, cka]}}
  - {{kind: incremental, label: eager, preserved: [L], sizes: [50%], trials: 1, protocol: {{no_answer_threshold: 99}}}}
  - {{kind: incremental, label: shy, preserved: [L], sizes: [50%], trials: 1, protocol: {{no_answer_threshold: -99}}}}
"""


@pytest.mark.parametrize("engine", ["stacked", "reference"])
def test_squad_from_its_files_to_a_record(engine: str, tmp_path: Path, tiny_checkpoint: Path) -> None:
    (tmp_path / "squad2").mkdir()
    (tmp_path / "squad2" / "train-v2.0.json").write_text(_document(8, 0))
    (tmp_path / "squad2" / "dev-v2.0.json").write_text(_document(3, 1))
    (tmp_path / "study.yaml").write_text(STUDY.format(encoder=tiny_checkpoint))
    store = open_store(tmp_path / "store", create=True)
    plan = make_plan(load(str(tmp_path / "study.yaml")), store, tmp_path)
    run_plan(plan, store, str(store), lambda _: None, "cpu", processes=1, engine=engine)  # type: ignore[arg-type]
    rows = table(plan.cells, store)
    assert set(rows["status"]) == {"finished"}
    assert {"em", "f1"} <= set(rows.columns)
    assert rows["train_examples"].tolist() == [8] * 4
    for record in store.records():
        assert record.outcome.steps > 2  # windows, not questions, are what an epoch consists of
        assert len(unpack(record.outcome.predictions)) == 6
        asked = record.trial.protocol.no_answer_threshold == 0
        assert set(record.outcome.measures) == ({"cka", "drift"} if asked else set())
    # The threshold decides what is answered, whatever a trial is packed with, and not what could be reached.
    last = rows[rows["preserved"] == 3].set_index("experiment")
    for label, answered in (("eager", 6), ("shy", 0)):
        predictions = unpack(store.get(last.loc[label, "id"]).outcome.predictions)
        assert sum(map(bool, predictions)) == answered
    assert last.loc["shy", "em"] == last.loc["shy", "f1"] == 0.5  # every second question has no answer
    assert (last.loc["shy", "has_answer_f1"], last.loc["shy", "no_answer_f1"]) == (0.0, 1.0)
    assert last["f1"].to_list() == pytest.approx((last["has_answer_f1"] / 2 + last["no_answer_f1"] / 2).to_list())
    assert last["best_f1"].nunique() == last["best_f1_threshold"].round(3).nunique() == 1
    assert (last["best_f1"] >= last["f1"]).all()
