"""Text becomes rows: words of two vocabularies correspond, nothing is lost, and held-out text stays apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from palimpsest.errors import DataError
from palimpsest.pretraining.corpus import Corpus, is_held_out
from palimpsest.pretraining.networks import layout
from palimpsest.pretraining.objectives import word_average
from palimpsest.pretraining.packing import Rows, prepare
from palimpsest.pretraining.spelling import Vocabulary, spell

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def vocabulary(*pieces: str, shift: int = 0) -> Vocabulary:
    """A WordPiece vocabulary of these pieces after the special ones, which begin at `shift`."""
    entries = [f"[unused{i}]" for i in range(shift)] + SPECIAL + list(pieces)
    tokenizer = Tokenizer(WordPiece({p: i for i, p in enumerate(entries)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return Vocabulary(tokenizer, shift, shift + 1, shift + 2, shift + 3)


COARSE = vocabulary("sailing", "ships", ".", ",", "at", "sea")
FINE = vocabulary("sail", "##ing", "sh", "##i", "##p", "##s", ".", ",", "a", "##t", "s", "##e", "##a", shift=7)


TEXT = ["Sailing ships, at sea.", "At sea. Sailing!", "Ships.", "Ships, ships."]


def rows_of(directory: Path, paragraphs: list[str], length: int = 16, seed: int = 0) -> tuple[Rows, Rows]:
    prepare(paragraphs, [FINE, COARSE], directory, length=length, held_out=0.4, seed=seed)
    return Rows.open(directory, "train"), Rows.open(directory, "held-out")


def words_in_row(rows: Rows, side: str, row: int) -> dict[int, list[str]]:
    """The pieces of each word of a row, as strings."""
    vocab = {"student": FINE, "teacher": COARSE}[side]
    found: dict[int, list[str]] = {}
    for piece, word in zip(rows.ids[side][row].tolist(), rows.words[side][row].tolist(), strict=True):
        if word < rows.ids[side].shape[1]:
            found.setdefault(word, []).append(vocab.tokenizer.id_to_token(piece))
        else:
            assert piece == vocab.pad
    return found


def joined(words: dict[int, list[str]]) -> list[str]:
    return ["".join(p.removeprefix("##") for p in words[w]) for w in sorted(words)]


def test_spelling_by_hand() -> None:
    (fine, coarse), words = spell(["Sailing", "ships,", "zebra"], [FINE, COARSE], longest=9)
    assert words.tolist() == [1, 2, 1, 1, 1]
    assert fine.starts.tolist() == [0, 2, 7, 8, 9, 10]
    assert fine.words.tolist() == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert [FINE.tokenizer.id_to_token(i) for i in fine.pieces[2:7]] == ["sh", "##i", "##p", "##s", ","]
    assert coarse.words.tolist() == [0, 0, 1, 0, 0, 0]
    assert [COARSE.tokenizer.id_to_token(i) for i in coarse.pieces] == [
        "sailing", "ships", ",", "[UNK]", "[CLS]", "[SEP]",
    ]  # fmt: skip


def test_a_string_on_whose_words_the_vocabularies_disagree_is_one_word() -> None:
    whole = vocabulary("ships,")
    whole.tokenizer.pre_tokenizer = None  # type: ignore[assignment]
    whole.tokenizer.normalizer = BertNormalizer(lowercase=True)
    (fine, _), words = spell(["ships,"], [FINE, whole], longest=9)
    assert words[0] == 1
    assert fine.words[:5].tolist() == [0] * 5


def test_a_string_too_long_for_a_row_is_unknown_on_both_sides() -> None:
    (fine, coarse), words = spell(["ships"], [FINE, COARSE], longest=3)
    assert fine.pieces[0] == FINE.unk
    assert coarse.pieces[0] == COARSE.unk
    assert words[0] == 1


def test_each_word_has_the_same_number_on_both_sides(tmp_path: Path) -> None:
    for rows in rows_of(tmp_path / "rows", TEXT):
        for row in range(len(rows)):
            student, teacher = (words_in_row(rows, side, row) for side in ("student", "teacher"))
            assert list(student) == list(teacher) == list(range(len(student)))
            assert joined(student) == joined(teacher)


def test_word_averages_by_hand() -> None:
    states = torch.tensor([[[1.0], [3.0], [5.0], [9.0]]])
    words = torch.tensor([[0, 0, 1, 4]])  # two pieces make word 0, one makes word 1, the last is padding
    assert (word_average(words, torch.float32) @ states).flatten().tolist() == [2.0, 5.0, 0.0, 0.0]


def test_segments_do_not_see_each_other_and_count_their_own_positions() -> None:
    ids = torch.tensor([[2, 9, 3, 2, 8, 8, 3, 0]])
    positions, mask = layout(ids, cls=2, pad=0)
    assert positions[0, :7].tolist() == [0, 1, 2, 0, 1, 2, 3]
    expected = torch.block_diag(torch.ones(3, 3), torch.ones(4, 4), torch.ones(1, 1)).bool()
    assert torch.equal(mask[0, 0], expected)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["sailing", "ships,", "at", "sea.", "zebra", "Sea!"]), min_size=1, max_size=30),
        min_size=30,
        max_size=60,
    ),
    st.integers(14, 40),
)
def test_every_word_lands_in_exactly_one_row(
    tmp_path_factory: pytest.TempPathFactory, paragraphs: list[list[str]], length: int
) -> None:
    texts = [" ".join((f"at {'ships, ' * i}", *words)) for i, words in enumerate(paragraphs)]
    if len({is_held_out(t, 0.4, 0) for t in texts}) < 2:
        return
    train, held_out = rows_of(tmp_path_factory.mktemp("rows"), texts, length)
    for rows, texts_of_share in (
        (train, [t for t in texts if not is_held_out(t, 0.4, 0)]),
        (held_out, [t for t in texts if is_held_out(t, 0.4, 0)]),
    ):
        expected = [
            t for text in texts_of_share for t in COARSE.tokenizer.encode(text, add_special_tokens=False).tokens
        ]
        found = [w for row in range(len(rows)) for w in joined(words_in_row(rows, "teacher", row))]
        assert sorted(expected) == sorted(w for w in found if w not in ("[CLS]", "[SEP]"))
        assert found.count("[CLS]") == found.count("[SEP]") > 0


def test_copies_of_a_paragraph_are_held_out_together(tmp_path: Path) -> None:
    text = [f"ships {'at sea. ' * i}".strip() for i in range(20)]
    train, held_out = rows_of(tmp_path / "rows", text * 3)
    held = [t for t in text if is_held_out(t, 0.4, 0)]
    assert 0 < len(held) < 20
    for rows, count in ((held_out, len(held)), (train, 20 - len(held))):
        ships = sum(joined(words_in_row(rows, "teacher", row)).count("ships") for row in range(len(rows)))
        assert ships == 3 * count


def test_rows_are_nearly_full(tmp_path: Path) -> None:
    text = [f"Sailing {'ships, at sea. ' * (i % 7)}" for i in range(400)]
    train, _ = rows_of(tmp_path / "rows", [f"{t} {'at ' * (i // 7)}".strip() for i, t in enumerate(text)], 40)
    assert (train.ids["student"] != FINE.pad).mean() > 0.95


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz", ".bz2"])
def test_compressed_corpora_read_alike(tmp_path: Path, suffix: str) -> None:
    import bz2
    import gzip
    import lzma

    pack = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress, ".bz2": bz2.compress}[suffix]
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(pack("first line\n\n  second é \n".encode()))
    assert list(Corpus.find(path).paragraphs()) == ["first line", "second é"]


def test_unreadable_corpora_say_where(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(DataError, match=r"latin\.txt, line 2: not UTF-8"):
        list(Corpus(path).paragraphs())
    broken = tmp_path / "broken.xz"
    broken.write_bytes(b"this is not xz")
    with pytest.raises(DataError, match=r"broken\.xz.*cannot be read"):
        Corpus.find(broken)
