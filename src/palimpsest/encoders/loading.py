"""Loading an encoder: its weights as a plain mapping, its tokeniser, and how to build its network."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from palimpsest.encoders.anatomy import Anatomy
from palimpsest.encoders.identity import (
    Located,
    anatomy_of,
    check_tokenizer,
    fetch,
    identify,
    locate,
    pinned,
    read_config,
    weight_files,
)
from palimpsest.errors import EncoderError, SurgeryError
from palimpsest.specs.expansion import EncoderIdentity

State = Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Encoder:
    """A pretrained encoder, loaded. Its weights are shared by all trials: nobody writes to them."""

    identity: EncoderIdentity
    model: Any  # a transformers PreTrainedModel
    tokenizer: Any
    anatomy: Anatomy
    has_pooler: bool

    @property
    def state(self) -> State:
        return {name: p.detach() for name, p in self.model.named_parameters()}

    @property
    def pad_id(self) -> int:
        return int(self.model.config.pad_token_id or 0)

    @property
    def position_offset(self) -> int:
        """How many rows of the position table come before the first token's (RoBERTa and MPNet: padding index + 1)."""
        return self.pad_id + 1 if self.model.config.model_type in ("roberta", "mpnet") else 0

    def network(self) -> Any:
        """A network of this architecture for a trial to write its own weights into."""
        return copy.deepcopy(self.model)


@lru_cache(maxsize=16)
def without(encoder: Encoder, layers: tuple[int, ...]) -> Encoder:
    """The encoder with these layers (counted from 1) taken out; the same object when asked for again."""
    model = copy.deepcopy(encoder.model)
    depth = take_out(model, encoder.anatomy, layers)
    return replace(
        encoder,
        identity=replace(encoder.identity, depth=depth),
        model=model,
        anatomy=replace(encoder.anatomy, depth=depth),
    )


def take_out(model: Any, anatomy: Anatomy, layers: Iterable[int]) -> int:
    """Remove these layers (counted from 1) from a Hugging Face encoder, in place; returns how many are left."""
    gone = set(layers)
    anatomy.check_layers(gone)
    if len(gone) == anatomy.depth:
        raise SurgeryError(f"all {anatomy.depth} layers would be deleted: nothing is left of this encoder")
    stem, _, _ = anatomy.layer_modules[0].rpartition(".")
    stack = model.get_submodule(stem)
    for layer in sorted(gone, reverse=True):
        del stack[layer - 1]
    setattr(model.config, anatomy.family.depth_key, len(stack))
    return len(stack)


_READ = ("config.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt")
_SAFE, _PICKLED = ("model*.safetensors", "model.safetensors.index.json"), ("pytorch_model*.bin*",)


def load(ref: str) -> Encoder:
    """An encoder by built-in name, directory or hub name; the same object when asked for again.

    Weights come from safetensors, or with weights_only: nothing in a checkpoint is executed.
    """
    identity = identify(ref)
    return _load(locate(pinned(ref, identity)), identity)


@lru_cache(maxsize=4)
def _load(located: Located, identity: EncoderIdentity) -> Encoder:
    from transformers import AutoModel, AutoTokenizer

    directory = located.directory or _download(located)
    anatomy = anatomy_of(read_config(directory, located.name), located.name)
    check_tokenizer(directory)
    try:
        with quiet():  # a pooler or head that a checkpoint lacks is expected, and said in our own words
            tokenizer = AutoTokenizer.from_pretrained(directory, use_fast=True, trust_remote_code=False)
            model, info = AutoModel.from_pretrained(
                directory, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
            )
    except UnpicklingError as error:
        raise EncoderError(
            f"the weights in {directory} are damaged, or pickled with more in them than tensors: nothing in a "
            "checkpoint is executed. Save them as safetensors where you trust them."
        ) from error
    except Exception as error:  # what a broken checkpoint raises depends on the library that trips over it
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EncoderError(f"cannot load the encoder {directory} ({type(error).__name__}: {reason})") from error
    missing = sorted(str(k) for k in info["missing_keys"])
    has_pooler = anatomy.family.pooler is not None and not any("pooler" in k for k in missing)
    broken = [k for k in missing if "pooler" not in k and not k.endswith("position_ids")]
    if broken:
        raise EncoderError(
            f"the checkpoint {directory} lacks {len(broken)} of the weights of a {model.config.model_type}: "
            f"{', '.join(broken[:3])}{', …' if len(broken) > 3 else ''}. A pretrained encoder must be complete."
        )
    return Encoder(identity, model.eval(), tokenizer, anatomy, has_pooler)


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings and no progress bars of transformers."""
    from transformers.utils import logging

    verbosity, progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if progress:
            logging.enable_progress_bar()


def _download(located: Located) -> Path:
    directory = fetch(located, (*_READ, *_SAFE))
    if not any(directory.glob(_SAFE[0])):
        directory = fetch(located, (*_READ, *_PICKLED))
    weight_files(directory)
    return directory
