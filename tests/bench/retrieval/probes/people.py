"""Plain facts about people, asked with typing errors, and the small talk around them."""

from __future__ import annotations

from tests.bench.retrieval.probes.assembling import Ask, Draw, Part
from tests.bench.retrieval.probes.words import ANIMALS, CRAFTS, DAYS, DISHES, FIRST, PLACES, SPOTS, STORES, THINGS

SLOTS = {
    "animal": ANIMALS,
    "craft": CRAFTS,
    "day": DAYS,
    "dish": DISHES,
    "place": PLACES,
    "spot": SPOTS,
    "store": STORES,
    "thing": THINGS,
}

# What is told, how it is asked, and what else is told with the same words that does not answer.
FACTS = (
    (
        "{name} keeps {animal} behind the {spot} in {place}.",
        "Where does {name} keep the {animal}?",
        "{name} read a whole book about {animal} and now talks of nothing else.",
    ),
    (
        "{name} takes lessons in {craft} every {day}, in a hall next to the {spot}.",
        "On which day does {name} have lessons in {craft}?",
        "{name} was asked about {craft} and only laughed.",
    ),
    (
        "{name} put the {thing} {store} so that nobody trips over it.",
        "Where did {name} put the {thing}?",
        "{name} still looks for the {thing} and suspects the movers.",
    ),
    (
        "{name} cannot stand {dish}, it goes back to a holiday in {place}.",
        "Why does {name} dislike {dish}?",
        "{name} cooked {dish} for eleven people on {day}.",
    ),
    (
        "{name} grew up in {place}, above the {spot}, with four brothers.",
        "In which town did {name} grow up?",
        "{name} drove through {place} and saw nothing of it for the fog.",
    ),
    (
        "{name} lent the {thing} to a cousin from {place} until the autumn.",
        "Who borrowed the {thing} from {name}?",
        "{name} would never lend anybody the {thing}, not even for an evening.",
    ),
    (
        "{name} won second prize in {craft} at the fair in {place}.",
        "What did {name} win in {craft}?",
        "{name} thinks prizes for {craft} are handed out by friends to friends.",
    ),
    (
        "{name} plans to turn the {spot} in {place} into a small hotel.",
        "What are the plans of {name} for the {spot}?",
        "{name} took pictures of the {spot} from every side.",
    ),
    (
        "{name} sells {dish} at the market in {place} on {day}s.",
        "Where does {name} sell {dish}?",
        "{name} bought far too much {dish} at the market and gave half of it away.",
    ),
    (
        "{name} got the {thing} from a great-aunt who had carried it across two borders.",
        "From whom does {name} have the {thing}?",
        "{name} says the {thing} needs oil and a new strap.",
    ),
    (
        "{name} is allergic to {animal}, so the visit in {place} was cut short.",
        "What is {name} allergic to?",
        "{name} promised the children {animal} for the summer.",
    ),
    (
        "{name} gave up {craft} after the accident near the {spot}.",
        "When did {name} stop doing {craft}?",
        "{name} watched a film about {craft} twice on {day}.",
    ),
)

OPENERS = (
    "Good to hear",
    "Well then",
    "Oh dear",
    "Right",
    "Hm",
    "Quite so",
    "Lovely",
    "No wonder",
    "Fair enough",
    "Goodness",
    "As you like",
    "Never mind",
    "Really",
)
REMARKS = (
    "the wind kept me awake", "I am still at my desk", "the train was late again", "we should talk about it calmly",
    "my tea has gone cold", "nothing much happened on my side", "I could sleep for a week",
    "the neighbours are loud today", "it looks like rain", "the shop was closed",
    "I have been tidying since breakfast", "they never answer the bell", "my phone is nearly empty",
    "the post was thin", "I missed the last bus", "the stairs were slippery", "I forgot half of the list",
    "the queue went round the block", "somebody sang all the way", "the light is lovely now",
)  # fmt: skip
CLOSERS = (
    "and how are you?", "more of it later.", "but that is another story.", "so I gave up.", "what would you do?",
    "as ever.", "I will tell you when we meet.", "do not laugh.", "anyway.", "and that was that.",
    "let us leave it there.", "otherwise all is well.", "it could be worse.", "which suits me.",
)  # fmt: skip

NEAR_KEYS = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wqretyuoipsadfghjkxzcvbnmk", strict=True))
ROW_COUNT = 130
ASKED = 10
SMALL_TALK = 90


def compose(draw: Draw) -> Part:
    """Facts about few people and few things, so that names and things come back in rows that do not answer."""
    part = Part()
    names = draw.some(FIRST, 11)
    seen: set[str] = set()
    told: list[str] = []
    while len(told) < ROW_COUNT // 2:
        fact, question, beside = draw.one(FACTS)
        filled = {"name": draw.one(names)} | {slot: draw.one(words[:9]) for slot, words in SLOTS.items()}
        asked = question.format(**filled)
        if asked in seen:
            continue
        seen.add(asked)
        told.append(asked)
        part.tell("people", fact.format(**filled), f"people {asked}")
        other = filled | {"name": draw.one(names)} if draw.chance(0.4) else filled
        part.tell("people", beside.format(**other))
    for asked in told[:ASKED]:
        part.asks.append(Ask(mistyped(draw, asked), f"people {asked}", "typos"))
    for _ in range(SMALL_TALK):
        part.tell("small talk", f"{draw.one(OPENERS)}, {draw.one(REMARKS)}, {draw.one(CLOSERS)}")
    return part


def mistyped(draw: Draw, question: str) -> str:
    """The question with typing errors in one or two of its longer words, the first word left alone."""
    words = question.split(" ")
    long = [place for place, word in enumerate(words) if place and sum(map(str.isalpha, word)) >= 4]
    content = [place for place in long if words[place].strip("?") not in ("does", "have", "from", "with", "lessons")]
    for place in draw.some(content, draw.between(1, 2)):
        words[place] = _slip(draw, words[place])
    return " ".join(words)


def _slip(draw: Draw, word: str) -> str:
    """Two letters swapped, one left out, doubled, or its neighbour on the keyboard; never the first."""
    place = draw.between(1, len(word.rstrip("?")) - 2)
    before, letter, following, rest = word[:place], word[place], word[place + 1], word[place + 2 :]
    kind = draw.below(4)
    if kind == 0 and letter != following:
        return before + following + letter + rest
    if kind == 1:
        return before + following + rest
    if kind == 2:
        return before + letter * 2 + following + rest
    return before + NEAR_KEYS.get(letter, "x") + following + rest
