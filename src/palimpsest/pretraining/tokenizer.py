"""An uncased WordPiece tokeniser of one's own, in BERT's manner, and its Hugging Face files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from palimpsest.errors import DataError
from palimpsest.pretraining.wordpiece import count_words, learn_pieces

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

# Characters rarer than these many most frequent ones become [UNK]: a corpus with a few words of every script
# would otherwise spend a good part of a small vocabulary on them.
_ALPHABET = 256


def train_tokenizer(paragraphs: Iterable[str], vocabulary: int) -> Tokenizer:
    """A WordPiece tokeniser with exactly this many entries; the special ones come first."""
    words = count_words(paragraphs, _tokenizer({}))
    pieces = SPECIAL + learn_pieces(words, vocabulary - len(SPECIAL), min(_ALPHABET, vocabulary // 2))
    if len(pieces) < vocabulary:
        raise DataError(
            f"the corpus yields a vocabulary of {len(pieces)} pieces, not {vocabulary}: "
            "give a larger corpus or a smaller vocabulary."
        )
    tokenizer = _tokenizer({piece: i for i, piece in enumerate(pieces)})
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    tokenizer.decoder = WordPieceDecoder()
    return tokenizer


def _tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True, strip_accents=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokeniser of a ``tokenizer.json``, or of a directory that has one; its special tokens must be ours."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{file}: no such tokeniser file.")
    tokenizer = Tokenizer.from_file(str(file))
    if [tokenizer.id_to_token(i) for i in range(len(SPECIAL))] != SPECIAL:
        raise DataError(f"{file}: the first entries of the vocabulary must be {', '.join(SPECIAL)}.")
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, directory: Path, max_length: int) -> None:
    """The two files from which ``AutoTokenizer`` makes a fast ``BertTokenizer``."""
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "model_max_length": max_length,
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
