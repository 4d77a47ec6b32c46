"""The two networks: loading the teacher, making the student, and the hidden states of packed rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertConfig, BertModel

from palimpsest.errors import EncoderError
from palimpsest.pretraining import tokenizer as own
from palimpsest.pretraining.settings import PretrainSettings
from palimpsest.pretraining.spelling import Vocabulary

RunLayer = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]

# Families whose layers are called with hidden states and a mask, and the arguments that leave out what is not needed.
_FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {"add_pooling_layer": False},
    "roberta": {"add_pooling_layer": False},
    "electra": {},
}


@dataclass(frozen=True)
class Teacher:
    """A pretrained encoder whose hidden states are to be imitated."""

    name: str
    vocabulary: Vocabulary
    encoder: nn.Module
    first_position: int  # RoBERTa counts positions from its padding index + 1

    @property
    def layers(self) -> int:
        return len(self.encoder.encoder.layer)  # type: ignore[union-attr, arg-type]

    @property
    def hidden(self) -> int:
        return int(self.encoder.config.hidden_size)  # type: ignore[union-attr, arg-type]


def load_teacher(name: str, *, max_length: int, device: torch.device) -> Teacher:
    """The teacher of a checkpoint directory or a hub name: in evaluation mode, without gradients, in bf16 on a GPU."""
    if name.startswith((".", "/", "~")) and not Path(name).expanduser().is_dir():
        raise EncoderError(
            f"{name}: no such teacher directory. Give a Hugging Face checkpoint directory or a hub name."
        )
    try:
        config = AutoConfig.from_pretrained(name)
        if config.model_type not in _FAMILIES:
            known = ", ".join(sorted(_FAMILIES))
            raise EncoderError(f"{name}: a teacher of type {config.model_type!r} is not supported; {known} are.")
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        encoder = AutoModel.from_pretrained(
            name, dtype=dtype, attn_implementation="sdpa", **_FAMILIES[config.model_type]
        ).eval()
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise EncoderError(f"{name}: the teacher cannot be loaded ({str(error).splitlines()[0]}).") from error
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise EncoderError(f"{name}: the teacher's tokeniser is not a fast one (tokenizer.json is missing).")
    first = int(config.pad_token_id) + 1 if config.model_type == "roberta" else 0
    if config.max_position_embeddings - first < max_length:
        raise EncoderError(
            f"{name}: the teacher reads {config.max_position_embeddings - first} pieces at most; "
            f"max_length = {max_length} is too long for it."
        )
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    vocabulary = Vocabulary(
        backend, tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id
    )
    return Teacher(name, vocabulary, encoder.requires_grad_(False).to(device), first)


def own_vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    return Vocabulary(tokenizer, own.PAD, own.UNK, own.CLS, own.SEP)


def student_config(settings: PretrainSettings, *, dropout: float) -> BertConfig:
    return BertConfig(
        vocab_size=settings.vocabulary,
        hidden_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=settings.feed_forward,
        max_position_embeddings=settings.max_length,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=own.PAD,
    )


def make_student(settings: PretrainSettings) -> BertModel:
    """A network with fresh weights that depend on the seed alone."""
    config = student_config(settings, dropout=0.0)
    config._attn_implementation = "sdpa"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return BertModel(config, add_pooling_layer=False)


def layout(ids: torch.Tensor, *, cls: int, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions, counted from each [CLS], and the mask [rows, 1, length, length] that keeps segments apart.

    Padding attends to padding: a position that may look nowhere would turn into NaN in some attention kernels.
    """
    begins = ids == cls
    column = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    positions = column - torch.where(begins, column, 0).cummax(dim=1).values
    segment = torch.where(ids == pad, 0, begins.cumsum(dim=1))
    return positions, segment[:, None, :, None] == segment[:, None, None, :]


def run_layer(layer: nn.Module, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    out = layer(hidden, mask)
    result: torch.Tensor = out[0] if isinstance(out, tuple) else out
    return result


def hidden_states(
    encoder: Any, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, run: RunLayer = run_layer
) -> list[torch.Tensor]:
    """The output of the embeddings and of every layer.

    `run` calls one layer; it can be a compiled :func:`run_layer`. One layer compiles in seconds and its code serves all
    of them, while the network as a whole takes a minute or more.
    """
    hidden = encoder.embeddings(input_ids=ids, position_ids=positions)
    if hasattr(encoder, "embeddings_project"):
        hidden = encoder.embeddings_project(hidden)
    states = [hidden]
    for layer in encoder.encoder.layer:
        states.append(run(layer, states[-1], mask))
    return states
