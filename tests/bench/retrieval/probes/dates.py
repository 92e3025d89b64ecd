"""The same topic on many days, and questions about one of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from tests.bench.retrieval.probes.assembling import Ask, Block, Draw, Part, Turn, Vault
from tests.bench.retrieval.probes.words import DAYS, MONTHS

MACHINES = ("boiler", "camper van", "dishwasher", "lawn mower", "printer", "moped", "freezer", "heat pump")
VENTURES = (
    "allotment",
    "choir",
    "novel",
    "conservatory",
    "puppet theatre",
    "pottery course",
    "bakery stall",
    "orchard",
)
BODIES = ("knee", "molar", "shoulder", "eyesight", "blood pressure", "hip", "migraine", "hearing")
TOPICS = (*MACHINES, *VENTURES, *BODIES)
"""No other category of the set speaks of these."""

MACHINE_ROWS = (
    "The {topic} made that grinding noise again and then stopped.",
    "Ordered a new seal for the {topic}, eleven pounds with postage.",
    "A man came to look at the {topic} and shook his head.",
    "I cleaned the {topic} from top to bottom, it took all morning.",
    "The {topic} leaks, there was a puddle this big.",
    "The guarantee of the {topic} has run out, of course.",
    "My brother wants to buy our {topic}, I told him to wait.",
    "The {topic} runs like new since the filter was changed.",
    "They sent the wrong valve for the {topic}.",
    "I read the manual of the {topic} and understood half of it.",
    "The {topic} tripped the fuse twice.",
    "Somebody left a dent in the {topic} and no note.",
    "We were quoted nine hundred for a second-hand {topic}.",
    "The {topic} smells of burnt rubber.",
    "I found the missing screw of the {topic} under the mat.",
    "The {topic} was serviced, they replaced the belt.",
    "The {topic} would not start until I warmed the battery with my hands.",
    "The insurance wants photographs of the {topic}.",
    "The {topic} is too loud for the baby, we use it only by day.",
    "I taught the lodger how to use the {topic}.",
)
VENTURE_ROWS = (
    "Three new people joined us for the {topic}, all of them keen.",
    "The {topic} costs more than we thought, the timber alone was four hundred.",
    "I nearly gave up on the {topic} today.",
    "We had the first visitors for the {topic} and they stayed for hours.",
    "The council wrote about the {topic}, they want a drawing.",
    "It rained into the {topic} papers and the ink ran.",
    "Aunt Bea offered money for the {topic}, with conditions.",
    "Half of the {topic} is done, the dull half.",
    "We quarrelled about the {topic} and made it up over soup.",
    "A reporter asked about the {topic} and got my name wrong.",
    "I dreamt of the {topic}, it had a second floor.",
    "The {topic} needs a new leader, nobody volunteers.",
    "We postponed the {topic} because of the flood.",
    "I wrote the plan for the {topic} on the back of a menu.",
    "The {topic} was praised by a complete stranger.",
    "Mice got into the {topic} and ate the labels.",
    "We bought a used stove for the {topic}.",
    "I spent the whole day on the {topic} with a sore back.",
    "The {topic} has a logo now, a fox with a lantern.",
    "Two of us want to leave the {topic} after the feast.",
)
BODY_ROWS = (
    "My {topic} kept me up until three.",
    "The doctor says the {topic} will be fine with exercise.",
    "I was given drops for the {topic}, they taste of aniseed.",
    "My {topic} is much better since the walks.",
    "They took pictures of the {topic} and found nothing.",
    "A second opinion on my {topic}: an operation, no hurry.",
    "I cancelled the appointment for my {topic}, silly of me.",
    "My {topic} acts up whenever the weather turns.",
    "The specialist for my {topic} speaks so quietly.",
    "I paid sixty for a cream against the {topic} trouble.",
    "They compared my {topic} with the last results, slightly worse.",
    "My {topic} stopped me from dancing at the wedding.",
    "Grandfather had the same {topic} at my age.",
    "The nurse measured my {topic} twice and frowned.",
    "I try needles for my {topic}, it cannot hurt. It did.",
    "No word from the clinic about my {topic}.",
    "I can live with my {topic}, said the young doctor.",
    "My {topic} makes driving at night a trial.",
    "Somebody on the train had a cure for my {topic}: garlic.",
    "The insurance pays for my {topic} after all.",
)
ROWS = {MACHINES: MACHINE_ROWS, VENTURES: VENTURE_ROWS, BODIES: BODY_ROWS}

FORMS = (
    "What did {asker} say about the {topic} {when}?",
    "What happened with the {topic} {when}?",
    "{When}, what was it with the {topic}?",
    "What was the news of the {topic} {when}?",
    "Remind me what was said about the {topic} {when}.",
)
ASKED = 9
BESIDE = 15
"""Rows of a topic outside the days asked for."""


@dataclass(frozen=True)
class Span:
    """Days that an expression means, both ends included. Rows that do not answer keep `margin` days away."""

    phrase: str
    first: date
    last: date
    margin: int = 1


def spans(draw: Draw, today: date) -> list[Span]:
    """One of every kind of expression, in random order. "Last" is the latest that is over."""
    year, month = today.year, draw.between(1, 12)
    past = year - draw.between(1, 2)
    name = MONTHS[month - 1]
    day = date(past, month, draw.between(4, 26))
    monday = today - timedelta(days=today.weekday())
    weekday = today - timedelta(days=draw.between(2, 6))
    few, weeks = draw.between(3, 6), draw.between(2, 5)
    other = month % 12 + 1
    latest = year if month < today.month else year - 1
    summer = year if today.month > 8 else year - 1
    return draw.order(
        (
            Span(f"last {name}", date(latest, month, 1), _end(latest, month)),
            Span(f"on {day.day} {name} {past}", day, day, 2),
            Span(f"on {MONTHS[day.month - 1]} {day.day}, {past}", day, day, 2),
            Span(f"on {day.isoformat()}", day, day, 2),
            Span(f"in {past}", date(past, 1, 1), date(past, 12, 31)),
            Span("last year", date(year - 1, 1, 1), date(year - 1, 12, 31)),
            Span(f"in {MONTHS[other - 1]} {past}", date(past, other, 1), _end(past, other)),
            Span(f"in early {name} {past}", date(past, month, 1), date(past, month, 10), 4),
            Span("last summer", date(summer, 6, 1), date(summer, 8, 31)),
            Span(f"in the spring of {past}", date(past, 3, 1), date(past, 5, 31)),
            Span(f"in autumn {past}", date(past, 9, 1), date(past, 11, 30)),
            Span(f"around Christmas {past}", date(past, 12, 20), date(past, 12, 31), 9),
            Span("yesterday", today - timedelta(days=1), today - timedelta(days=1)),
            Span("last week", monday - timedelta(days=7), monday - timedelta(days=1)),
            Span(f"on {DAYS[weekday.weekday()]}", weekday, weekday),
            Span(f"{few} days ago", today - timedelta(days=few), today - timedelta(days=few)),
            _about(f"{('two', 'three', 'four', 'five')[weeks - 2]} weeks ago", today - timedelta(weeks=weeks), 2, 5),
            _about("three months ago", today - timedelta(days=91), 6, 14),
            _about("a year ago", today - timedelta(days=365), 12, 25),
            Span(f"between April and July {past}", date(past, 4, 1), date(past, 7, 31)),
        )
    )


def _end(year: int, month: int) -> date:
    return date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)


def _about(phrase: str, day: date, reach: int, margin: int) -> Span:
    return Span(phrase, day - timedelta(days=reach), day + timedelta(days=reach), margin)


def compose(draw: Draw, vault: Vault) -> Part:
    part = Part()
    today = vault.now.date()
    topics = [(topic, rows) for names, rows in ROWS.items() for topic in draw.some(names, 4)]
    chosen = spans(draw, today)
    for (topic, rows), span in zip(draw.order(topics)[:ASKED], chosen, strict=False):
        texts = draw.order(rows)
        mark = f"dates {topic}"
        right = draw.between(1, 3)
        for text in texts[:right]:
            day = span.first + timedelta(days=draw.below((span.last - span.first).days + 1))
            part.blocks.append(_told(topic, text, mark, day))
        for text in texts[right : right + BESIDE]:
            part.blocks.append(_told(topic, text, "", _beside(draw, span, today)))
        when = span.phrase
        form = draw.one(FORMS)
        asked = form.format(asker=vault.asker, topic=topic, when=when, When=when[0].upper() + when[1:])
        part.asks.append(Ask(asked, mark, "dates"))
    return part


def _told(topic: str, text: str, mark: str, day: date) -> Block:
    return Block("days", (Turn(text.format(topic=topic), 0, mark),), day)


def _beside(draw: Draw, span: Span, today: date) -> date:
    """Any day of the last three years, or, half of the time, one close to the span; never in it."""
    while True:
        if draw.chance(0.5):
            day = today - timedelta(days=draw.between(1, 3 * 365))
        else:
            edge, side = draw.one(((span.first, -1), (span.last, 1)))
            day = edge + timedelta(days=side * draw.between(span.margin, span.margin + 40))
        near = span.first - timedelta(days=span.margin - 1), span.last + timedelta(days=span.margin - 1)
        if day < today and not near[0] <= day <= near[1]:
            return day
