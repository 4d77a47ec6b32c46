"""The small machinery behind the miniatures: dice, blocks of minimal pairs, and how a split is filled with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

import numpy as np

from palimpsest.streams import host_bits, permutation
from palimpsest.tasks.base import Split
from palimpsest.tasks.miniature.lexicon import Lexicon

T = TypeVar("T")


class Row(NamedTuple):
    first: str
    second: str | None
    label: int


Block = Sequence[Row]  # minimal pairs: as many rows of either label, of (nearly) the same words
Construction = Callable[["Dice", Lexicon], Block]


class Dice:
    """Choices from a named stream: the same in every process and under every version of Python and numpy."""

    def __init__(self, *purpose: int | str) -> None:
        self._words = self._draw(purpose)

    @staticmethod
    def _draw(purpose: tuple[int | str, ...]) -> Iterator[int]:
        for page in count():
            yield from host_bits(4096, *purpose, page).tolist()

    def pick(self, items: Sequence[T]) -> T:
        return items[next(self._words) % len(items)]

    def pick_two(self, items: Sequence[T]) -> tuple[T, T]:
        """Two items from different positions, in random order."""
        first = next(self._words) % len(items)
        second = (first + 1 + next(self._words) % (len(items) - 1)) % len(items)
        return items[first], items[second]

    def flip(self) -> bool:
        return bool(next(self._words) % 2)


def sentence(text: str, end: str = ".") -> str:
    """The words as a written sentence: a capital at the start, a mark at the end, "an" before vowels."""
    words = text.split()
    for i, word in enumerate(words[:-1]):
        if word == "a" and words[i + 1][0].lower() in "aeiou":
            words[i] = "an"
    text = " ".join(words)
    return text[0].upper() + text[1:] + end


def question(text: str) -> str:
    return sentence(text, "?")


def fill(constructions: Mapping[str, Construction], words: Lexicon, rows: int, *purpose: int | str) -> Split:
    """A split of so many rows: equal shares of the constructions, no row twice, in random order.

    A rejected block counts towards its construction's share, so that one with few sentences ends early, and the others
    make up for it.
    """
    dice = {name: Dice("miniature", *purpose, name) for name in constructions}
    spent = dict.fromkeys(constructions, 0)
    table: list[Row] = []
    seen: set[tuple[str, str | None]] = set()
    while len(table) < rows:
        name = min(spent, key=lambda name: spent[name])
        block = constructions[name](dice[name], words)
        spent[name] += len(block)
        texts = {(row.first, row.second) for row in block}
        if len(texts) == len(block) <= rows - len(table) and seen.isdisjoint(texts):
            seen |= texts
            table += block
    table = [table[i] for i in permutation(rows, "miniature", *purpose, "order")]
    pairs = table[0].second is not None
    return Split(
        first=[row.first for row in table],
        second=[row.second or "" for row in table] if pairs else None,
        targets=np.array([row.label for row in table], dtype=np.int64),
    )
