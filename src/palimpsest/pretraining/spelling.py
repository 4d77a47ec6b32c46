"""How the strings of a text are spelled in one vocabulary or in two, and which pieces make up the same word.

The text is split at white space into strings, and every *different* string is tokenised once. Inside a string a
tokeniser may see several words (``"end."`` is a word and a full stop). Where both tokenisers see the same number of
words in a string, their words correspond; where they do not, the whole string counts as one word.
"""

from __future__ import annotations

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
    pieces: list[list[list[int]]] = [[] for _ in vocabularies]
    words: list[list[list[int]]] = [[] for _ in vocabularies]
    word_counts = np.ones(len(strings) + 2, dtype=np.int64)
    for i, sides in enumerate(_encodings(strings, [v.tokenizer for v in vocabularies])):
        ids = [side.ids for side in sides]
        if all(0 < len(x) <= longest for x in ids):
            numbers = [_numbered(side.word_ids) for side in sides]
            found = {n[-1] + 1 for n in numbers}
            if len(found) == 1:
                word_counts[i] = found.pop()
            else:
                numbers = [[0] * len(x) for x in ids]
        else:
            ids, numbers = [[v.unk] for v in vocabularies], [[0] for _ in vocabularies]
        for s in range(len(vocabularies)):
            pieces[s].append(ids[s])
            words[s].append(numbers[s])
    return [
        _spelling([*pieces[s], [v.cls], [v.sep]], [*words[s], [0], [0]]) for s, v in enumerate(vocabularies)
    ], word_counts


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


def _spelling(pieces: list[list[int]], words: list[list[int]]) -> Spelling:
    starts = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum([len(p) for p in pieces], out=starts[1:])

    def flat(lists: list[list[int]]) -> Ints:
        return np.fromiter((x for part in lists for x in part), dtype=np.int32, count=int(starts[-1]))

    return Spelling(starts, flat(pieces), flat(words))
