"""The vocabulary: what is joined, in which order, and that a second run gives the same."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.pretraining.tokenizer import SPECIAL, train_tokenizer
from palimpsest.pretraining.wordpiece import learn_pieces


def test_joins_by_hand() -> None:
    # The pairs are (a, ##b): 8, (##b, ##c): 5, (c, ##a): 2; then (ab, ##c): 5; then (c, ##a) is all that is left.
    counts = {"abc": 5, "ab": 3, "ca": 2}
    characters = ["##a", "##b", "##c", "a", "c"]
    assert learn_pieces(counts, 100, alphabet=10) == [*characters, "ab", "abc", "ca"]
    assert learn_pieces(counts, 6, alphabet=10) == [*characters, "ab"]


def test_ties_go_by_the_alphabet() -> None:
    assert learn_pieces({"xy": 1, "pq": 1, "mn": 1}, 100, alphabet=10)[-3:] == ["mn", "pq", "xy"]


def test_a_pair_that_overlaps_itself() -> None:
    assert learn_pieces({"aaaa": 1, "baaaa": 1}, 100, alphabet=5)[-1] == "baaaa"


def test_rare_characters_are_left_out() -> None:
    assert learn_pieces({"ab": 9, "az": 1}, 100, alphabet=2) == ["##b", "a", "ab"]


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.text("abcd", min_size=1, max_size=9), st.integers(1, 9), min_size=1, max_size=40), st.randoms()
)
def test_the_order_of_the_words_does_not_matter_and_every_word_is_reached(
    counts: dict[str, int], shuffler: random.Random
) -> None:
    items = list(counts.items())
    shuffler.shuffle(items)
    pieces = learn_pieces(counts, 10_000, alphabet=4)
    assert pieces == learn_pieces(dict(items), 10_000, alphabet=4)
    assert len(pieces) == len(set(pieces))
    assert set(counts) <= set(pieces)  # with room enough, each word becomes a piece of its own


def test_the_tokeniser_is_uncased_and_special_tokens_come_first() -> None:
    tokenizer = train_tokenizer(["Étude no. 4: étude, ETUDE"] * 3, 21)
    assert [tokenizer.id_to_token(i) for i in range(5)] == SPECIAL
    assert tokenizer.get_vocab_size() == 21
    encoded = tokenizer.encode("étude ETUDE", "no")
    assert encoded.tokens == ["[CLS]", "etude", "etude", "[SEP]", "no", "[SEP]"]
    assert encoded.type_ids == [0, 0, 0, 0, 1, 1]
