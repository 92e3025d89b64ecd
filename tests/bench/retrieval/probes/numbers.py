"""Invoices, orders, telephones, amounts, versions, and people who share half of a name."""

from __future__ import annotations

from tests.bench.retrieval.probes.assembling import Ask, Draw, Part
from tests.bench.retrieval.probes.words import FIRMS, FIRST, JOBS, LAST, PLACES

PACKAGES = (
    "redis", "nginx", "terraform", "postgres", "grafana", "openssl", "kafka", "ansible", "haproxy", "envoy", "etcd",
    "vault",
)  # fmt: skip
PAPERS = (("INV", "invoice"), ("ORD", "order"), ("RMA", "return"), ("TKT", "ticket"), ("PO", "purchase order"))
SHIPS = ("shipped", "cancelled", "paid twice", "left unpaid", "sent back", "disputed", "settled in part", "put on hold")
OFFICES = (
    "the reading room",
    "the harbour office",
    "a chemist's",
    "the land registry",
    "a boatyard",
    "the night school",
)


OTHER_JOBS = (
    "the weather vane",
    "the pond liner",
    "the coat hooks",
    "the chimney cap",
    "the flag pole",
    "the dog flap",
)


def compose(draw: Draw) -> Part:
    part = Part()
    _papers(draw, part)
    _telephones(draw, part)
    _amounts(draw, part)
    _versions(draw, part)
    _namesakes(draw, part)
    return part


def near(draw: Draw, number: str) -> str:
    """The number with two neighbouring digits swapped, or with one digit changed."""
    places = [place for place in range(1, len(number) - 1) if number[place].isdigit() and number[place + 1].isdigit()]
    place = draw.one(places)
    if draw.chance(0.5) and number[place] != number[place + 1]:
        return number[:place] + number[place + 1] + number[place] + number[place + 2 :]
    changed = str((int(number[place]) + draw.between(1, 9)) % 10)
    return number[:place] + changed + number[place + 1 :]


def _papers(draw: Draw, part: Part) -> None:
    """Each number stands in one row; rows about near numbers say the same of other firms."""
    for prefix, noun in draw.some(PAPERS, 3):
        number = draw.digits(5)
        others: list[str] = []
        while len(others) < 9:
            other = near(draw, number if len(others) < 6 else others[0])
            if other != number and other not in others:
                others.append(other)
        for each in (number, *others):
            text = draw.one(
                (
                    "{paper} from {firm} was {fate}, it was for {job}.",
                    "{firm} wrote that {paper} is {fate}. That was for {job}.",
                    "Note to self: {paper}, {firm}, {job}, {fate}.",
                )
            )
            filled = {
                "paper": f"{prefix}-{each}",
                "firm": draw.one(FIRMS),
                "job": draw.one(JOBS),
                "fate": draw.one(SHIPS),
            }
            part.tell("numbers", text.format(**filled), f"paper {prefix} {each}")
        asked = draw.one(
            (
                f"What was {prefix}-{number} for?",
                f"What became of {noun} number {number}?",
                f"Which firm does {prefix} {number} belong to?",
                f"Is {prefix.lower()}{number} settled?",
            )
        )
        part.asks.append(Ask(asked, f"paper {prefix} {number}", "numbers"))


def _telephones(draw: Draw, part: Part) -> None:
    firsts, lasts = draw.some(FIRST, 5), draw.some(LAST, 4)
    people = draw.some([f"{first} {last}" for first in firsts for last in lasts], 14)
    for place, person in enumerate(people):
        number = f"+44 {draw.digits(4)} {draw.digits(3)} {draw.digits(3)}"
        text = draw.one(
            (
                f"{person} can be reached on {number} in the evening.",
                f"New mobile for {person}: {number}.",
                f"{person} left a number, {number}, please ring back.",
            )
        )
        part.tell("numbers", text, f"telephone {place}")
        for _ in range(2):
            part.tell("numbers", _mention(draw, person))
        if place < 2:
            spelled = draw.one((number, number.replace("+44 ", "0"), "".join(number.split())))
            asked = (f"What is the phone number of {person}?", f"Whose number is {spelled}?")[place]
            part.asks.append(Ask(asked, f"telephone {place}", "numbers"))


def _mention(draw: Draw, person: str) -> str:
    return draw.one(
        (
            f"{person} rang while you were out, no message.",
            f"Remind me to give {person} a number for the raffle.",
            f"Spoke on the phone with {person} for an hour about {draw.one(JOBS)}.",
            f"{person} has moved to {draw.one(PLACES)} and lost the phone on the way.",
        )
    )


def _amounts(draw: Draw, part: Part) -> None:
    """Several bills of each firm; the amount or the job tells which."""
    for place, (firm, job) in enumerate(zip(draw.some(FIRMS, 12), draw.some(JOBS, 12), strict=True)):
        amount = draw.between(1_100, 9_900)
        pence = draw.digits(2)
        rows = (
            f"{firm} charged {amount:,}.{pence} euros for {job}.",
            f"{firm} asked {amount:,}.{pence} for {job}, paid at once.",
        )
        part.tell("numbers", draw.one(rows), f"amount {place}")
        other = near(draw, str(amount))
        part.tell(
            "numbers",
            f"{firm} sent an estimate: {int(other):,}.{pence} euros for {draw.one(OTHER_JOBS)}, far too much.",
        )
        part.tell("numbers", f"Somebody should ask {firm} what {job} would cost by spring.")
        if place < 2:
            asked = (f"What did {firm} take for {job}?", f"Who charged us {amount}.{pence}?")[place]
            part.asks.append(Ask(asked, f"amount {place}", "numbers"))


def _versions(draw: Draw, part: Part) -> None:
    """One package in many versions; one of them did what is asked for."""
    package = draw.one(PACKAGES)
    major, minor = draw.between(1, 9), draw.between(0, 19)
    deeds = (
        "broke the login page", "doubled the memory", "was rolled back after an hour", "fixed the time zones",
        "refused the old certificates", "halved the start-up time", "lost the metrics", "needed a new licence key",
        "was skipped because of the freeze", "passed all load tests", "logged passwords in clear", "dropped ARM images",
    )  # fmt: skip
    for place, deed in enumerate(draw.order(deeds)):
        version = f"{major}.{minor + place // 4}.{place % 4}"
        part.tell("code", f"{package} {version} {deed}.", f"version {version}")
        if place in (3, 8):
            asked = (
                f"What was the matter with {package} {version}?" if place == 3 else f"Which {package} version {deed}?"
            )
            part.asks.append(Ask(asked, f"version {version}", "numbers"))
    for other in draw.some(PACKAGES, 6):
        part.tell("code", f"{other} stays at {major}.{minor}.{draw.below(4)} until the audit is over.")


def _namesakes(draw: Draw, part: Part) -> None:
    firsts, lasts = draw.some(FIRST, 4), draw.some(LAST, 4)
    pairs = draw.order([(first, last) for first in firsts for last in lasts])
    for place, (first, last) in enumerate(pairs):
        office, town = draw.one(OFFICES), draw.one(PLACES)
        part.tell("people", f"{first} {last} works at {office} in {town} now.", f"namesake {place}")
        part.tell("people", f"Met {first} in {draw.one(PLACES)}, no word about work.")
        part.tell("people", f"The {last} family is selling the house near {draw.one(OFFICES)}.")
        if place < 1:
            part.asks.append(
                Ask(f"What does {first} {last} do for a living, and where?", f"namesake {place}", "numbers")
            )
