"""Which encoder is meant, found out without loading it: name, fingerprint, depth, heads. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from palimpsest import hub
from palimpsest.encoders.anatomy import Anatomy, family_of
from palimpsest.errors import EncoderError
from palimpsest.specs.expansion import EncoderIdentity

BUILT_IN = {"pocket": Path(__file__).parent / "pocket"}

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt")  # of tokenizers without a tokenizer.json
_TOKENIZERS = ("tokenizer.json", *_VOCABULARIES, "sentencepiece.bpe.model", "spiece.model", "spm.model")


@dataclass(frozen=True)
class Located:
    """Where an encoder's files are: a directory, or a hub repository and revision."""

    name: str
    directory: Path | None
    revision: str | None = None


def locate(ref: str) -> Located:
    """A built-in name, a directory, or a hub name with an optional ``@revision``."""
    if ref in BUILT_IN:
        return Located(ref, BUILT_IN[ref])
    try:
        path = Path(ref).expanduser()
        if ref and path.is_dir():
            return Located(path.resolve().name, path.resolve())
    except (OSError, RuntimeError) as error:  # no permission, a name that is too long, nobody's home directory
        raise EncoderError(f"there is no encoder directory {ref[:200]} ({error})") from None
    if not ref or ref.startswith((".", "/", "~")) or ref.count("/") > 1:
        raise EncoderError(f"there is no encoder directory {ref!r}")
    name, _, revision = ref.partition("@")
    return Located(name, None, revision or None)


def is_here(ref: str) -> bool:
    """Whether it is built in or a directory on this machine, so that no hub has to be asked."""
    try:
        return locate(ref).directory is not None
    except EncoderError:
        return False


def read_config(directory: Path, ref: str) -> dict[str, Any]:
    """A checkpoint's config.json."""
    path = directory / "config.json"
    if not path.is_file():
        raise EncoderError(f"{ref} is no Hugging Face checkpoint: it has no config.json")
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EncoderError(f"cannot read {path}: {error}") from None
    if not isinstance(config, dict):
        raise EncoderError(f"{path} does not describe an encoder: it is no mapping")
    return config


def fetch(located: Located, patterns: tuple[str, ...]) -> Path:
    """The directory in the hub's own cache that has these files, downloaded where it did not have them."""
    try:
        return hub.snapshot(located.name, patterns, revision=located.revision)
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise EncoderError(
            f"cannot get the encoder {located.name!r} from {hub.endpoint()} "
            f"({reason[0] if reason else type(error).__name__}). Give a local checkpoint directory, "
            f"or one of the built-in encoders: {', '.join(BUILT_IN)}."
        ) from error


def anatomy_of(config: dict[str, Any], name: str) -> Anatomy:
    """The anatomy that a config.json describes."""
    if "model_type" not in config:
        raise EncoderError(f"{name}: its config.json names no model_type, so its architecture is not known")
    family = family_of(str(config["model_type"]), name)

    def number(*keys: str, default: int) -> int:
        key = next((key for key in keys if key in config), "")
        value = config.get(key, default)  # config.json may leave out what is BERT's own default
        if type(value) is not int or value < 1:
            raise EncoderError(f"{name}: its config.json has {key}: {value!r}, where a positive number should be")
        return value

    depth = number(family.depth_key, "num_hidden_layers", default=12)
    heads = number(family.heads_key, "num_attention_heads", default=12)
    hidden = number("hidden_size", "dim", default=768)
    if hidden % heads:
        raise EncoderError(f"{name}: its config.json has {heads} heads, which do not divide a width of {hidden}")
    return Anatomy(family, depth, heads, hidden)


def identify(ref: str) -> EncoderIdentity:
    """What a trial says of its encoder.

    A local directory is known by its own name and the fingerprint of its files, so that it may be moved; a hub
    encoder by its name and the commit that the revision, or the name alone, means now.
    """
    located = locate(ref)
    directory = located.directory or fetch(located, ("config.json",))
    anatomy = anatomy_of(read_config(directory, ref), located.name)
    if located.directory:
        check_tokenizer(directory)
    weights = _fingerprint(tuple(_stamped(directory))) if located.directory else directory.name
    return EncoderIdentity(located.name, weights, anatomy.depth, anatomy.heads)


def pinned(ref: str, identity: EncoderIdentity) -> str:
    """The encoder so named that it stays the one that was identified: a hub's with its commit."""
    return ref if locate(ref).directory else f"{identity.name}@{identity.weights}"


def weight_files(directory: Path) -> list[Path]:
    """The files that a checkpoint's weights are read from; where there are several kinds, the safest."""
    for name in _WEIGHTS:
        if (directory / name).is_file():
            stem, _, ending = name.removesuffix(".index.json").partition(".")
            shards = directory.glob(f"{stem}-*.{ending}") if name.endswith(".index.json") else ()
            return [directory / name, *sorted(shards)]
    raise EncoderError(f"{directory} has no weights (model.safetensors or pytorch_model.bin)")


def check_tokenizer(directory: Path) -> None:
    """Complain about a checkpoint without a tokeniser: transformers would make one up that knows no word."""
    if not any((directory / name).is_file() for name in _TOKENIZERS):
        raise EncoderError(
            f"{directory} has no tokeniser (tokenizer.json, or a vocabulary like vocab.txt). Save it beside the "
            "weights: tokenizer.save_pretrained writes it."
        )


def _stamped(directory: Path) -> Iterator[tuple[Path, int, int]]:
    """The files that make an encoder what it is, with size and time: a long session sees them change."""
    tokenizer = directory / "tokenizer.json"
    vocabulary = [tokenizer] if tokenizer.is_file() else [directory / name for name in _VOCABULARIES]
    for path in [*weight_files(directory), directory / "config.json", *vocabulary]:
        if path.is_file():
            status = path.stat()
            yield path, status.st_size, status.st_mtime_ns


@lru_cache(maxsize=32)
def _fingerprint(files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for path, _, _ in files:
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
        except OSError as error:
            raise EncoderError(f"cannot read {path}: {error.strerror}") from None
    return digest.hexdigest()
