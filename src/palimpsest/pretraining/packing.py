"""From text to rows of fixed length: segments of paragraphs, several to a row, the same words for each vocabulary.

A segment is a sentence or a longer stretch of one paragraph, with its own [CLS] and [SEP]; half of each, so that the
network meets short inputs as well as long ones. Segments are packed into rows without attending to one another
(see :func:`palimpsest.pretraining.networks.layout`), so hardly any of a row is padding.
"""

from __future__ import annotations

import json
import shutil
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from palimpsest import streams
from palimpsest.errors import DataError
from palimpsest.pretraining.corpus import is_held_out
from palimpsest.pretraining.spelling import Spelling, Vocabulary, spell

Longs = npt.NDArray[np.int64]
SIDES = ("student", "teacher")
_BLOCK = 16_384  # rows written at a time, which bounds the memory that is needed


@dataclass(frozen=True)
class Rows:
    """Memory-mapped [rows, length] arrays of one share of the corpus.

    ``ids[side]`` are pieces; ``words[side]`` says to which word of its row a piece belongs, and equals the row's length
    where there is padding.
    """

    ids: dict[str, npt.NDArray[Any]]
    words: dict[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        return len(self.ids["student"])

    @classmethod
    def open(cls, directory: Path, share: str) -> Rows:
        found = [side for side in SIDES if (directory / f"{share}-{side}-ids.npy").is_file()]
        load = {
            (s, w): np.load(directory / f"{share}-{s}-{w}.npy", mmap_mode="r") for s in found for w in ("ids", "words")
        }
        return cls({s: load[s, "ids"] for s in found}, {s: load[s, "words"] for s in found})


def prepare(
    paragraphs: Iterable[str],
    vocabularies: Sequence[Vocabulary],
    directory: Path,
    *,
    length: int,
    held_out: float,
    seed: int,
) -> dict[str, int]:
    """Write the rows ``train-…`` and ``held-out-…`` into a directory, and say how much there is of what."""
    text = _Text.read(paragraphs, held_out, seed)
    spellings, word_counts = spell(text.strings, vocabularies, length - 2)
    sentence_end = np.array([s.rstrip("\"')]”’»").endswith((".", "!", "?")) for s in text.strings])
    sizes = np.max([s.counts for s in spellings], axis=0)
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    facts: dict[str, int] = {"paragraphs": len(text.ends), "strings": len(text.stream)}
    for share, chosen in (("train", ~text.held_out), ("held-out", text.held_out)):
        segments = _segments(text, chosen, sizes, sentence_end, length - 2, seed)
        if not len(segments):
            what = "no paragraph is held out" if share == "held-out" else "nothing is left to train on"
            raise DataError(f"the corpus is too small: of {len(text.ends)} paragraphs, {what}.")
        rows = _assign(segments, sizes, text.stream, length)
        facts[f"{share}_rows"] = int(rows.max()) + 1
        facts[f"{share}_segments"] = len(segments)
        for side, vocabulary, spelling in zip(SIDES, vocabularies, spellings, strict=False):
            facts[f"{share}_{side}_pieces"] = _write(
                partial / f"{share}-{side}", text.stream, segments, rows, vocabulary, spelling, word_counts, length
            )
    (partial / "facts.json").write_text(json.dumps(facts, indent=2))
    shutil.rmtree(directory, ignore_errors=True)
    partial.rename(directory)
    return facts


@dataclass(frozen=True)
class _Text:
    """The corpus as numbers of different strings; paragraph p is ``stream[ends[p - 1] : ends[p]]``."""

    strings: list[str]
    stream: npt.NDArray[np.int32]
    ends: Longs
    held_out: npt.NDArray[np.bool_]

    @classmethod
    def read(cls, paragraphs: Iterable[str], share: float, seed: int) -> _Text:
        number: defaultdict[str, int] = defaultdict(count().__next__)
        stream, ends, held_out = array("i"), array("q"), array("b")
        for paragraph in paragraphs:
            stream.extend(map(number.__getitem__, paragraph.split()))
            ends.append(len(stream))
            held_out.append(is_held_out(paragraph, share, seed))
        return cls(
            list(number),
            np.frombuffer(stream, dtype=np.int32),
            np.frombuffer(ends, dtype=np.int64),
            np.frombuffer(held_out, dtype=np.bool_),
        )


def _segments(
    text: _Text, chosen: npt.NDArray[np.bool_], sizes: Longs, sentence_end: npt.NDArray[np.bool_], room: int, seed: int
) -> Longs:
    """[segments, 2]: where each begins and ends in the stream."""
    filled = np.concatenate([[0], np.cumsum(sizes[text.stream])])
    reach = np.searchsorted(filled, filled[:-1] + room, side="right") - 1  # the furthest end of what begins here
    ends_here = np.flatnonzero(sentence_end[text.stream]) + 1
    sentence = np.append(ends_here, len(text.stream))[
        np.searchsorted(ends_here, np.arange(len(text.stream)), side="right")
    ]
    short = streams.host_bits(len(text.stream), "segments", seed) % np.uint64(2) == 0
    end_of_sentence = np.where(short, np.minimum(reach, sentence), reach)
    found = array("q")
    begins = np.concatenate([[0], text.ends[:-1]])
    for begin, end in zip(begins[chosen].tolist(), text.ends[chosen].tolist(), strict=True):
        while begin < end:
            stop = min(int(end_of_sentence[begin]), end)
            found.extend((begin, stop))
            begin = stop
    return np.frombuffer(found, dtype=np.int64).reshape(-1, 2)


def _assign(segments: Longs, sizes: Longs, stream: npt.NDArray[np.int32], length: int) -> Longs:
    """The row of each segment: best fit, the longest first."""
    filled = np.concatenate([[0], np.cumsum(sizes[stream])])
    need = filled[segments[:, 1]] - filled[segments[:, 0]] + 2
    rows = np.empty(len(segments), dtype=np.int64)
    open_rows: list[list[int]] = [[] for _ in range(length + 1)]  # by the room that is left
    opened = 0
    for segment in np.argsort(-need, kind="stable").tolist():
        size = int(need[segment])
        room = next((r for r in range(size, length) if open_rows[r]), length)
        if room < length:
            row = open_rows[room].pop()
        else:
            row, opened = opened, opened + 1
        rows[segment] = row
        open_rows[room - size].append(row)
    return rows


def _write(
    prefix: Path,
    stream: npt.NDArray[np.int32],
    segments: Longs,
    rows: Longs,
    vocabulary: Vocabulary,
    spelling: Spelling,
    word_counts: Longs,
    length: int,
) -> int:
    """Write one side's two arrays; how many pieces they hold."""
    order = np.argsort(rows, kind="stable")
    segments, rows = segments[order], rows[order]
    shape = (int(rows[-1]) + 1, length)
    small = vocabulary.tokenizer.get_vocab_size() <= 2**16
    ids = _new(Path(f"{prefix}-ids.npy"), np.uint16 if small else np.int32, shape)
    words = _new(Path(f"{prefix}-words.npy"), np.uint8 if length < 2**8 else np.uint16, shape)
    total = 0
    for first in range(0, shape[0], _BLOCK):
        last = min(first + _BLOCK, shape[0])
        part = slice(*np.searchsorted(rows, [first, last]))
        strings, row = _strings(stream, segments[part], rows[part] - first, len(spelling.starts) - 3)
        counts = spelling.counts[strings]
        source = _ranges(spelling.starts[strings], counts)
        piece_row = np.repeat(row, counts)
        column = _within(piece_row)
        block_ids = np.full((last - first, length), vocabulary.pad, dtype=ids.dtype)
        block_ids[piece_row, column] = spelling.pieces[source]
        block_words = np.full((last - first, length), length, dtype=words.dtype)
        first_word = np.cumsum(word_counts[strings]) - word_counts[strings]
        row_begins = np.searchsorted(row, np.arange(last - first))
        word = np.repeat(first_word - first_word[row_begins][row], counts) + spelling.words[source]
        block_words[piece_row, column] = word
        ids[first:last], words[first:last] = block_ids, block_words
        total += len(source)
    ids.flush()
    words.flush()
    return total


def _new(path: Path, dtype: npt.DTypeLike, shape: tuple[int, int]) -> np.memmap[Any, Any]:
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)


def _strings(stream: npt.NDArray[np.int32], segments: Longs, rows: Longs, cls: int) -> tuple[Longs, Longs]:
    """The strings of these segments one after another, each between [CLS] and [SEP], and the row of every string."""
    sizes = segments[:, 1] - segments[:, 0] + 2
    ends = np.cumsum(sizes)
    strings = np.empty(int(ends[-1]), dtype=np.int64)
    inner = np.ones(len(strings), dtype=np.bool_)
    inner[ends - 1] = inner[ends - sizes] = False
    strings[inner] = stream[_ranges(segments[:, 0], sizes - 2)]
    strings[ends - sizes], strings[ends - 1] = cls, cls + 1
    return strings, np.repeat(rows, sizes)


def _ranges(starts: Longs, counts: Longs) -> Longs:
    """start, start + 1, …, start + count − 1 for each pair, one after another."""
    before = np.cumsum(counts) - counts
    result: Longs = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
    return result


def _within(groups: Longs) -> Longs:
    """The running number of each element inside its group; equal groups stand together."""
    begins: Longs = np.searchsorted(groups, groups)
    return np.arange(len(groups)) - begins
