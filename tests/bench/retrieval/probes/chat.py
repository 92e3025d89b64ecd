"""Exchanges in which the answering turn means nothing without the turns before it."""

from __future__ import annotations

from tests.bench.retrieval.probes.assembling import Ask, Block, Draw, Part, Turn
from tests.bench.retrieval.probes.words import CRAFTS, DAYS, FIRST, PLACES, SPOTS, TIMES

PETS = ("parrot", "spaniel", "hamster", "greyhound", "pony", "canary", "kitten", "terrier")
ITEMS = ("sofa", "bicycle", "piano", "canoe", "trampoline", "greenhouse", "wardrobe", "loom", "kiln", "caravan")
GUESTS = ("the twins", "your godmother", "the new tenant", "our old teacher", "the bride's parents", "the surveyor")
REASONS = (
    "too far from a station", "they wanted a deposit of two months", "the stairs, with her back",
    "no room for the dog", "somebody else was quicker", "he said the damp would come back",
    "because of the lorries at night", "she had promised her mother",
)  # fmt: skip
SUMS = (
    "two hundred and ten",
    "ninety, cash",
    "a bit over six hundred",
    "forty less than last time",
    "nothing, he owed me one",
)
SLOTS = {
    "pet": PETS, "item": ITEMS, "guest": GUESTS, "craft": CRAFTS, "day": DAYS, "time": TIMES, "spot": SPOTS,
    "place": PLACES, "name": FIRST, "reason": REASONS, "sum": SUMS,
}  # fmt: skip

# Turns of an exchange; the last one answers, in one of two ways, the second with a word of the question. Then the
# question, and a turn elsewhere with the same words.
EXCHANGES = (
    (
        (
            "Does the {craft} class still meet this term?",
            "Yes, {time}, and bring your own cushion.|Class is {time}, bring a cushion.",
        ),
        "At what time does the {craft} class meet?",
        "The {craft} class was fun, everybody laughed at me.",
    ),
    (
        (
            "How much did you get for the {item} in the end?",
            "Guess.",
            "A hundred?",
            "Better: {sum}.|I sold it for {sum}.",
        ),
        "For how much was the {item} sold?",
        "How much space does a {item} take, do you know?",
    ),
    (
        ("What is {name}'s {pet} called now?", "Same as the old one, {other}.|{other} is the name."),
        "What is the name of {name}'s {pet}?",
        "{name} called, the {pet} ate a candle.",
    ),
    (
        ("Why did {name} turn down the flat by the {spot}?", "Mostly {reason}.|There was one reason: {reason}."),
        "For what reason did {name} not take the flat by the {spot}?",
        "{name} turned up by the {spot} with a flat tyre.",
    ),
    (
        (
            "Where do we pick up {guest}?",
            "Not at the station, they come by boat.",
            "So?",
            "{place}, the eastern jetty.|Pick them up in {place}, at the jetty.",
        ),
        "Where do {guest} have to be picked up?",
        "We must pick up a present for {guest}, something small.",
    ),
    (
        (
            "Did you ask {name} about the {item}?",
            "I did.",
            "And?",
            "He will bring it round on {day}.|{name} brings it on {day}.",
        ),
        "When will the {item} be brought by {name}?",
        "{name} asked about our {item} for the third time.",
    ),
    (
        (
            "Who looks after the {pet} while you are in {place}?",
            "{other}, from next door.|{other} takes care of everything.",
        ),
        "Who takes care of the {pet} during the trip to {place}?",
        "The {pet} looks well after the stay in {place}.",
    ),
    (
        (
            "I cannot find the allen key for the {item}.",
            "Have you looked where the bulbs are?",
            "No. Got it, thanks!|Oh, the key is here. Thanks!",
        ),
        "Was the allen key of the {item} found?",
        "The {item} came without an allen key, typical.",
    ),
    (
        (
            "Which colour did you choose for the {item}?",
            "In the end the one she hated: mustard.|A colour she hated: mustard.",
        ),
        "What colour did the {item} get?",
        "The {item} lost its colour in the sun.",
    ),
    (
        (
            "Is the key to the {spot} still with {name}?",
            "No, she handed it to {other} on {day}.|No, the key went to {other} on {day}.",
        ),
        "Who has the key to the {spot} that {name} had?",
        "{name} left the {spot} unlocked, key in the door.",
    ),
    (
        (
            "When is {name}'s exam in {craft}?",
            "Wait, I wrote it down.",
            "Take your time.",
            "Next {day}, {time}.|The exam is on {day}, {time}.",
        ),
        "When does {name} sit the {craft} exam?",
        "{name} is nervous about the {craft} exam, understandably.",
    ),
    (
        (
            "And the {pet}, is it any better?",
            "The vet said two more weeks of those drops.|Two weeks more of that medicine.",
        ),
        "How long must the {pet} take medicine?",
        "A better collar for the {pet} costs more than my shoes.",
    ),
)
IN_ALL = 34
ASKED = 10


def compose(draw: Draw) -> Part:
    part = Part()
    seen: set[str] = set()
    names = draw.some(FIRST, 9)
    while len(seen) < IN_ALL:
        turns, question, beside = draw.one(EXCHANGES)
        name, other = draw.some(names, 2)
        filled = {slot: draw.one(words) for slot, words in SLOTS.items()} | {"name": name, "other": other}
        asked = question.format(**filled)
        if asked in seen:
            continue
        seen.add(asked)
        said = [draw.one(turn.split("|")).format(**filled) for turn in turns]
        said[-1] = said[-1][0].upper() + said[-1][1:]
        first = draw.below(2)
        block = tuple(
            Turn(text, (first + place) % 2, f"chat {asked}" if place == len(said) - 1 else "")
            for place, text in enumerate(said)
        )
        part.blocks.append(Block("chat", block))
        for _ in range(draw.between(1, 3)):
            told = filled | {"name": draw.one(names), "place": draw.one(PLACES), "spot": draw.one(SPOTS)}
            part.tell("chat", beside.format(**told))
        if len(part.asks) < ASKED:
            part.asks.append(Ask(asked, f"chat {asked}", "chat"))
    return part
