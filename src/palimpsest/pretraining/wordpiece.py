"""Learning a WordPiece vocabulary: the most frequent pair of neighbouring pieces is joined, again and again.

Written out here because the trainer of ``tokenizers`` breaks ties by the order of a hash table: two runs of it on one
corpus give two vocabularies, and a pretraining run could not be repeated.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from tokenizers import Tokenizer

_LONGEST_WORD = 100  # WordPiece takes longer ones for unknown

Pair = tuple[str, str]


def count_words(paragraphs: Iterable[str], tokenizer: Tokenizer) -> Counter[str]:
    """How often each word occurs, as this tokeniser normalises and splits."""
    assert tokenizer.normalizer is not None
    assert tokenizer.pre_tokenizer is not None
    strings: Counter[str] = Counter()
    for paragraph in paragraphs:
        strings.update(paragraph.split())
    words: Counter[str] = Counter()
    for string, count in strings.items():
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(string)):
            if len(word) <= _LONGEST_WORD:
                words[word] += count
    return words


def learn_pieces(word_counts: Mapping[str, int], size: int, alphabet: int) -> list[str]:
    """At most `size` pieces: characters first, then joined ones, the most frequent first; ties go by the alphabet.

    Words with a character that is not among the `alphabet` most frequent ones are left aside.
    """
    characters: Counter[str] = Counter()
    for word, count in word_counts.items():
        for character in word:
            characters[character] += count
    kept = {c for c, _ in sorted(characters.items(), key=lambda item: (-item[1], item[0]))[:alphabet]}
    words = sorted((w, n) for w, n in word_counts.items() if kept.issuperset(w))
    spelled = [[w[0], *("##" + c for c in w[1:])] for w, _ in words]
    pieces = sorted({piece for word in spelled for piece in word})
    known = set(pieces)

    weights: defaultdict[Pair, int] = defaultdict(int)
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for i, (_, count) in enumerate(words):
        for pair in zip(spelled[i], spelled[i][1:], strict=False):
            weights[pair] += count
            places[pair].add(i)
    heap = [(-weight, pair) for pair, weight in weights.items()]
    heapq.heapify(heap)

    while len(pieces) < size and heap:
        weight, pair = heapq.heappop(heap)
        if weights[pair] != -weight:  # the pair has changed since it was put here
            if weights[pair] > 0:
                heapq.heappush(heap, (-weights[pair], pair))
            continue
        joined = pair[0] + pair[1].removeprefix("##")
        if joined not in known:
            pieces.append(joined)
            known.add(joined)
        grown = set()
        for i in places.pop(pair):
            grown |= _join(spelled[i], pair, joined, words[i][1], i, weights, places)
        del weights[pair]
        for new in grown:
            heapq.heappush(heap, (-weights[new], new))
    return pieces[:size]


def _join(
    word: list[str],
    pair: Pair,
    joined: str,
    count: int,
    number: int,
    weights: defaultdict[Pair, int],
    places: defaultdict[Pair, set[int]],
) -> set[Pair]:
    """Join the pair wherever it stands in a word; the new pairs this makes."""
    made = set()
    at = 0
    while at < len(word) - 1:
        if (word[at], word[at + 1]) == pair:
            if at > 0:
                weights[word[at - 1], pair[0]] -= count
                made.add(new := (word[at - 1], joined))
                weights[new] += count
                places[new].add(number)
            if at + 2 < len(word):
                weights[pair[1], word[at + 2]] -= count
                made.add(new := (joined, word[at + 2]))
                weights[new] += count
                places[new].add(number)
            word[at : at + 2] = [joined]
        at += 1
    return made
