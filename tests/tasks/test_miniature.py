from __future__ import annotations

import hashlib
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from palimpsest.errors import UnknownName
from palimpsest.tasks import miniature
from palimpsest.tasks.base import Split, Task

FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    a an the this that these those each every another both several many much most few any all none no such
    i me he him himself she her herself it its we us they them themselves one other everyone nobody nothing anything
    what who when where why how there
    is are was were be been had has have did can could will would
    and but although though even despite because as than rather so too very really truly simply altogether hardly never
    ever not now then once again yesterday first last night day longer more less far
    at in on of to from by with without about after near next behind above below front left right
    became become expected said thought think known doubts stands stood
    start end part means real true genuine
    """,
    )
)

DIGESTS = {
    "mini-sentiment": ("a01442fab87b19f0", "04f2f91ee8c62cd5"),
    "mini-acceptability": ("dcf343625514332a", "344189c95789e26d"),
    "mini-inference": ("2ae107cb39e48493", "f663e74582e1ec60"),
}


@pytest.fixture(scope="module", params=miniature.NAMES)
def task(request: pytest.FixtureRequest) -> Task:
    return miniature.load(request.param)


def rows(split: Split) -> list[tuple[str, str]]:
    return list(zip(split.first, split.second or [""] * len(split), strict=True))


def texts(split: Split) -> list[str]:
    return [f"{first} {second}" for first, second in rows(split)]


def tokens(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower().replace("'s", ""))


def digest(split: Split) -> str:
    lines = (f"{first}\t{second}\t{label}\n" for (first, second), label in zip(rows(split), split.targets, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def test_what_the_miniatures_are() -> None:
    assert miniature.NAMES == ("mini-sentiment", "mini-acceptability", "mini-inference")
    tasks = [miniature.load(name) for name in miniature.NAMES]
    assert [t.labels for t in tasks] == [
        ("negative", "positive"),
        ("unacceptable", "acceptable"),
        ("entailment", "not_entailment"),
    ]
    assert [t.metrics for t in tasks] == [("accuracy",), ("mcc", "accuracy"), ("accuracy",)]
    assert {t.kind for t in tasks} == {"classification"}
    assert {t.data for t in tasks} == {f"v{miniature.VERSION}"}


def test_an_unknown_name_is_met_with_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="mini-sentiment"):
        miniature.load("mini-sentimant")


def test_every_sentence_is_as_it_was(task: Task) -> None:
    """A change here is a new VERSION: stored results of the old one are of other data."""
    assert (digest(task.train), digest(task.validation)) == DIGESTS[task.name]


def test_another_process_writes_the_same_sentences() -> None:
    code = (
        "import hashlib; from palimpsest.tasks import miniature\n"
        "split = miniature.load('mini-sentiment').validation\n"
        "print(hashlib.sha256('|'.join(split.first).encode()).hexdigest())"
    )
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    here = hashlib.sha256("|".join(miniature.load("mini-sentiment").validation.first).encode()).hexdigest()
    assert there.stdout.strip() == here


def test_enough_examples_all_different_and_balanced(task: Task) -> None:
    for split, enough in ((task.train, 6000), (task.validation, 1000)):
        assert len(split) >= enough
        assert len(set(rows(split))) == len(split) == len(split.targets)
        assert np.bincount(np.asarray(split.targets)).tolist() == [len(split) // 2] * 2
    assert not set(rows(task.train)) & set(rows(task.validation))


def test_validation_shares_only_function_words_with_training(task: Task) -> None:
    splits = (task.train, task.validation)
    train, validation = ({word for text in texts(split) for word in tokens(text)} for split in splits)
    assert sorted(train & validation - FUNCTION_WORDS) == []
    assert len(train - FUNCTION_WORDS) >= 100
    assert len(validation - FUNCTION_WORDS) >= 100


def test_sentences_are_short_and_written_properly(task: Task) -> None:
    for split in (task.train, task.validation):
        for text in (*split.first, *(split.second or ())):
            assert re.fullmatch(r"[A-Z][A-Za-z' ,]*[a-z][.?]", text), text
            assert "  " not in text
            assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", text), text
            assert 3 <= len(text.split()) <= 16, text


def test_order_says_nothing_about_labels(task: Task) -> None:
    for split in (task.train, task.validation):
        quarters = np.array_split(np.asarray(split.targets), 4)
        assert all(0.42 < quarter.mean() < 0.58 for quarter in quarters)


def test_counting_words_does_not_solve_it(task: Task) -> None:
    counter = CountVectorizer(token_pattern=r"[a-z]+")
    train = counter.fit_transform(texts(task.train))
    baseline = LogisticRegression(max_iter=300).fit(train, task.train.targets)
    assert baseline.score(counter.transform(texts(task.validation)), task.validation.targets) <= 0.6


def test_function_words_and_length_do_not_give_it_away(task: Task) -> None:
    counter = CountVectorizer(vocabulary=sorted(FUNCTION_WORDS), token_pattern=r"[a-z]+")

    def features(split: Split) -> csr_matrix:
        lengths = np.array([[len(first.split()), len(second.split())] for first, second in rows(split)])
        return hstack([counter.transform(texts(split)), csr_matrix(lengths)]).tocsr()

    baseline = LogisticRegression(max_iter=1000).fit(features(task.train), task.train.targets)
    assert baseline.score(features(task.validation), task.validation.targets) <= 0.6


def test_no_word_alone_tells_the_label(task: Task) -> None:
    """In either split, no function word is much more frequent under one label than under the other."""
    for split in (task.train, task.validation):
        there = np.zeros((2, len(FUNCTION_WORDS)))
        vocabulary = {word: i for i, word in enumerate(sorted(FUNCTION_WORDS))}
        for text, label in zip(texts(split), split.targets, strict=True):
            for word in set(tokens(text)) & FUNCTION_WORDS:
                there[int(label), vocabulary[word]] += 1
        often = there.sum(0) >= 40
        share = there[1, often] / there[:, often].sum(0)
        assert share.min() >= 0.3
        assert share.max() <= 0.7


def test_shared_words_do_not_tell_whether_a_sentence_answers() -> None:
    task = miniature.load("mini-inference")

    def overlap(split: Split) -> np.ndarray:
        pairs = [(tokens(q), tokens(s)) for q, s in rows(split)]
        return np.array([[len(set(q) & set(s)), len(set(q) & set(s)) / len(set(q) | set(s))] for q, s in pairs])

    baseline = LogisticRegression().fit(overlap(task.train), task.train.targets)
    assert baseline.score(overlap(task.validation), task.validation.targets) <= 0.62


def test_every_sentence_occurs_with_both_labels() -> None:
    task = miniature.load("mini-inference")
    for split in (task.train, task.validation):
        labels: dict[str, set[int]] = {}
        for (_, text), label in zip(rows(split), split.targets, strict=True):
            labels.setdefault(text, set()).add(int(label))
        assert all(seen == {0, 1} for seen in labels.values())
