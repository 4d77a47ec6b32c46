"""Loading an encoder: its weights as a plain mapping, its tokeniser, and how to build its network."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from palimpsest.encoders.anatomy import Anatomy
from palimpsest.encoders.identity import anatomy_of, identify, locate, read_config
from palimpsest.errors import EncoderError
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


@lru_cache(maxsize=4)
def load(ref: str) -> Encoder:
    """An encoder by built-in name, directory or hub name. Weights come from safetensors, or with weights_only."""
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    located = locate(ref)
    anatomy = anatomy_of(read_config(located), located.name)
    where: dict[str, Any] = {"revision": located.revision} if located.revision else {}
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # a pooler or head that a checkpoint lacks is expected, and said in our own words
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(located.source, use_fast=True, **where)
        model, info = AutoModel.from_pretrained(located.source, dtype=torch.float32, output_loading_info=True, **where)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EncoderError(f"cannot load the encoder {ref}: {reason}") from error
    finally:
        logging.set_verbosity(verbosity)
    missing = sorted(str(k) for k in info["missing_keys"])
    has_pooler = anatomy.family.pooler is not None and not any("pooler" in k for k in missing)
    broken = [k for k in missing if "pooler" not in k and not k.endswith("position_ids")]
    if broken:
        raise EncoderError(
            f"the checkpoint {ref} lacks {len(broken)} of the weights of a {model.config.model_type}: {', '.join(broken[:3])}"
            f"{', …' if len(broken) > 3 else ''}. A pretrained encoder must be complete."
        )
    return Encoder(identify(ref), model.eval(), tokenizer, anatomy, has_pooler)
