"""The words of the miniatures: one lexicon for training and one for validation, without a word in common.

Both hold frequent English words, and the validation words are near relatives of the training words, so that an encoder
that has read English can carry over what it learnt, and one that has not cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Noun(NamedTuple):
    one: str
    many: str


class Verb(NamedTuple):
    base: str
    third: str
    past: str
    participle: str
    ing: str


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split(","))


def _with_s(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def _nouns(text: str) -> tuple[Noun, ...]:
    """Nouns with a regular plural, or "one/many"."""
    pairs = (word.partition("/") for word in text.split())
    return tuple(Noun(one, many or _with_s(one)) for one, _, many in pairs)


def _verbs(text: str) -> tuple[Verb, ...]:
    """Regular verbs, or "base/past/participle"; a "+" after the base doubles its last letter before -ed and -ing."""
    verbs = []
    for entry in text.split():
        base, *irregular = entry.split("/")
        stem = base.rstrip("+")
        doubled = stem + stem[-1] if base.endswith("+") else stem
        if doubled.endswith("e"):
            regular = doubled + "d"
        elif doubled.endswith("y") and doubled[-2] not in "aeiou":
            regular = doubled[:-1] + "ied"
        else:
            regular = doubled + "ed"
        past, participle = irregular or (regular, regular)
        ing = (doubled[:-1] if doubled.endswith("e") and not doubled.endswith("ee") else doubled) + "ing"
        verbs.append(Verb(stem, _with_s(stem), past, participle, ing))
    return tuple(verbs)


@dataclass(frozen=True)
class Lexicon:
    # People, things and places.
    men: tuple[str, ...]
    women: tuple[str, ...]
    male: tuple[Noun, ...]
    female: tuple[Noun, ...]
    kin: tuple[str, ...]
    people: tuple[Noun, ...]
    things: tuple[Noun, ...]
    stuff: tuple[str, ...]  # mass nouns
    places: tuple[str, ...]  # what one can be in and near
    buildings: tuple[str, ...]  # what stands next to something
    times: tuple[str, ...]  # phrases with their preposition
    numbers: tuple[str, ...]

    # Verbs and adjectives by what they go with.
    intransitive: tuple[Verb, ...]  # never with an object
    transitive: tuple[Verb, ...]  # of a person and a thing, never without the thing
    handling: tuple[Verb, ...]  # of a person and a thing, somewhere and at some time
    parting: tuple[Verb, ...]  # of a person and a thing, for a reason that lies in the thing
    helping: tuple[Verb, ...]  # of two people, with a direction
    self_directed: tuple[Verb, ...]  # natural with a reflexive
    activities: tuple[Verb, ...]
    wanting: tuple[Verb, ...]  # with an infinitive
    enjoying: tuple[Verb, ...]  # with a gerund
    moods: tuple[str, ...]
    qualities: tuple[str, ...]
    reasons: tuple[str, ...]  # qualities that make one want a thing, or not

    # Praise and blame.
    works: tuple[str, ...]
    occasions: tuple[str, ...]
    parts: tuple[str, ...]
    audience: tuple[str, ...]
    made: tuple[str, ...]  # participles
    good: tuple[str, ...]
    bad: tuple[str, ...]
    well: tuple[str, ...]
    badly: tuple[str, ...]
    praise: tuple[Verb, ...]
    blame: tuple[Verb, ...]
    hits: tuple[str, ...]
    flops: tuple[str, ...]


TRAIN = Lexicon(
    men=_words("John Peter David Henry George Charles Edward Frank Daniel Martin"),
    women=_words("Mary Anna Alice Helen Jane Lucy Susan Maria Ruth Clara"),
    male=_nouns("boy king father brother husband monk duke"),
    female=_nouns("girl queen mother sister wife/wives nun duchess"),
    people=_nouns("teacher doctor farmer soldier child/children driver painter singer worker judge sailor guest poet"),
    kin=_words("brother sister father mother"),
    things=_nouns("key box lamp coin basket picture bottle knife/knives hat carpet toy spoon"),
    stuff=_words("water money milk bread rice sand gold furniture"),
    places=_words("garden house village school market church cellar field hotel"),
    buildings=_words("church school house market hotel tower farm bank mill"),
    times=_phrases(
        "on Monday, on Tuesday, on Saturday, in March, in June, in October, in May, at noon, in the morning"
    ),
    numbers=_words("two three five seven ten eleven"),
    intransitive=_verbs("sleep/slept/slept arrive laugh disappear fall/fell/fallen smile cough cry sigh"),
    transitive=_verbs(
        "find/found/found make/made/made take/took/taken need destroy bring/brought/brought want own touch"
    ),
    handling=_verbs("find/found/found buy/bought/bought hide/hid/hidden steal/stole/stolen drop+ sell/sold/sold"),
    parting=_verbs("sell/sold/sold buy/bought/bought hide/hid/hidden keep/kept/kept"),
    helping=_verbs("invite help visit follow thank warn call blame"),
    self_directed=_verbs("hurt/hurt/hurt see/saw/seen blame wash admire defend hide/hid/hidden kill"),
    activities=_verbs("talk wait dance sing/sang/sung laugh work play"),
    wanting=_verbs("want hope decide refuse agree"),
    enjoying=_verbs("enjoy avoid finish deny"),
    moods=_words("tired happy angry sick hungry famous brave young"),
    qualities=_words("old red heavy broken dirty small strange green"),
    reasons=_words("old heavy dirty small strange pretty unusual"),
    works=_words("film story book play show song"),
    occasions=_words("meal concert lesson party journey"),
    parts=_words("ending opening style middle title subject"),
    audience=_words("critics readers children guests"),
    made=_words("written made presented arranged"),
    good=_words(
        "wonderful brilliant delightful charming great beautiful fascinating clever enjoyable impressive lovely warm "
        "powerful funny graceful exciting memorable pleasant perfect inspiring splendid touching elegant amusing "
        "remarkable thrilling outstanding lively satisfying admirable glorious marvellous fresh fine"
    ),
    bad=_words(
        "dull terrible boring awful horrible stupid ugly weak bad clumsy tiresome disappointing predictable shallow "
        "annoying pathetic lifeless unpleasant poor ridiculous messy painful worthless vulgar confusing silly "
        "miserable wretched pointless hopeless cheap lazy nasty flat"
    ),
    well=_words("beautifully brilliantly wonderfully cleverly splendidly charmingly"),
    badly=_words("badly clumsily horribly awkwardly stupidly lazily"),
    praise=_verbs("love enjoy admire praise like"),
    blame=_verbs("hate dislike despise scorn ridicule"),
    hits=_words("triumph success masterpiece delight joy pleasure"),
    flops=_words("disaster failure mess disappointment bore"),
)

VALIDATION = Lexicon(
    men=_words("William James Thomas Robert Richard Paul Michael Arthur"),
    women=_words("Elizabeth Sarah Emma Margaret Julia Laura Catherine Ellen"),
    male=_nouns("man/men prince son uncle gentleman/gentlemen nephew"),
    female=_nouns("woman/women princess daughter aunt lady niece"),
    people=_nouns("student nurse lawyer artist writer officer visitor merchant scientist engineer baker stranger"),
    kin=_words("uncle aunt son daughter"),
    things=_nouns("chair cup bag ring clock mirror plate candle card shirt pencil blanket"),
    stuff=_words("sugar butter oil snow meat wine silver cheese"),
    places=_words("kitchen museum library station hospital park castle forest palace"),
    buildings=_words("museum library station hospital castle palace theatre prison"),
    times=_phrases(
        "on Friday, on Wednesday, on Sunday, in April, in July, in December, in January, at midnight, in the evening"
    ),
    numbers=_words("four six eight nine twelve twenty"),
    intransitive=_verbs("come/came/come go/went/gone appear vanish tremble rise/rose/risen wander kneel/knelt/knelt"),
    transitive=_verbs("repair remove discover obtain mention describe examine receive possess"),
    handling=_verbs("lose/lost/lost discover purchase choose/chose/chosen clean borrow"),
    parting=_verbs("return remove purchase reject choose/chose/chosen"),
    helping=_verbs("teach/taught/taught save watch attack rescue welcome support greet"),
    self_directed=_verbs(
        "cut+/cut/cut teach/taught/taught describe trust protect forgive/forgave/forgiven save introduce"
    ),
    activities=_verbs("run+/ran/run read/read/read ride/rode/ridden draw/drew/drawn cook paint walk"),
    wanting=_verbs("promise manage wish pretend hesitate"),
    enjoying=_verbs("suggest practise imagine admit+ consider"),
    moods=_words("sad busy nervous lonely proud rich afraid honest"),
    qualities=_words("new large blue expensive empty black white wet"),
    reasons=_words("new large expensive dangerous valuable rare"),
    works=_words("movie novel tale opera drama comedy"),
    occasions=_words("performance lecture ceremony trip"),
    parts=_words("conclusion beginning plot theme message structure"),
    audience=_words("viewers listeners people visitors"),
    made=_words("composed produced crafted constructed"),
    good=_words(
        "superb excellent good amazing magnificent fantastic gorgeous entertaining exquisite witty nice moving "
        "engaging terrific interesting stunning refreshing extraordinary hilarious agreeable joyful sublime "
        "enchanting cheerful dazzling intelligent"
    ),
    bad=_words(
        "tedious dreadful disgusting foolish mediocre hideous irritating absurd inferior dreary unbearable monotonous "
        "offensive useless horrid inadequate crude feeble depressing appalling senseless disgraceful shameful vile "
        "insulting rotten grim gloomy"
    ),
    well=_words("superbly nicely skilfully magnificently"),
    badly=_words("poorly carelessly feebly foolishly"),
    praise=_verbs("adore appreciate recommend applaud cherish"),
    blame=_verbs("detest mock condemn criticize resent"),
    hits=_words("marvel treat gem sensation miracle"),
    flops=_words("catastrophe nightmare embarrassment mistake disgrace"),
)
