"""Facts restated with a small change, and exact repeats of those that are not asked for."""

from __future__ import annotations

from tests.bench.retrieval.probes.assembling import Ask, Draw, Part
from tests.bench.retrieval.probes.words import DAYS, TIMES

# Wordings of a fact about {detail}; the details, each with another name that only a question uses; the question.
Family = tuple[tuple[str, ...], tuple[tuple[str, str], ...], str]

FAMILIES: tuple[Family, ...] = (
    (
        (
            "The code for {detail} is {number} since the weekend.",
            "{detail} now opens with {number}, the code was changed.",
            "Write down the new code for {detail}: {number}.",
        ),
        (
            ("the back gate", "the rear gate"),
            ("the front gate", "the main gate"),
            ("the back door", "the rear door"),
            ("the cellar door", "the basement door"),
            ("the side gate", "the lateral gate"),
            ("the bicycle cellar", "the bike cellar"),
            ("the wine cellar", "the wine vault"),
            ("the garage door", "the carport door"),
            ("the boat house", "the boat shed"),
        ),
        "Which code opens {detail}?",
    ),
    (
        (
            "The dentist moved {detail} to {day} {time}.",
            "{detail} at the dentist is on {day} now, {time}.",
            "New time for {detail} with the dentist: {day}, {time}.",
        ),
        (
            ("my check-up", "my routine examination"),
            ("your check-up", "your routine examination"),
            ("the cleaning", "the hygienist"),
            ("my filling", "my cavity"),
            ("your filling", "your cavity"),
            ("the second filling", "the other cavity"),
            ("Ada's braces", "Ada's dental wires"),
            ("Ada's check-up", "Ada's routine examination"),
            ("the crown", "the cap"),
        ),
        "When is {detail} at the dentist?",
    ),
    (
        (
            "For {detail} the recipe takes {number} grams of flour.",
            "I wrote {number} grams of flour for {detail}, it works.",
            "{number} grams of flour, not more, when you make {detail}.",
        ),
        (
            ("rye bread", "loaf of rye"),
            ("white bread", "pale loaf"),
            ("the sweet rolls", "the sugar buns"),
            ("the seed rolls", "the buns with seeds"),
            ("the thin pancakes", "the crepes"),
            ("the thick pancakes", "the fluffy pancakes"),
            ("the apple cake", "the cake with apples"),
            ("the apple strudel", "the rolled apple pastry"),
            ("the cheese scones", "the savoury scones"),
        ),
        "How much flour goes into {detail}?",
    ),
    (
        (
            "{detail} leaves from platform {small} at {clock}.",
            "The board says platform {small} for {detail}, {clock}.",
            "Platform {small}, {clock}: that is {detail}.",
        ),
        (
            ("the night train to Velden", "the sleeper to Velden"),
            ("the day train to Velden", "the daytime service to Velden"),
            ("the night train to Grauburg", "the sleeper to Grauburg"),
            ("the day train to Grauburg", "the daytime service to Grauburg"),
            ("the slow train to Velden", "the stopping service to Velden"),
            ("the express to Grauburg", "the fast service to Grauburg"),
            ("the express to Velden", "the fast service to Velden"),
            ("the last train from Velden", "the final service out of Velden"),
            ("the first train from Velden", "the earliest service out of Velden"),
        ),
        "From which platform does {detail} go?",
    ),
    (
        (
            "We agreed on a rent of {number} a month for {detail}.",
            "The rent for {detail} is {number} a month, heating not included.",
            "{number} a month is the rent they want for {detail}.",
        ),
        (
            ("the flat on the second floor", "the apartment two storeys up"),
            ("the flat on the third floor", "the apartment three storeys up"),
            ("the flat in the yard", "the apartment in the courtyard"),
            ("the studio on the second floor", "the atelier two storeys up"),
            ("the studio in the yard", "the atelier in the courtyard"),
            ("the shop in the yard", "the store in the courtyard"),
            ("the shop on the corner", "the corner store"),
            ("the office on the corner", "the corner bureau"),
            ("the office on the third floor", "the bureau three storeys up"),
        ),
        "How high is the rent of {detail}?",
    ),
    (
        (
            "{detail} takes {small} drops in the morning and two at night.",
            "Remember: {small} drops for {detail} in the morning.",
            "The label says {small} drops each morning for {detail}.",
        ),
        (
            ("the old cat", "the elderly cat"),
            ("the young cat", "the kitten"),
            ("the grey cat", "the silver cat"),
            ("the old dog", "the elderly dog"),
            ("the neighbour's dog", "the dog next door"),
            ("the neighbour's cat", "the cat next door"),
            ("the brown rabbit", "the hazel rabbit"),
            ("the white rabbit", "the snowy rabbit"),
            ("the lame goose", "the limping goose"),
        ),
        "How many drops does {detail} get in the morning?",
    ),
    (
        (
            "Size {small} for {detail}, the sleeves run long.",
            "{detail} wears size {small} this winter.",
            "I noted size {small} for {detail}.",
        ),
        (
            ("Jonas's winter coat", "Jonas's cold-weather coat"),
            ("Jonas's rain coat", "Jonas's waterproof"),
            ("Jonas's boots", "Jonas's wellingtons"),
            ("Milo's winter coat", "Milo's cold-weather coat"),
            ("Milo's rain coat", "Milo's waterproof"),
            ("Milo's boots", "Milo's wellingtons"),
            ("Lotte's winter coat", "Lotte's cold-weather coat"),
            ("Lotte's gloves", "Lotte's mittens"),
            ("Jonas's gloves", "Jonas's mittens"),
        ),
        "Which size is right for {detail}?",
    ),
    (
        (
            "The password hint for {detail} is the street of {aunt}.",
            "For {detail} think of the street of {aunt}, then you have the password.",
            "I set the password of {detail}: the street where {aunt} lived.",
        ),
        (
            ("the photo account", "the picture account"),
            ("the tax account", "the revenue account"),
            ("the photo backup", "the picture archive"),
            ("the old laptop", "the previous notebook"),
            ("the new laptop", "the current notebook"),
            ("the school laptop", "the class notebook"),
            ("the school account", "the class account"),
            ("the music account", "the songs account"),
            ("the bank card", "the debit card"),
        ),
        "What hint was there for the password of {detail}?",
    ),
    (
        (
            "{detail} was planted {small} steps from the wall.",
            "I put {detail} {small} steps away from the wall.",
            "From the wall {small} steps to {detail}.",
        ),
        (
            ("the yellow rose", "the golden rose"),
            ("the white rose", "the pale rose"),
            ("the climbing rose", "the rambling rose"),
            ("the white lilac", "the pale lilac"),
            ("the dwarf lilac", "the miniature lilac"),
            ("the pear tree", "the conference pear"),
            ("the dwarf pear", "the miniature pear"),
            ("the cooking apple", "the tart apple tree"),
            ("the eating apple", "the dessert apple tree"),
        ),
        "How far from the wall is {detail}?",
    ),
    (
        (
            "{detail} meets {day} {time} in the parish hall.",
            "In the parish hall on {day}: {detail}, {time}.",
            "They moved {detail} to {day} {time}, same hall.",
        ),
        (
            ("the beginners' Spanish group", "the Spanish course for novices"),
            ("the advanced Spanish group", "the Spanish course for experts"),
            ("the beginners' Polish group", "the Polish course for novices"),
            ("the advanced Polish group", "the Polish course for experts"),
            ("the parents' group", "the mums' and dads' circle"),
            ("the widows' group", "the bereavement circle"),
            ("the chess group", "the board game circle"),
            ("the beginners' chess group", "the board game circle for novices"),
            ("the reading group", "the book circle"),
        ),
        "On which day does {detail} meet?",
    ),
)

AUNTS = (
    "Aunt Sibyl",
    "Great-aunt Orla",
    "Aunt Petronel",
    "Cousin Magda",
    "Grandma Wanda",
    "Uncle Bertram",
    "Nurse Olwen",
)
ASKED = 9
RENAMED = 0.6
"""Share of questions that call the detail by its other name."""


def compose(draw: Draw) -> Part:
    part = Part()
    for number, (wordings, details, question) in enumerate(draw.some(FAMILIES, ASKED)):
        asked, *others = draw.order(details)
        texts = {detail[0]: _fact(draw, wordings, detail[0]) for detail in (asked, *others)}
        for name, text in texts.items():
            part.tell("household", text, f"duplicates {number}" if name == asked[0] else "")
        if draw.chance(0.4):
            part.tell("household", texts[asked[0]], f"duplicates {number}", loose=True)
        for other in others[:3]:
            for _ in range(draw.between(2, 4)):
                part.tell("household", texts[other[0]], loose=draw.chance(0.5))
        for other in others[3:]:
            part.tell("household", _query(draw, question, other[draw.below(2)]))
        text = question.format(detail=asked[1] if draw.chance(RENAMED) else asked[0])
        part.asks.append(Ask(text, f"duplicates {number}", "duplicates"))
    return part


def _fact(draw: Draw, wordings: tuple[str, ...], detail: str) -> str:
    text = draw.one(wordings).format(
        detail=detail,
        number=draw.digits(4),
        small=draw.between(3, 48),
        clock=f"{draw.between(5, 23)}:{draw.between(10, 59)}",
        day=draw.one(DAYS),
        time=draw.one(TIMES),
        aunt=draw.one(AUNTS),
    )
    return text[0].upper() + text[1:]


def _query(draw: Draw, question: str, detail: str) -> str:
    """Somebody wonders aloud and is not answered."""
    asked = question.format(detail=detail)
    return draw.one(
        ("{asked} I always forget.", "{asked} Nobody wrote it down.", "Mother wants to know: {asked}")
    ).format(asked=asked)
