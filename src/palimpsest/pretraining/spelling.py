"""How the strings of a text are spelled in one vocabulary or in two, and which pieces make up the same word.

The text is split at white space into strings, and every *different* string is tokenised once. Inside a string a
tokeniser may see several words (``"end."`` is a word and a full stop). Where both tokenisers see the same number of
words in a string, their words correspond; where they do not, the whole string counts as one word.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

Ints = npt.NDArray[np.int32]
_BATCH = 65_536


@dataclass(frozen=True)
class Vocabulary:
    """A tokeniser with what is needed to build its rows."""

    tokenizer: Tokenizer
    pad: int
    unk: int
    cls: int
    sep: int


@dataclass(frozen=True)
class Spelling:
    """The pieces of every string in one vocabulary; string i owns ``pieces[starts[i] : starts[i + 1]]``.

    ``words`` says to which word of its string a piece belongs. The last two strings are [CLS] and [SEP], each a word
    of one piece.
    """

    starts: npt.NDArray[np.int64]
    pieces: Ints
    words: Ints

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        return np.diff(self.starts)


def spell(
    strings: Sequence[str], vocabularies: Sequence[Vocabulary], longest: int
) -> tuple[list[Spelling], npt.NDArray[np.int64]]:
    """Each vocabulary's spelling of the strings, and how many words each string has.

    A string that would take more than `longest` pieces becomes [UNK] everywhere: it is an address or a formula.
    """
    sides = [_Builder() for _ in vocabularies]
    word_counts = np.ones(len(strings) + 2, dtype=np.int64)
    for i, encoded in enumerate(_encodings(strings, [v.tokenizer for v in vocabularies])):
        ids = [side.ids for side in encoded]
        numbers: list[list[int]] | None = None
        if not all(0 < len(x) <= longest for x in ids):
            ids = [[v.unk] for v in vocabularies]
        elif not strings[i].isalpha():  # letters alone are one word, as most strings are; looking is what takes time
            numbers = [_numbered(side.word_ids) for side in encoded]
            found = {n[-1] + 1 for n in numbers}
            if len(found) == 1:
                word_counts[i] = found.pop()
            else:
                numbers = None
        for s, builder in enumerate(sides):
            builder.add(ids[s], numbers[s] if numbers else [0] * len(ids[s]))
    for builder, vocabulary in zip(sides, vocabularies, strict=True):
        builder.add([vocabulary.cls], [0])
        builder.add([vocabulary.sep], [0])
    return [builder.spelling() for builder in sides], word_counts


class _Builder:
    """A spelling that grows by one string at a time."""

    def __init__(self) -> None:
        self.starts, self.pieces, self.words = array("q", [0]), array("i"), array("i")

    def add(self, pieces: list[int], words: list[int]) -> None:
        self.pieces.extend(pieces)
        self.words.extend(words)
        self.starts.append(len(self.pieces))

    def spelling(self) -> Spelling:
        return Spelling(
            np.frombuffer(self.starts, dtype=np.int64),
            np.frombuffer(self.pieces, dtype=np.int32),
            np.frombuffer(self.words, dtype=np.int32),
        )


def _encodings(strings: Sequence[str], tokenizers: Sequence[Tokenizer]) -> Iterator[tuple[Encoding, ...]]:
    """For every string, its encoding by each tokeniser."""
    for first in range(0, len(strings), _BATCH):
        # The space in front is what a byte-level vocabulary expects at the start of a word; BERT's ignores it.
        batch = [" " + s for s in strings[first : first + _BATCH]]
        yield from zip(*(t.encode_batch(batch, add_special_tokens=False) for t in tokenizers), strict=True)


def _numbered(word_ids: list[int | None]) -> list[int]:
    """Word numbers without gaps: a tokeniser may count a word of which no piece is left."""
    seen: dict[int | None, int] = {}
    return [seen.setdefault(w, len(seen)) for w in word_ids]
