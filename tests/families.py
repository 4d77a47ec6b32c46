"""Small random encoders of every supported family."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

FAMILIES = ("bert", "roberta", "electra", "distilbert", "mpnet")
DEPTH, HEADS, HIDDEN = 3, 2, 16


def config_of(family: str, vocabulary: int = 60, **changes: Any) -> Any:
    from transformers import AutoConfig

    sizes: dict[str, Any] = {"hidden_size": HIDDEN, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS}
    sizes |= {"intermediate_size": 32, "initializer_range": 0.3}
    if family == "distilbert":
        sizes = {"dim": HIDDEN, "n_layers": DEPTH, "n_heads": HEADS, "hidden_dim": 32, "initializer_range": 0.3}
    if family == "electra":
        sizes["embedding_size"] = 8
    if family == "roberta":
        sizes["type_vocab_size"] = 2
    pad = 1 if family in ("roberta", "mpnet") else 0
    fixed = {"vocab_size": vocabulary, "max_position_embeddings": 40, "pad_token_id": pad}
    return AutoConfig.for_model(family, **(fixed | sizes | changes))


def model_of(family: str, seed: int = 0, **changes: Any) -> Any:
    """A new one at every call; nothing in it is constant, as it would be in biases that were never trained."""
    from transformers import AutoModel

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return noisy(AutoModel.from_config(config_of(family, **changes)))


def noisy(model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval()


@cache
def encoder_of(family: str, tokenizer: Any = None) -> Any:
    """One of the family, as :func:`palimpsest.encoders.loading.load` gives it, with or without a tokeniser."""
    from palimpsest.encoders.identity import anatomy_of
    from palimpsest.encoders.loading import Encoder
    from palimpsest.specs.expansion import EncoderIdentity

    model = model_of(family, vocabulary=60 if tokenizer is None else len(tokenizer))
    anatomy = anatomy_of(model.config.to_dict(), family)
    has_pooler = anatomy.family.pooler is not None
    return Encoder(EncoderIdentity(family, None, DEPTH, HEADS), model, tokenizer, anatomy, has_pooler)


def save(folder: Path, family: str, tokenizer: Any, seed: int = 0) -> Path:
    """A checkpoint directory as people have them."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    model_of(family, seed, vocabulary=len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
