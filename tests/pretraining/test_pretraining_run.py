"""A whole run on the CPU: losses fall, interruption does not matter, the checkpoint is an ordinary one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer, BertModel

from palimpsest.errors import DataError, EncoderError, SpecError, TrainingError
from palimpsest.pretraining import PretrainSettings, Progress, pretrain, write_card
from palimpsest.pretraining.objectives import hide


def log_of(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "training-log.jsonl").read_text().splitlines()]


def held_out_losses(directory: Path, name: str) -> list[Any]:
    return [line["held_out"][name] for line in log_of(directory) if "held_out" in line]


@pytest.fixture(scope="module")
def distilled(
    corpus: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory, settings: PretrainSettings
) -> Path:
    """A finished run with both objectives."""
    settings = settings.model_copy(
        update={"steps": 80, "mlm_weight": 0.5, "licence": "mit", "corpus_note": "Toy sentences"}
    )
    out = tmp_path_factory.mktemp("run") / "toy-bert"
    return pretrain(corpus, out, settings=settings, teacher=str(teacher), device="cpu")


def test_both_losses_fall_in_every_layer(distilled: Path) -> None:
    first, *_, last = held_out_losses(distilled, "per_layer")
    assert len(first) == 3
    assert all(after < 0.8 * before for before, after in zip(first, last, strict=True))
    mlm = held_out_losses(distilled, "mlm")
    assert mlm[0] == pytest.approx(math.log(180), rel=0.1)  # a fresh network guesses
    assert mlm[-1] < 0.9 * mlm[0]
    assert held_out_losses(distilled, "accuracy")[-1] > 9 / 180  # chance is 1 / 180


def test_the_checkpoint_loads_by_plain_transformers(distilled: Path) -> None:
    model, tokenizer = AutoModel.from_pretrained(distilled), AutoTokenizer.from_pretrained(distilled)
    assert isinstance(model, BertModel)
    assert model.config.num_hidden_layers == 2
    assert model.config.hidden_dropout_prob == 0.1
    assert next(model.parameters()).dtype == torch.float32
    stored = load_file(distilled / "model.safetensors")
    assert {v.dtype for v in stored.values()} == {torch.float16}
    assert not any(name.startswith(("projections", "head")) for name in stored)

    batch = tokenizer(["The Miller painted.", "twice"], ["No gardener!", "a CLOCK"], padding=True, return_tensors="pt")
    assert tokenizer.convert_ids_to_tokens(batch["input_ids"][0])[:3] == ["[CLS]", "the", "miller"]
    assert batch["token_type_ids"].max() == 1
    assert tokenizer.model_max_length == 32
    assert model.eval()(**batch).last_hidden_state.isfinite().all()
    types = model.embeddings.token_type_embeddings.weight
    assert torch.equal(types[0], types[1])


def test_the_card_has_the_facts(distilled: Path) -> None:
    facts = json.loads((distilled / "pretraining.json").read_text())
    card = (distilled / "README.md").read_text()
    for expected in (
        "license: mit",
        "# toy-bert",
        "Toy sentences",
        facts["corpus"]["sha256"],
        "(4 layers of 24)",
        "80 steps of 256",
        f"{facts['held_out']['distillation']:.3f} on average",
        f"cross-entropy {facts['held_out']['mlm']:.3f}",
        "weight 0.5",
        "more than 32 pieces",
        facts["hardware"],
    ):
        assert expected in card
    assert facts["tokens"] == 80 * 256
    assert "| **82 %** |" in write_card(distilled, results="| **82 %** |").read_text()


class InterruptionError(Exception):
    pass


@pytest.mark.parametrize("mlm_weight", [None, 0.5])
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(
    corpus: Path, teacher: Path, tmp_path: Path, settings: PretrainSettings, mlm_weight: float | None
) -> None:
    settings = settings.model_copy(update={"steps": 12, "mlm_weight": mlm_weight, "checkpoint_minutes": 1e-9})
    whole = pretrain(corpus, tmp_path / "whole", settings=settings, teacher=str(teacher), device="cpu")

    def stop(progress: Progress) -> None:
        if progress.step == 5:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        pretrain(corpus, tmp_path / "cut", settings=settings, teacher=str(teacher), device="cpu", progress=stop)
    steps: list[int] = []
    cut = pretrain(
        corpus,
        tmp_path / "cut",
        settings=settings,
        teacher=str(teacher),
        device="cpu",
        progress=lambda p: steps.append(p.step),
    )
    assert steps == list(range(6, 13))
    a, b = (load_file(d / "model.safetensors") for d in (whole, cut))
    for name in a:
        torch.testing.assert_close(a[name].float(), b[name].float(), rtol=2e-3, atol=2e-4)
    assert held_out_losses(whole, "total")[-1] == pytest.approx(held_out_losses(cut, "total")[-1], rel=1e-4)


def test_without_resume_a_run_starts_anew(corpus: Path, tmp_path: Path, settings: PretrainSettings) -> None:
    settings = settings.model_copy(update={"steps": 3, "checkpoint_minutes": 1e-9})
    for expected in ([1, 2, 3], [1, 2, 3]):
        steps: list[int] = []
        pretrain(
            corpus,
            tmp_path / "out",
            settings=settings,
            device="cpu",
            resume=False,
            progress=lambda p, steps=steps: steps.append(p.step),  # type: ignore[misc]
        )
        assert steps == expected


def test_what_needs_no_gpu_can_be_done_beforehand(
    corpus: Path, teacher: Path, tmp_path: Path, settings: PretrainSettings
) -> None:
    settings = settings.model_copy(update={"steps": 1})
    work = pretrain(corpus, tmp_path / "out", settings=settings, teacher=str(teacher), device="cpu", prepare_only=True)
    made = {p: p.stat().st_mtime_ns for p in work.rglob("*")}
    assert any(p.suffix == ".npy" for p in made)
    assert not (tmp_path / "out").exists()
    pretrain(corpus, tmp_path / "out", settings=settings, teacher=str(teacher), device="cpu")
    assert all(p.stat().st_mtime_ns == before for p, before in made.items() if p.is_file())


def test_masked_language_modelling_needs_no_teacher(corpus: Path, tmp_path: Path, settings: PretrainSettings) -> None:
    out = pretrain(corpus, tmp_path / "mlm", settings=settings, device="cpu")
    losses = held_out_losses(out, "mlm")
    assert losses[-1] < 0.9 * losses[0]
    assert "per_layer" not in log_of(out)[0]["held_out"]
    assert "| teacher | none |" in (out / "README.md").read_text()


def test_a_budget_in_minutes_is_kept_and_the_rate_decays_to_zero(
    corpus: Path, tmp_path: Path, settings: PretrainSettings
) -> None:
    settings = settings.model_copy(
        update={"steps": None, "minutes": 0.02, "checkpoint_minutes": 1e-9, "warmup_steps": 1}
    )
    seen: list[Progress] = []
    out = pretrain(corpus, tmp_path / "out", settings=settings, device="cpu", progress=seen.append)
    seconds = json.loads((out / "pretraining.json").read_text())["seconds"]
    assert 1.2 <= seconds < 2.5
    rates = [line["learning_rate"] for line in log_of(out) if "learning_rate" in line]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.25 * settings.learning_rate
    assert seen[-1].seconds_left < seen[0].seconds_left
    assert seen[-1].tokens == seen[-1].step * 256


def test_hidden_pieces_are_never_special_and_depend_on_the_key_alone(settings: PretrainSettings) -> None:
    ids = torch.randint(5, 120, (64, 32), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, 20], ids[:, 21:] = 2, 3, 0
    ids[0, 3:] = 0  # a row with fewer pieces than are to be hidden
    hidden, chosen, labels = hide(ids, (1, 2), settings)
    again = hide(ids, (1, 2), settings)
    assert torch.equal(hidden, again[0])
    assert not torch.equal(hidden, hide(ids, (1, 3), settings)[0])
    assert chosen.shape == (64, 5)
    changed = hidden != ids
    assert not changed[:, [0, *range(20, 32)]].any()
    assert (labels[0] != -100).sum() == 2
    real = labels != -100
    assert torch.equal(ids.gather(1, chosen)[real], labels[real])
    masked = (hidden.gather(1, chosen)[real] == 4).float().mean()
    assert 0.7 < masked < 0.9
    assert (hidden < 180).all()


def test_a_teacher_may_be_of_another_depth(
    corpus: Path, teacher: Path, tmp_path: Path, settings: PretrainSettings
) -> None:
    settings = settings.model_copy(update={"layers": 6, "steps": 1})
    out = pretrain(corpus, tmp_path / "deep", settings=settings, teacher=str(teacher), device="cpu")
    assert len(held_out_losses(out, "per_layer")[-1]) == 7


class TestErrors:
    def test_no_corpus(self, tmp_path: Path, settings: PretrainSettings) -> None:
        with pytest.raises(DataError, match=r"nowhere\.txt: no such corpus file"):
            pretrain(tmp_path / "nowhere.txt", tmp_path / "out", settings=settings, device="cpu")

    def test_empty_corpus(self, tmp_path: Path, settings: PretrainSettings) -> None:
        (tmp_path / "blank.txt").write_text("\n  \n")
        with pytest.raises(DataError, match=r"blank\.txt: the corpus is empty"):
            pretrain(tmp_path / "blank.txt", tmp_path / "out", settings=settings, device="cpu")

    def test_too_little_text_to_hold_any_out(self, tmp_path: Path, settings: PretrainSettings) -> None:
        (tmp_path / "one.txt").write_text("aa bb aa bb")
        with pytest.raises(DataError, match="the corpus is too small: of 1 paragraphs"):
            pretrain(
                tmp_path / "one.txt",
                tmp_path / "out",
                settings=settings.model_copy(update={"vocabulary": 11}),
                device="cpu",
            )

    def test_vocabulary_larger_than_the_corpus_yields(
        self, corpus: Path, tmp_path: Path, settings: PretrainSettings
    ) -> None:
        with pytest.raises(DataError, match="a larger corpus or a smaller vocabulary"):
            pretrain(corpus, tmp_path / "out", settings=settings.model_copy(update={"vocabulary": 5000}), device="cpu")

    def test_no_teacher_directory(self, corpus: Path, tmp_path: Path, settings: PretrainSettings) -> None:
        with pytest.raises(EncoderError, match="no such teacher directory"):
            pretrain(corpus, tmp_path / "out", settings=settings, teacher=str(tmp_path / "nobody"), device="cpu")

    def test_teacher_directory_without_a_checkpoint(
        self, corpus: Path, tmp_path: Path, settings: PretrainSettings
    ) -> None:
        with pytest.raises(EncoderError, match="cannot be loaded"):
            pretrain(corpus, tmp_path / "out", settings=settings, teacher=str(tmp_path), device="cpu")

    def test_rows_longer_than_the_teacher_reads(
        self, corpus: Path, teacher: Path, tmp_path: Path, settings: PretrainSettings
    ) -> None:
        settings = settings.model_copy(update={"max_length": 65})
        with pytest.raises(EncoderError, match="reads 64 pieces at most"):
            pretrain(corpus, tmp_path / "out", settings=settings, teacher=str(teacher), device="cpu")

    def test_nothing_to_learn_from(self, corpus: Path, tmp_path: Path, settings: PretrainSettings) -> None:
        with pytest.raises(TrainingError, match="give a teacher, or an mlm_weight"):
            pretrain(corpus, tmp_path / "out", settings=settings.model_copy(update={"mlm_weight": 0.0}), device="cpu")

    def test_a_loss_that_is_no_number(self, corpus: Path, tmp_path: Path, settings: PretrainSettings) -> None:
        settings = settings.model_copy(update={"learning_rate": 1e30, "checkpoint_minutes": 1e-9})
        with pytest.raises(TrainingError, match="Lower learning_rate = 1e\\+30"):
            pretrain(corpus, tmp_path / "out", settings=settings, device="cpu")

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({}, "either minutes or steps"),
            ({"minutes": 1, "steps": 1}, "either minutes or steps"),
            ({"steps": 1, "hidden": 30}, "not a multiple of heads"),
            ({"steps": 1, "batch_tokens": 64}, "less than one row"),
        ],
    )
    def test_settings_that_cannot_be(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(SpecError, match=message):
            PretrainSettings.parse(given, "settings")
