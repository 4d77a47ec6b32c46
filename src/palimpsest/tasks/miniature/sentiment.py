"""mini-sentiment: is the verdict on a work or an occasion good or bad?

Every construction draws a word of praise `x` and one of blame `y`, writes its sentence, and writes it again with the
two exchanged. The pair shares all other words, and where there is a second opinion even all words: only who says
what about what, and what is denied, tell the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palimpsest.tasks.miniature.grammar import Block, Construction, Dice, Row, sentence
from palimpsest.tasks.miniature.lexicon import Lexicon

LABELS = ("negative", "positive")

_INTENSIFIERS = ("", "really", "truly", "simply", "altogether")
_DENIALS = ("not", "never", "hardly", "anything but", "far from", "by no means", "not at all")


def _mirror(write: Callable[[str, str], str], praise: str, blame: str, *, denied: bool = False) -> Block:
    """The sentence and its mirror image; `write` gets the word that decides first. Denied: the word turns around."""
    one, other = write(praise, blame), write(blame, praise)
    return Row(sentence(one), None, int(not denied)), Row(sentence(other), None, int(denied))


def _adjectives(dice: Dice, words: Lexicon) -> tuple[str, str]:
    return dice.pick(words.good), dice.pick(words.bad)


def _subject(dice: Dice, words: Lexicon) -> str:
    return dice.pick((*words.works, *words.occasions))


def _frame(dice: Dice, frames: Sequence[str], **slots: str) -> Callable[[str, str], str]:
    frame = dice.pick(frames)
    return lambda x, y: frame.format(x=x, y=y, **slots)


def statement(dice: Dice, words: Lexicon) -> Block:
    frames = (
        "the {work} was {very} {x}",
        "this is a {very} {x} {work}",
        "{people} thought that the {work} was {very} {x}",
        "it was a {very} {x} {work} from start to end",
    )
    very, people = dice.pick(_INTENSIFIERS), dice.pick(words.audience)
    write = _frame(dice, frames, work=_subject(dice, words), very=very, people=people)
    return _mirror(write, *_adjectives(dice, words))


def negation(dice: Dice, words: Lexicon) -> Block:
    frames = (
        "the {work} was {no} {x}",
        "{people} thought that the {work} was {no} {x}",
        "this {work} is {no} {x}",
        "nothing about the {work} was {x}",
        "there was nothing {x} about the {work}",
    )
    write = _frame(dice, frames, work=_subject(dice, words), no=dice.pick(_DENIALS), people=dice.pick(words.audience))
    return _mirror(write, *_adjectives(dice, words), denied=True)


def emphasis(dice: Dice, words: Lexicon) -> Block:
    """Negative words that deny nothing."""
    frames = (
        "I have never known such a {x} {work}",
        "I have hardly ever known so {x} a {work}",
        "there has never been a {work} as {x} as this one",
        "no other {work} is as {x} as this one",
        "the {work} was never less than {x}",
        "nobody doubts that the {work} was {x}",
    )
    write = _frame(dice, frames, work=_subject(dice, words))
    return _mirror(write, *_adjectives(dice, words))


def contrast(dice: Dice, words: Lexicon) -> Block:
    """The main clause, or what comes after "but", decides."""
    frames = (
        "although the {part} was {y}, the {work} was {x}",
        "the {work} was {x}, although the {part} was {y}",
        "the {part} was {y}, but the {work} was {x}",
        "despite its {y} {part}, the {work} was {x}",
        "the {work} was {x} despite its {y} {part}",
        "even though it had a {y} {part}, this was a {x} {work}",
    )
    write = _frame(dice, frames, work=dice.pick(words.works), part=dice.pick(words.parts))
    return _mirror(write, *_adjectives(dice, words))


def comparison(dice: Dice, words: Lexicon) -> Block:
    frames = (
        "the {work} was more {x} than {y}",
        "the {work} was less {y} than {x}",
        "this {work} is {x} rather than {y}",
        "the {work} was not {y} but {x}",
        "the {work} was not so much {y} as {x}",
        "the {part} of the {work} was more {x} than {y}",
    )
    write = _frame(dice, frames, work=dice.pick(words.works), part=dice.pick(words.parts))
    return _mirror(write, *_adjectives(dice, words))


def expectation(dice: Dice, words: Lexicon) -> Block:
    """What was thought beforehand, or by others, does not count."""
    frames = (
        "I expected a {y} {work}, but it was {x}",
        "the {work} was {x}, although I had expected a {y} one",
        "everyone said that the {work} was {y}, but it was {x}",
        "the {work} could have been {y}, but it was {x}",
        "{people} said that the {work} was {y}, but I thought it was {x}",
        "I thought that the {work} would be {y}, but it was {x}",
    )
    write = _frame(dice, frames, work=_subject(dice, words), people=dice.pick(words.audience))
    return _mirror(write, *_adjectives(dice, words))


def change(dice: Dice, words: Lexicon) -> Block:
    frames = (
        "at first the {work} was {y}, but then it became {x}",
        "the {work} was {y} once, but now it is {x}",
        "the {work} is no longer {y} but {x}",
        "the {work} is {x} now, although it was {y} once",
        "the {work} became {x} after a {y} start",
    )
    write = _frame(dice, frames, work=dice.pick(words.works))
    return _mirror(write, *_adjectives(dice, words))


def opinion(dice: Dice, words: Lexicon) -> Block:
    """Verbs of liking and disliking, of everybody or of nobody."""
    affirmed = (
        "everyone {x} the {work}",
        "most {people} {x} this {work}",
        "I {x} every part of the {work}",
        "all of the {people} {x} the {work} from start to end",
    )
    denied = (
        "nobody {x} the {work}",
        "hardly any {people} {x} this {work}",
        "few {people} {x} the {work}",
        "not one of the {people} {x} this {work}",
        "none of the {people} {x} the {work}",
    )
    deny = dice.flip()
    write = _frame(dice, denied if deny else affirmed, work=_subject(dice, words), people=dice.pick(words.audience))
    return _mirror(write, dice.pick(words.praise).past, dice.pick(words.blame).past, denied=deny)


def verdict(dice: Dice, words: Lexicon) -> Block:
    affirmed = (
        "the {work} was a {very} {x}",
        "the {work} was a {x} rather than a {y}",
        "the {work} could have been a {y}, but it was a {x}",
        "{people} thought that the {work} was a {x}",
        "although {people} said it was a {y}, the {work} was a {x}",
    )
    denied = (
        "the {work} was hardly a {x}",
        "the {work} was anything but a {x}",
        "this {work} is by no means a {x}",
        "{people} did not think that the {work} was a {x}",
    )
    deny = dice.flip()
    slots = {
        "work": _subject(dice, words),
        "people": dice.pick(words.audience),
        "very": dice.pick(("real", "true", "genuine")),
    }
    write = _frame(dice, denied if deny else affirmed, **slots)
    return _mirror(write, dice.pick(words.hits), dice.pick(words.flops), denied=deny)


def manner(dice: Dice, words: Lexicon) -> Block:
    affirmed = (
        "the {work} was {x} {made}",
        "{people} thought that the {work} was {x} {made}",
        "this is a {x} {made} {work}",
        "the {work} was {x} {made}, although {people} said it was {y} {made}",
    )
    denied = ("the {work} was not {x} {made}", "this is by no means a {x} {made} {work}")
    deny = dice.flip()
    slots = {
        "work": dice.pick(words.works),
        "people": dice.pick(words.audience),
        "made": dice.pick(words.made),
    }
    write = _frame(dice, denied if deny else affirmed, **slots)
    return _mirror(write, dice.pick(words.well), dice.pick(words.badly), denied=deny)


CONSTRUCTIONS: dict[str, Construction] = {
    c.__name__: c
    for c in (
        statement,
        negation,
        emphasis,
        contrast,
        comparison,
        expectation,
        change,
        opinion,
        verdict,
        manner,
    )
}
