"""mini-acceptability: is this a sentence of English?

Minimal pairs. Whatever makes a sentence wrong makes another one right: each word form occurs as often in acceptable
sentences as in unacceptable ones, and so does each length.
"""

from __future__ import annotations

from palimpsest.tasks.miniature.grammar import Block, Construction, Dice, Row, question, sentence
from palimpsest.tasks.miniature.lexicon import Lexicon, Noun, Verb

LABELS = ("unacceptable", "acceptable")

_ADVERBS = ("yesterday", "again", "last night", "at last")
_PRONOUNS = (("he", "him"), ("she", "her"), ("they", "them"), ("we", "us"), ("I", "me"))


def _pair(good: str, bad: str) -> Block:
    return Row(sentence(good), None, 1), Row(sentence(bad), None, 0)


def _questions(good: str, bad: str) -> Block:
    return Row(question(good), None, 1), Row(question(bad), None, 0)


def _name(dice: Dice, words: Lexicon) -> str:
    return dice.pick(words.women if dice.flip() else words.men)


def _someone(dice: Dice, words: Lexicon, *, maybe_many: bool = False) -> str:
    """A name or a person; with `maybe_many` also several persons."""
    if dice.flip():
        return _name(dice, words)
    return f"the {dice.pick(words.people)[maybe_many and dice.flip()]}"


def _predicates(dice: Dice, words: Lexicon) -> tuple[str, str]:
    """The same predicate in the singular and in the plural."""
    verb, mood = dice.pick(words.intransitive), dice.pick(words.moods)
    return dice.pick(
        (
            (f"is {mood}", f"are {mood}"),
            (f"was {mood}", f"were {mood}"),
            (f"has {verb.participle}", f"have {verb.participle}"),
            (f"{verb.third} every day", f"{verb.base} every day"),
        )
    )


def _agree(dice: Dice, words: Lexicon, subject: Noun, rest: str) -> Block:
    plural = dice.flip()
    predicates = _predicates(dice, words)
    head = f"the {subject[plural]} {rest}"
    return _pair(f"{head} {predicates[plural]}", f"{head} {predicates[not plural]}")


def agreement(dice: Dice, words: Lexicon) -> Block:
    """Subject and verb, with another noun between them."""
    person, other = dice.pick_two(words.people)
    between = dice.pick(
        (
            f"near the {other[dice.flip()]}",
            f"with the {dice.pick(words.things)[dice.flip()]}",
            f"in the {dice.pick(words.places)}",
            f"behind the {other[dice.flip()]}",
        )
    )
    return _agree(dice, words, person, between)


def relative(dice: Dice, words: Lexicon) -> Block:
    """Subject and verb, with a relative clause between them."""
    person, other = dice.pick_two(words.people)
    verb, noun = dice.pick(words.helping).past, other[dice.flip()]
    between = dice.pick((f"who {verb} the {noun}", f"that the {noun} {verb}", f"that {_name(dice, words)} {verb}"))
    return _agree(dice, words, person, between)


def reflexive(dice: Dice, words: Lexicon) -> Block:
    """A reflexive and its antecedent, with somebody else named as well."""
    subjects = (
        (f"the {dice.pick(words.male).one}", "himself"),
        (f"the {dice.pick(words.female).one}", "herself"),
        (f"the {dice.pick((*words.male, *words.female, *words.people)).many}", "themselves"),
    )
    names = ((dice.pick(words.men), "himself"), (dice.pick(words.women), "herself"))
    verb = dice.pick(words.self_directed).past
    (who, right), (other, wrong) = dice.pick_two(names if dice.flip() else subjects)
    frame = dice.pick(
        (
            f"{who} {verb}",
            f"{who} next to {other} {verb}",
            f"{other} said that {who} {verb}",
            f"without {other}, {who} {verb}",
            f"{who}, but not {other}, {verb}",
        )
    )
    return _pair(f"{frame} {right}", f"{frame} {wrong}")


def determiner(dice: Dice, words: Lexicon) -> Block:
    """Determiners and the number of their nouns."""
    noun, quality = dice.pick(words.things), dice.pick(("", dice.pick(words.qualities)))
    singular = dice.pick(("this", "that", "each", "every", "another"))
    plural = dice.pick(("these", "those", "several", "many", "both"))
    subject = _someone(dice, words)
    frame = f"{subject} {dice.pick(words.handling).past} {{}} {quality} {{}} in the {dice.pick(words.places)}"
    return (
        *_pair(frame.format(singular, noun.one), frame.format(singular, noun.many)),
        *_pair(frame.format(plural, noun.many), frame.format(plural, noun.one)),
    )


def amount(dice: Dice, words: Lexicon) -> Block:
    """Things are many, stuff is much."""
    stuff, things, place = dice.pick(words.stuff), dice.pick(words.things).many, dice.pick(words.places)
    frame = dice.pick(
        (
            "there {be} too {many} {noun} in the {place}",
            "there {be} not {many} {noun} left in the {place}",
            "{name} had so {many} {noun} in the {place}",
            "{name} did not have {many} {noun} in the {place}",
        )
    )
    slots = {"name": _name(dice, words), "place": place}

    def write(be: str, many: str, noun: str) -> str:
        return frame.format(be=be, many=many, noun=noun, **slots)

    return (
        *_pair(write("was", "much", stuff), write("was", "many", stuff)),
        *_pair(write("were", "many", things), write("were", "much", things)),
    )


def transitivity(dice: Dice, words: Lexicon) -> Block:
    """Verbs that need an object, and verbs that do not bear one."""
    needs, bears = dice.pick(words.transitive).past, dice.pick(words.intransitive).past
    who = _someone(dice, words)
    thing, adverb = dice.pick(words.things)[dice.flip()], dice.pick(_ADVERBS)
    return (
        *_pair(f"{who} {needs} the {thing} {adverb}", f"{who} {bears} the {thing} {adverb}"),
        *_pair(f"{who} {bears} {adverb}", f"{who} {needs} {adverb}"),
    )


def order(dice: Dice, words: Lexicon) -> Block:
    """The same words, two of them exchanged."""
    name, person, place = _name(dice, words), dice.pick(words.people)[dice.flip()], dice.pick(words.places)
    thing, quality, mood = dice.pick(words.things).one, dice.pick(words.qualities), dice.pick(words.moods)
    verb, adverb = dice.pick(words.handling), dice.pick(_ADVERBS)
    return _pair(
        *dice.pick(
            (
                (f"the {quality} {thing} was in the {place}", f"the {thing} {quality} was in the {place}"),
                (f"{name}'s {quality} {thing} was in the {place}", f"{name}'s {thing} {quality} was in the {place}"),
                (f"the {person} {verb.past} the {thing} {adverb}", f"the {person} the {thing} {verb.past} {adverb}"),
                (f"{name} {verb.past} the {thing} {adverb}", f"{name} {verb.past} {adverb} the {thing}"),
                (f"{name} {verb.past} the {thing} in the {place}", f"{name} {verb.past} the {thing} the {place} in"),
                (f"{name} has never been so {mood}", f"{name} has never been {mood} so"),
                (f"{name} has {verb.participle} the {thing}", f"{name} {verb.participle} has the {thing}"),
            )
        )
    )


def questions(dice: Dice, words: Lexicon) -> Block:
    """The auxiliary comes before the subject, and only the auxiliary."""
    who = _someone(dice, words, maybe_many=True)
    one = _someone(dice, words)
    verb, act = dice.pick(words.handling), dice.pick(words.intransitive)
    thing, mood, place = dice.pick(words.things)[dice.flip()], dice.pick(words.moods), dice.pick(words.places)
    why = dice.pick(("why", "when", "where"))
    return _questions(
        *dice.pick(
            (
                (f"{why} did {who} {act.base}", f"{why} {who} did {act.base}"),
                (f"{why} will {who} {verb.base} the {thing}", f"{why} {who} will {verb.base} the {thing}"),
                (f"why was {one} so {mood}", f"why {one} was so {mood}"),
                (f"has {one} {verb.participle} the {thing}", f"has {verb.participle} {one} the {thing}"),
                (f"did {who} {verb.base} the {thing}", f"did {verb.base} {who} the {thing}"),
                (f"what did {who} {verb.base} in the {place}", f"what did {verb.base} {who} in the {place}"),
            )
        )
    )


def auxiliary(dice: Dice, words: Lexicon) -> Block:
    """Auxiliaries and the verb form that follows them."""

    def forms(verb: Verb) -> tuple[str, str, tuple[str, ...]]:
        return dice.pick(
            (
                ("did not", verb.base, (verb.past, verb.ing)),
                ("will", verb.base, (verb.past, verb.ing)),
                ("can", verb.base, (verb.past, verb.ing)),
                ("has", verb.participle, (verb.base, verb.ing)),
                ("was", verb.ing, (verb.base,)),
            )
        )

    who = _someone(dice, words)
    if dice.flip():
        verb, rest = dice.pick(words.handling), f"the {dice.pick(words.things)[dice.flip()]}"
    else:
        verb, rest = dice.pick(words.activities), f"in the {dice.pick(words.places)}"
    aux, right, others = forms(verb)
    wrong = dice.pick([form for form in others if form != right])
    return _pair(f"{who} {aux} {right} {rest}", f"{who} {aux} {wrong} {rest}")


def complement(dice: Dice, words: Lexicon) -> Block:
    """One wants to do what one enjoys doing."""
    want, enjoy = dice.pick(words.wanting).past, dice.pick(words.enjoying).past
    who, act = _someone(dice, words, maybe_many=True), dice.pick(words.activities)
    where = f"in the {dice.pick(words.places)}"
    return (
        *_pair(f"{who} {want} to {act.base} {where}", f"{who} {want} {act.ing} {where}"),
        *_pair(f"{who} {enjoy} {act.ing} {where}", f"{who} {enjoy} to {act.base} {where}"),
    )


def case(dice: Dice, words: Lexicon) -> Block:
    """Pronouns as subjects and as objects."""
    subject, object_ = dice.pick(_PRONOUNS)
    person, verb = dice.pick(words.people)[dice.flip()], dice.pick(words.helping).past
    where = f"in the {dice.pick(words.places)}"
    return (
        *_pair(f"{subject} {verb} the {person} {where}", f"{object_} {verb} the {person} {where}"),
        *_pair(f"the {person} {verb} {object_} {where}", f"the {person} {verb} {subject} {where}"),
    )


def gap(dice: Dice, words: Lexicon) -> Block:
    """Where there is a "what" there is a gap, and nowhere else."""
    who = _someone(dice, words, maybe_many=True)
    verb, thing, adverb = dice.pick(words.transitive).base, dice.pick(words.things)[dice.flip()], dice.pick(_ADVERBS)
    return (
        *_questions(f"what did {who} {verb} {adverb}", f"what did {who} {verb} the {thing} {adverb}"),
        *_questions(f"did {who} {verb} the {thing} {adverb}", f"did {who} {verb} {adverb}"),
    )


CONSTRUCTIONS: dict[str, Construction] = {
    c.__name__: c
    for c in (
        agreement,
        relative,
        reflexive,
        determiner,
        amount,
        transitivity,
        order,
        questions,
        auxiliary,
        complement,
        case,
        gap,
    )
}
