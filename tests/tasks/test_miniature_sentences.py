"""Sentences of every construction, read one by one and judged: each must be in its split, with this label."""

from __future__ import annotations

import pytest

from palimpsest.tasks import miniature
from palimpsest.tasks.base import Split, Task

TRAIN, VALIDATION = "train", "validation"

SENTIMENT = {
    "statement": [
        (TRAIN, "It was a truly glorious song from start to end.", "positive"),
        (TRAIN, "Children thought that the party was boring.", "negative"),
        (VALIDATION, "People thought that the performance was altogether extraordinary.", "positive"),
        (VALIDATION, "This is an offensive comedy.", "negative"),
    ],
    "negation": [
        (TRAIN, "Nothing about the lesson was great.", "negative"),
        (TRAIN, "There was nothing awful about the film.", "positive"),
        (VALIDATION, "This comedy is far from exquisite.", "negative"),
        (VALIDATION, "Viewers thought that the opera was never mediocre.", "positive"),
    ],
    "emphasis": [
        (TRAIN, "Nobody doubts that the story was impressive.", "positive"),
        (TRAIN, "There has never been a story as tiresome as this one.", "negative"),
        (VALIDATION, "The performance was never less than moving.", "positive"),
        (VALIDATION, "I have never known such a depressing lecture.", "negative"),
    ],
    "contrast": [
        (TRAIN, "The film was beautiful, although the ending was vulgar.", "positive"),
        (TRAIN, "Although the title was funny, the film was boring.", "negative"),
        (VALIDATION, "Despite its crude plot, the tale was sublime.", "positive"),
        (VALIDATION, "Even though it had an amazing message, this was a rotten opera.", "negative"),
    ],
    "comparison": [
        (TRAIN, "The film was less painful than delightful.", "positive"),
        (TRAIN, "This film is awful rather than powerful.", "negative"),
        (VALIDATION, "The drama was not shameful but refreshing.", "positive"),
        (VALIDATION, "The tale was more hideous than stunning.", "negative"),
    ],
    "expectation": [
        (TRAIN, "The concert was lively, although I had expected a weak one.", "positive"),
        (TRAIN, "Everyone said that the book was perfect, but it was silly.", "negative"),
        (VALIDATION, "I expected an absurd trip, but it was fantastic.", "positive"),
        (VALIDATION, "Listeners said that the drama was agreeable, but I thought it was unbearable.", "negative"),
    ],
    "change": [
        (TRAIN, "The book is no longer lifeless but pleasant.", "positive"),
        (TRAIN, "At first the play was memorable, but then it became hopeless.", "negative"),
        (VALIDATION, "The movie was feeble once, but now it is joyful.", "positive"),
        (VALIDATION, "The comedy is dreary now, although it was interesting once.", "negative"),
    ],
    "opinion": [
        (TRAIN, "Few readers liked the story.", "negative"),
        (TRAIN, "All of the guests enjoyed the lesson from start to end.", "positive"),
        (VALIDATION, "Most people recommended this lecture.", "positive"),
        (VALIDATION, "Most visitors detested this movie.", "negative"),
    ],
    "verdict": [
        (TRAIN, "The story was a success rather than a disaster.", "positive"),
        (TRAIN, "The journey was a genuine failure.", "negative"),
        (VALIDATION, "The drama was anything but a nightmare.", "positive"),
        (VALIDATION, "Visitors did not think that the opera was a treat.", "negative"),
    ],
    "manner": [
        (TRAIN, "The show was not horribly made.", "positive"),
        (TRAIN, "This is a lazily made book.", "negative"),
        (VALIDATION, "This is a nicely crafted opera.", "positive"),
        (VALIDATION, "The movie was not skilfully constructed.", "negative"),
    ],
}

ACCEPTABILITY = {
    "agreement": [
        (TRAIN, "The judge behind the guests is angry.", "acceptable"),
        (TRAIN, "The drivers near the guests has fallen.", "unacceptable"),
        (VALIDATION, "The engineer behind the officers wanders every day.", "acceptable"),
        (VALIDATION, "The writer with the bags are sad.", "unacceptable"),
    ],
    "relative": [
        (TRAIN, "The teachers that the doctor helped disappear every day.", "acceptable"),
        (TRAIN, "The child who warned the poet have arrived.", "unacceptable"),
        (VALIDATION, "The student who taught the engineers is rich.", "acceptable"),
        (VALIDATION, "The writer that Michael welcomed have gone.", "unacceptable"),
    ],
    "reflexive": [
        (TRAIN, "Without the brother, the boys hurt themselves.", "acceptable"),
        (TRAIN, "George defended herself.", "unacceptable"),
        (VALIDATION, "Arthur said that Emma introduced herself.", "acceptable"),
        (VALIDATION, "The nephews, but not the lady, cut herself.", "unacceptable"),
    ],
    "determiner": [
        (TRAIN, "The driver dropped these pictures in the market.", "acceptable"),
        (TRAIN, "The worker dropped this knives in the field.", "unacceptable"),
        (VALIDATION, "Paul purchased both pencils in the park.", "acceptable"),
        (VALIDATION, "Julia discovered each new bags in the forest.", "unacceptable"),
    ],
    "amount": [
        (TRAIN, "There was too much furniture in the village.", "acceptable"),
        (TRAIN, "Frank did not have much baskets in the cellar.", "unacceptable"),
        (VALIDATION, "There were too many pencils in the park.", "acceptable"),
        (VALIDATION, "Sarah had so many butter in the forest.", "unacceptable"),
    ],
    "transitivity": [
        (TRAIN, "The teacher laughed yesterday.", "acceptable"),
        (TRAIN, "Frank slept the carpet at last.", "unacceptable"),
        (VALIDATION, "Julia obtained the bags at last.", "acceptable"),
        (VALIDATION, "Paul repaired at last.", "unacceptable"),
    ],
    "order": [
        (TRAIN, "The guests sold the box yesterday.", "acceptable"),
        (TRAIN, "The child the coin sold again.", "unacceptable"),
        (VALIDATION, "The white clock was in the castle.", "acceptable"),
        (VALIDATION, "Ellen chosen has the blanket.", "unacceptable"),
    ],
    "questions": [
        (TRAIN, "Where did the poets disappear?", "acceptable"),
        (TRAIN, "Why the farmer was so angry?", "unacceptable"),
        (VALIDATION, "When will Arthur purchase the chairs?", "acceptable"),
        (VALIDATION, "Has borrowed Catherine the pencil?", "unacceptable"),
    ],
    "auxiliary": [
        (TRAIN, "The farmer can dance in the village.", "acceptable"),
        (TRAIN, "Helen can bought the toy.", "unacceptable"),
        (VALIDATION, "Julia was running in the hospital.", "acceptable"),
        (VALIDATION, "Robert did not discovering the bag.", "unacceptable"),
    ],
    "complement": [
        (TRAIN, "Alice finished dancing in the school.", "acceptable"),
        (TRAIN, "Anna agreed laughing in the garden.", "unacceptable"),
        (VALIDATION, "Ellen managed to walk in the hospital.", "acceptable"),
        (VALIDATION, "Paul considered to run in the kitchen.", "unacceptable"),
    ],
    "case": [
        (TRAIN, "The judges warned us in the church.", "acceptable"),
        (TRAIN, "Her visited the drivers in the church.", "unacceptable"),
        (VALIDATION, "I watched the nurse in the forest.", "acceptable"),
        (VALIDATION, "The writer taught he in the library.", "unacceptable"),
    ],
    "gap": [
        (TRAIN, "What did Susan bring yesterday?", "acceptable"),
        (TRAIN, "What did Lucy make the boxes again?", "unacceptable"),
        (VALIDATION, "Did Elizabeth remove the mirrors at last?", "acceptable"),
        (VALIDATION, "Did Elizabeth remove at last?", "unacceptable"),
    ],
}

YES, NO = "entailment", "not_entailment"
INFERENCE = {
    "place_or_time": [
        (TRAIN, "Where did Clara buy the box?", "Clara and Frank bought the box in the cellar.", YES),
        (TRAIN, "Where did Clara buy the box?", "Clara and Frank bought the box in the morning.", NO),
        (VALIDATION, "When did Catherine borrow the pencil?", "Catherine borrowed the pencil in July.", YES),
        (VALIDATION, "When did Catherine borrow the pencil?", "Catherine borrowed the pencil in the library.", NO),
    ],
    "company": [
        (TRAIN, "Who did Clara work with?", "Clara worked with Charles in the village.", YES),
        (TRAIN, "Who did Clara work with?", "Clara worked at noon.", NO),
        (VALIDATION, "When did William cook?", "William cooked on Wednesday.", YES),
        (VALIDATION, "When did William cook?", "William cooked with Michael in the forest.", NO),
    ],
    "roles": [
        (TRAIN, "Who did John thank in the garden?", "John thanked Maria in the garden.", YES),
        (TRAIN, "Who did John thank in the garden?", "Maria thanked John in the garden.", NO),
        (VALIDATION, "Who taught Arthur in December?", "Elizabeth taught Arthur in December.", YES),
        (VALIDATION, "Who taught Arthur in December?", "Arthur taught Elizabeth in December.", NO),
    ],
    "predicates": [
        (TRAIN, "Where did Ruth hide the bottle?", "Ruth hid the bottle in the hotel.", YES),
        (TRAIN, "Where did Ruth hide the bottle?", "Ruth sold the bottle in the hotel.", NO),
        (VALIDATION, "Where did Margaret lose the candle?", "Margaret lost the candle in the station.", YES),
        (VALIDATION, "Where did Margaret lose the candle?", "Margaret borrowed the candle in the station.", NO),
    ],
    "relatives": [
        (TRAIN, "When did John steal the basket?", "John stole the basket on Monday.", YES),
        (TRAIN, "When did John steal the basket?", "John's father stole the basket on Monday.", NO),
        (VALIDATION, "Where did Margaret lose the candle?", "Margaret lost the candle in the museum.", YES),
        (VALIDATION, "Where did Margaret lose the candle?", "Margaret's daughter lost the candle in the museum.", NO),
    ],
    "two_events": [
        (
            TRAIN,
            "Where did Maria sell the bottle?",
            "Martin hid the basket on Tuesday, and Maria sold the bottle in the school.",
            YES,
        ),
        (
            TRAIN,
            "Where did Martin hide the basket?",
            "Martin hid the basket on Tuesday, and Maria sold the bottle in the school.",
            NO,
        ),
        (
            VALIDATION,
            "When did Laura clean the blanket?",
            "Laura cleaned the blanket in January, and James lost the pencil in the library.",
            YES,
        ),
        (
            VALIDATION,
            "When did James lose the pencil?",
            "Laura cleaned the blanket in January, and James lost the pencil in the library.",
            NO,
        ),
    ],
    "passive": [
        (TRAIN, "Who bought the carpet?", "The carpet was bought by Frank.", YES),
        (TRAIN, "Who bought the carpet?", "The carpet was bought in March.", NO),
        (VALIDATION, "Where was the pencil purchased?", "The pencil was purchased in the hospital.", YES),
        (VALIDATION, "Where was the pencil purchased?", "The pencil was purchased by Michael.", NO),
    ],
    "reason": [
        (TRAIN, "When did Anna buy the knife?", "Anna bought the knife at noon.", YES),
        (TRAIN, "Why did Anna buy the knife?", "Anna bought the knife at noon.", NO),
        (VALIDATION, "Why did Paul choose the cup?", "Paul chose the cup because it was so valuable.", YES),
        (VALIDATION, "When did Paul choose the cup?", "Paul chose the cup because it was so valuable.", NO),
    ],
    "number": [
        (TRAIN, "How many coins did Edward drop?", "Edward dropped two coins.", YES),
        (TRAIN, "How many coins did Edward drop?", "Edward dropped the coins in the hotel.", NO),
        (VALIDATION, "When did Robert clean the cups?", "Robert cleaned the cups in December.", YES),
        (VALIDATION, "When did Robert clean the cups?", "Robert cleaned eight cups.", NO),
    ],
    "location": [
        (TRAIN, "What stood below the mill?", "The farm stood below the mill.", YES),
        (TRAIN, "What stood below the mill?", "The mill stood below the farm.", NO),
        (VALIDATION, "What stood behind the prison?", "The station stood behind the prison.", YES),
        (VALIDATION, "What stood behind the prison?", "The prison stood behind the station.", NO),
    ],
    "person_or_thing": [
        (TRAIN, "What did John sell on Tuesday?", "John sold a box on Tuesday.", YES),
        (TRAIN, "What did John sell on Tuesday?", "John thanked a poet on Tuesday.", NO),
        (VALIDATION, "Who did Julia teach in the park?", "Julia taught a stranger in the park.", YES),
        (VALIDATION, "Who did Julia teach in the park?", "Julia discovered a mirror in the park.", NO),
    ],
}


def labelled(task: Task) -> dict[tuple[str, ...], str]:
    found = {}
    splits: tuple[tuple[str, Split], ...] = ((TRAIN, task.train), (VALIDATION, task.validation))
    for name, split in splits:
        columns = [split.first] if split.second is None else [split.first, split.second]
        for *text, label in zip(*columns, split.targets, strict=True):
            found[(name, *text)] = task.labels[int(label)]
    return found


@pytest.mark.parametrize(
    ("name", "judged"),
    [("mini-sentiment", SENTIMENT), ("mini-acceptability", ACCEPTABILITY), ("mini-inference", INFERENCE)],
)
def test_sentences_that_were_read_and_judged(name: str, judged: dict[str, list[tuple[str, ...]]]) -> None:
    found = labelled(miniature.load(name))
    wrong = [row for rows in judged.values() for row in rows if found.get(row[:-1]) != row[-1]]
    assert wrong == []
