"""Which encoder is meant, found out without loading it: name, fingerprint, depth, heads. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from palimpsest.encoders.anatomy import Anatomy, family_of
from palimpsest.errors import EncoderError
from palimpsest.specs.expansion import EncoderIdentity

BUILT_IN = {"pocket": Path(__file__).parent / "pocket"}

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class Located:
    """Where an encoder's files are: a directory, or a hub repository and revision."""

    name: str
    directory: Path | None
    revision: str | None = None

    @property
    def source(self) -> str:
        return str(self.directory) if self.directory else self.name


def locate(ref: str) -> Located:
    """A built-in name, a directory, or a hub name with an optional ``@revision``."""
    if ref in BUILT_IN:
        return Located(ref, BUILT_IN[ref])
    path = Path(ref).expanduser()
    if path.is_dir():
        return Located(path.resolve().name, path.resolve())
    if ref.startswith((".", "/", "~")) or ref.count("/") > 1 or os.sep * 2 in ref:
        raise EncoderError(f"there is no encoder directory {ref}")
    name, _, revision = ref.partition("@")
    return Located(name, None, revision or None)


def read_config(located: Located) -> dict[str, Any]:
    """The encoder's config.json, from its directory or from the hub."""
    if located.directory:
        path = located.directory / "config.json"
        if not path.is_file():
            raise EncoderError(f"{located.directory} is no Hugging Face checkpoint: it has no config.json")
    else:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

        try:
            path = Path(
                hf_hub_download(
                    located.name, "config.json", revision=located.revision, endpoint=os.environ.get("HF_ENDPOINT")
                )
            )
        except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
            reason = str(error).strip().splitlines()
            raise EncoderError(
                f"cannot get the encoder {located.name!r} from the Hugging Face hub "
                f"({reason[0] if reason else type(error).__name__}). Give a local checkpoint directory, "
                f"or one of the built-in encoders: {', '.join(BUILT_IN)}."
            ) from None
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"cannot read {path}: {error}") from None
    return config


def anatomy_of(config: dict[str, Any], name: str) -> Anatomy:
    """The anatomy that a config.json describes."""
    family = family_of(str(config.get("model_type")), name)
    # Missing keys mean BERT's own defaults, which config.json may leave out.
    depth = int(config.get(family.depth_key, config.get("num_hidden_layers", 12)))
    heads = int(config.get(family.heads_key, config.get("num_attention_heads", 12)))
    hidden = int(config.get("hidden_size", config.get("dim", 768)))
    return Anatomy(family, depth, heads, hidden)


def identify(ref: str) -> EncoderIdentity:
    """What a trial says of its encoder.

    A local directory is known by its own name and the fingerprint of its files, so that it may be moved; a hub
    encoder by its name and the revision, if one was asked for.
    """
    located = locate(ref)
    anatomy = anatomy_of(read_config(located), located.name)
    weights = _fingerprint(located.directory) if located.directory else located.revision
    return EncoderIdentity(located.name, weights, anatomy.depth, anatomy.heads)


@lru_cache(maxsize=32)
def _fingerprint(directory: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    names = [n for n in _WEIGHTS if (directory / n).is_file()]
    if not names:
        raise EncoderError(f"{directory} has no weights ({' or '.join(_WEIGHTS[:1] + _WEIGHTS[2:3])})")
    shards = sorted(directory.glob("model-*.safetensors")) if names[0].endswith(".index.json") else []
    for path in [directory / names[0], *shards, directory / "config.json", directory / "tokenizer.json"]:
        if path.is_file():
            with path.open("rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
    return digest.hexdigest()
