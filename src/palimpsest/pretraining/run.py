"""``pretrain``: a corpus file in, a Hugging Face checkpoint directory out."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer

from palimpsest.errors import DataError, TrainingError
from palimpsest.pretraining.card import write_card
from palimpsest.pretraining.corpus import Corpus
from palimpsest.pretraining.loop import Progress, Trainer
from palimpsest.pretraining.networks import Teacher, load_teacher, own_vocabulary, student_config
from palimpsest.pretraining.objectives import Objective
from palimpsest.pretraining.packing import Rows, prepare
from palimpsest.pretraining.settings import PretrainSettings
from palimpsest.pretraining.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer

FACTS = "pretraining.json"
LOG = "training-log.jsonl"

# What may change when a run is resumed: its budget, how it is watched, and what its card says.
_NOT_STATE = {"minutes", "steps", "evaluate_minutes", "checkpoint_minutes", "compile", "name", "corpus_note", "licence"}


def pretrain(
    corpus: Path,
    out: Path,
    *,
    settings: PretrainSettings,
    teacher: str | None = None,
    tokenizer: Path | None = None,
    device: str | None = None,
    resume: bool = True,
    prepare_only: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Pretrain a BERT on a corpus, by masked language modelling, by imitating a teacher, or both; returns `out`.

    The tokeniser is trained on the corpus unless `tokenizer` names one (a ``tokenizer.json`` or a directory with it).
    Rows and the state of the run are kept beside the output, in ``<out>.work``, which may be deleted afterwards; with
    `resume`, a run that was interrupted goes on from there. `out` gets the checkpoint, the log of the losses
    (``training-log.jsonl``), the facts of the run (``pretraining.json``) and the model card made of them.

    `prepare_only` stops when tokeniser and rows are there, which needs no GPU; the next call finds them.
    """
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    text = Corpus.find(Path(corpus))
    guide = load_teacher(teacher, max_length=settings.max_length, device=place) if teacher else None
    if guide is None and not settings.mlm(teacher=False):
        raise TrainingError("nothing to learn from: give a teacher, or an mlm_weight above 0.")
    out = Path(out)
    work = out.with_name(out.name + ".work")
    work.mkdir(parents=True, exist_ok=True)
    digest = text.sha256()
    pieces = _tokenizer(text, digest, tokenizer, work, settings)
    directory, amounts = _rows(text, digest, pieces, guide, work, settings)
    if prepare_only:
        return work
    out.mkdir(parents=True, exist_ok=True)

    trainer = Trainer(
        Objective(settings, guide),
        Rows.open(directory, "train"),
        Rows.open(directory, "held-out"),
        settings,
        place,
        out / LOG,
        progress,
    )
    state = work / f"state-{_key(settings.model_dump(mode='json', exclude=_NOT_STATE), directory.name)}.pt"
    if resume and state.is_file():
        trainer.resume(state)
    else:
        (out / LOG).unlink(missing_ok=True)
    held_out = trainer.run(state)

    save_checkpoint(trainer.objective, pieces, out, settings)
    facts = {
        "settings": settings.model_dump(mode="json"),
        "corpus": {"file": text.path.name, "sha256": digest, "bytes": text.path.stat().st_size, **amounts},
        "teacher": _describe(guide),
        "parameters": sum(p.numel() for p in trainer.objective.student.parameters()),
        "mlm_weight": trainer.objective.mlm_weight,
        "steps": trainer.step,
        "tokens": trainer.tokens(),
        "seconds": round(trainer.seconds, 1),
        "hardware": _hardware(place),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "held_out": held_out,
    }
    (out / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
    write_card(out)
    return out


def save_checkpoint(objective: Objective, tokenizer: Tokenizer, out: Path, settings: PretrainSettings) -> None:
    """The student alone, in fp16, as ``AutoModel`` and ``AutoTokenizer`` read it."""
    weights = {name: value.detach().half().cpu().contiguous() for name, value in objective.student.state_dict().items()}
    # Training text has one segment; the second type starts from what the first has learnt, not from noise.
    types = weights["embeddings.token_type_embeddings.weight"]
    types[1] = types[0]
    file = out / "model.safetensors"
    save_file(weights, file, metadata={"format": "pt"})
    file.chmod(0o644)  # safetensors leaves a file that only its owner can read
    config = student_config(settings, dropout=settings.dropout).to_dict()
    config |= {"architectures": ["BertModel"], "dtype": "float32"}  # stored in fp16, meant to be used in fp32
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_tokenizer(tokenizer, out, settings.max_length)


def _tokenizer(text: Corpus, digest: str, given: Path | None, work: Path, settings: PretrainSettings) -> Tokenizer:
    if given is not None:
        tokenizer = load_tokenizer(Path(given))
        if tokenizer.get_vocab_size() != settings.vocabulary:
            raise DataError(
                f"{given}: a vocabulary of {tokenizer.get_vocab_size()} pieces, but vocabulary = {settings.vocabulary}."
            )
        return tokenizer
    cached = work / f"tokenizer-{_key(digest, settings.vocabulary)}.json"
    if cached.is_file():
        return load_tokenizer(cached)
    tokenizer = train_tokenizer(text.paragraphs(), settings.vocabulary)
    partial = cached.with_suffix(".partial")
    tokenizer.save(str(partial), pretty=False)
    partial.replace(cached)
    return tokenizer


def _rows(
    text: Corpus, digest: str, tokenizer: Tokenizer, teacher: Teacher | None, work: Path, settings: PretrainSettings
) -> tuple[Path, dict[str, Any]]:
    """The directory of rows for this corpus, these vocabularies and this length; made if it is not there yet."""
    vocabularies = [own_vocabulary(tokenizer)] + ([teacher.vocabulary] if teacher else [])
    spelled = [v.tokenizer.to_str() for v in vocabularies]
    directory = work / f"rows-{_key(digest, settings.max_length, settings.held_out, settings.seed, *spelled)}"
    if not directory.is_dir():
        prepare(
            text.paragraphs(),
            vocabularies,
            directory,
            length=settings.max_length,
            held_out=settings.held_out,
            seed=settings.seed,
        )
    amounts: dict[str, Any] = json.loads((directory / "facts.json").read_text())
    return directory, amounts


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _describe(teacher: Teacher | None) -> dict[str, Any] | None:
    if teacher is None:
        return None
    kind = str(teacher.encoder.config.model_type)  # type: ignore[union-attr]
    return {"name": teacher.name, "type": kind, "layers": teacher.layers, "hidden": teacher.hidden}


def _hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
