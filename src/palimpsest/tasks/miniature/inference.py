"""mini-inference: does the sentence answer the question?

Blocks of four rows: two questions and two sentences of which each answers one, or four questions to a sentence that
answers two. So each sentence occurs with both labels, and only question and sentence together tell. A sentence that
does not answer shares as many words with the question: what it lacks is the place, time, person, number or reason that
is asked for, or it is about somebody or something else.
"""

from __future__ import annotations

from palimpsest.tasks.miniature.grammar import Block, Construction, Dice, Row, question, sentence
from palimpsest.tasks.miniature.lexicon import Lexicon

LABELS = ("entailment", "not_entailment")


def _cross(questions: tuple[str, str], sentences: tuple[str, str]) -> Block:
    """Either question with either sentence; those in the same position belong together."""
    return tuple(
        Row(question(q), sentence(s), int(i != j)) for i, q in enumerate(questions) for j, s in enumerate(sentences)
    )


def _people(dice: Dice, words: Lexicon) -> tuple[str, str]:
    return dice.pick_two((*words.men, *words.women))


def _place(dice: Dice, words: Lexicon) -> str:
    return f"in the {dice.pick(words.places)}"


def place_or_time(dice: Dice, words: Lexicon) -> Block:
    (who, other), verb, thing = _people(dice, words), dice.pick(words.handling), dice.pick(words.things).one
    doers = dice.pick((who, f"{who} and {other}"))
    event, told = f"did {who} {verb.base} the {thing}", f"{doers} {verb.past} the {thing}"
    return _cross(
        (f"where {event}", f"when {event}"),
        (f"{told} {_place(dice, words)}", f"{told} {dice.pick(words.times)}"),
    )


def company(dice: Dice, words: Lexicon) -> Block:
    """With whom, or where, or when."""
    (who, other), verb = _people(dice, words), dice.pick(words.activities)
    place, time = _place(dice, words), dice.pick(words.times)
    asked, answer, rest = dice.pick((("where", place, time), ("when", time, place)))
    return _cross(
        (f"who did {who} {verb.base} with", f"{asked} did {who} {verb.base}"),
        (f"{who} {verb.past} with {other} {rest}", f"{who} {verb.past} {answer}"),
    )


def roles(dice: Dice, words: Lexicon) -> Block:
    """Who did it to whom."""
    (who, other), verb = _people(dice, words), dice.pick(words.helping)
    when = dice.pick((_place(dice, words), dice.pick(words.times)))
    return _cross(
        (f"who did {who} {verb.base} {when}", f"who {verb.past} {who} {when}"),
        (f"{who} {verb.past} {other} {when}", f"{other} {verb.past} {who} {when}"),
    )


def predicates(dice: Dice, words: Lexicon) -> Block:
    """What was done: the same person, thing, place, time."""
    who, thing = dice.pick((*words.men, *words.women)), dice.pick(words.things).one
    one, other = dice.pick_two(words.handling)
    asked, answer = dice.pick((("where", _place(dice, words)), ("when", dice.pick(words.times))))
    return _cross(
        (f"{asked} did {who} {one.base} the {thing}", f"{asked} did {who} {other.base} the {thing}"),
        (f"{who} {one.past} the {thing} {answer}", f"{who} {other.past} the {thing} {answer}"),
    )


def relatives(dice: Dice, words: Lexicon) -> Block:
    """Who did it: one person, or that person's relative."""
    who, verb, thing = dice.pick((*words.men, *words.women)), dice.pick(words.handling), dice.pick(words.things).one
    kin = f"{who}'s {dice.pick(words.kin)}"
    asked, answer = dice.pick((("where", _place(dice, words)), ("when", dice.pick(words.times))))
    return _cross(
        (f"{asked} did {who} {verb.base} the {thing}", f"{asked} did {kin} {verb.base} the {thing}"),
        (f"{who} {verb.past} the {thing} {answer}", f"{kin} {verb.past} the {thing} {answer}"),
    )


def two_events(dice: Dice, words: Lexicon) -> Block:
    """A place is told of one event, a time of the other."""
    (who, other), (thing, ware) = _people(dice, words), dice.pick_two(words.things)
    verb, deed = dice.pick_two(words.handling)
    place, time = _place(dice, words), dice.pick(words.times)
    asked, unasked = ("where", "when") if dice.flip() else ("when", "where")
    first, second = (place, time) if asked == "where" else (time, place)
    told = sentence(f"{who} {verb.past} the {thing.one} {first}, and {other} {deed.past} the {ware.one} {second}")
    return tuple(
        Row(question(f"{word} did {person} {act.base} the {noun.one}"), told, label)
        for person, act, noun, words_and_labels in (
            (who, verb, thing, ((asked, 0), (unasked, 1))),
            (other, deed, ware, ((unasked, 0), (asked, 1))),
        )
        for word, label in words_and_labels
    )


def passive(dice: Dice, words: Lexicon) -> Block:
    """By whom, or where, or when."""
    who, verb, thing = dice.pick((*words.men, *words.women)), dice.pick(words.handling), dice.pick(words.things).one
    asked, answer = dice.pick((("where", _place(dice, words)), ("when", dice.pick(words.times))))
    return _cross(
        (f"who {verb.past} the {thing}", f"{asked} was the {thing} {verb.participle}"),
        (f"the {thing} was {verb.participle} by {who}", f"the {thing} was {verb.participle} {answer}"),
    )


def reason(dice: Dice, words: Lexicon) -> Block:
    who, verb, thing = dice.pick((*words.men, *words.women)), dice.pick(words.parting), dice.pick(words.things).one
    asked, answer = dice.pick((("where", _place(dice, words)), ("when", dice.pick(words.times))))
    because = f"because it was {dice.pick(('so', 'very'))} {dice.pick(words.reasons)}"
    event, told = f"did {who} {verb.base} the {thing}", f"{who} {verb.past} the {thing}"
    return _cross((f"why {event}", f"{asked} {event}"), (f"{told} {because}", f"{told} {answer}"))


def number(dice: Dice, words: Lexicon) -> Block:
    who, verb, things = dice.pick((*words.men, *words.women)), dice.pick(words.handling), dice.pick(words.things).many
    asked, answer = dice.pick((("where", _place(dice, words)), ("when", dice.pick(words.times))))
    return _cross(
        (f"how many {things} did {who} {verb.base}", f"{asked} did {who} {verb.base} the {things}"),
        (f"{who} {verb.past} {dice.pick(words.numbers)} {things}", f"{who} {verb.past} the {things} {answer}"),
    )


def location(dice: Dice, words: Lexicon) -> Block:
    """Which of two buildings stands where."""
    one, other = dice.pick_two(words.buildings)
    near = dice.pick(("behind", "in front of", "above", "to the left of", "to the right of", "below"))
    stands = dice.pick(("stands", "stood"))
    return _cross(
        (f"what {stands} {near} the {one}", f"what {stands} {near} the {other}"),
        (f"the {other} {stands} {near} the {one}", f"the {one} {stands} {near} the {other}"),
    )


def person_or_thing(dice: Dice, words: Lexicon) -> Block:
    who, verb, deed = dice.pick((*words.men, *words.women)), dice.pick(words.handling), dice.pick(words.helping)
    thing, person = dice.pick(words.things).one, dice.pick(words.people).one
    when = dice.pick((_place(dice, words), dice.pick(words.times)))
    return _cross(
        (f"what did {who} {verb.base} {when}", f"who did {who} {deed.base} {when}"),
        (f"{who} {verb.past} a {thing} {when}", f"{who} {deed.past} a {person} {when}"),
    )


CONSTRUCTIONS: dict[str, Construction] = {
    c.__name__: c
    for c in (
        place_or_time,
        company,
        roles,
        predicates,
        relatives,
        two_events,
        passive,
        reason,
        number,
        location,
        person_or_thing,
    )
}
