"""Minutes, runbooks and design notes of a few thousand characters, where one sentence deep inside answers."""

from __future__ import annotations

from tests.bench.retrieval.probes.assembling import Ask, Draw, Part
from tests.bench.retrieval.probes.words import FIRST, PROJECTS

# The sentence, the question, and what is said of the same matter in other documents and elsewhere.
MATTERS = (
    (
        "The audit trail is kept for {number} weeks and then moved to tape.",
        "For how many weeks does {project} keep its audit trail?",
        "The audit trail came up again, without a decision on how long it is kept.",
    ),
    (
        "Whoever is on call has to acknowledge a page within {number} minutes.",
        "How fast must a page be acknowledged in {project}?",
        "Being on call was discussed; pages at night remain a sore point.",
    ),
    (
        "The nightly export was moved to {number} minutes past two because it collided with the backup.",
        "Why was the nightly export of {project} moved?",
        "The nightly export ran clean all week.",
    ),
    (
        "{name} owns the certificates and renews them {number} days before they run out.",
        "Who renews the certificates of {project}?",
        "Certificates are listed in the appendix; somebody should own them.",
    ),
    (
        "The queue may hold {number} thousand letters before writers are told to wait.",
        "At what length does the queue of {project} push back on writers?",
        "The queue was short on every day of the period.",
    ),
    (
        "We chose a column store over a document store, since reports touch few columns of many rows.",
        "Why did {project} choose a column store?",
        "Nobody wanted to reopen the question of the store.",
    ),
    (
        "The pilot customer is a chain of {number} pharmacies in the north.",
        "Who is the pilot customer of {project}?",
        "The pilot customer sent friendly words and no data.",
    ),
    (
        "{name} leaves the team at the end of the quarter, {other} takes over the deployments.",
        "Who takes over deployments in {project}?",
        "Deployments went out on time, thanks to the team.",
    ),
    (
        "To fail over by hand, stop the writer first, wait {number} seconds, then promote the replica.",
        "How long do you wait before promoting the replica in {project}?",
        "The replica lagged a little and caught up by itself.",
    ),
    (
        "The penalty for a missed delivery is {number} hundred a day, capped at a month's fee.",
        "What does a late delivery cost {project}?",
        "The delivery was confirmed, penalties were not mentioned.",
    ),
    (
        "Load tests stop at {number} requests a second because the licence server gives up there.",
        "What limits the load tests of {project}?",
        "Load tests are to be repeated on the larger machines.",
    ),
    (
        "Feature flags older than {number} days are removed by a job that {name} wrote.",
        "After how long are feature flags removed in {project}?",
        "Feature flags were praised by all and documented by none.",
    ),
    (
        "The old portal is switched off on the day the last of {number} resellers has moved.",
        "When is the old portal of {project} switched off?",
        "The old portal still has more visitors than the new one.",
    ),
    (
        "Photographs are scaled to {number} pixels on the phone before they are sent.",
        "To what size are photographs scaled in {project}?",
        "Photographs take most of the space, as ever.",
    ),
    (
        "Access to production needs two people, one of them {name} or {other}.",
        "Who may grant production access for {project}?",
        "Production access was granted once and taken back the same day.",
    ),
    (
        "The search box ignores anything shorter than {number} letters, by wish of the sales people.",
        "Why does the search box of {project} ignore short input?",
        "The search box is used by one visitor in five.",
    ),
    (
        "Passwords are no longer asked for: a link by mail, good for {number} minutes, replaces them.",
        "What replaced passwords in {project}?",
        "Passwords remain the first reason for calls to support.",
    ),
    (
        "If the disk fills, delete the thumbnails first; they are made again within {number} hours.",
        "What should be deleted first when the disk of {project} is full?",
        "The disk was enlarged in the night without an interruption.",
    ),
    (
        "The budget has room for {number} days of outside help, to be spent on accessibility.",
        "On what does {project} spend outside help?",
        "The budget is on track, outside help included.",
    ),
    (
        "{name} found that the slow page came from {number} separate queries for the footer.",
        "What made the page of {project} slow?",
        "The slow page was mentioned by two customers.",
    ),
    (
        "The Friday freeze starts at noon and has cost us {number} releases so far.",
        "When does the freeze start in {project}?",
        "Nobody released on a Friday.",
    ),
    (
        "Prices are rounded up to the next {number} cents, also in refunds.",
        "How are prices rounded in {project}?",
        "Prices come from the partner, rounding included.",
    ),
)

WHO = (
    "The team", "Support", "A customer in the south", "The steering group", "The new colleague", "Our partner",
    "Sales", "The reviewer", "The data protection officer", "One of the testers", "The operations desk", "Finance",
)  # fmt: skip
DID = (
    "asked for", "went through", "postponed", "signed off", "questioned", "summarised", "demonstrated",
    "sent remarks on", "estimated", "rewrote", "could not reproduce", "reported progress on", "has concerns about",
    "drew a sketch of",
)  # fmt: skip
WHAT = (
    "the onboarding pages", "the alert thresholds", "the mobile layout", "the quarterly figures",
    "the consent dialogue", "the import of old records", "the translation files", "the staging cluster",
    "the contract draft", "the colour scheme", "the retry rules", "the hiring plan", "the printed forms",
    "the cache warm-up", "the monitoring board", "the field names", "the interview notes", "the archive format",
    "the rate limits", "the training material",
)  # fmt: skip
HOW = (
    "and will come back to it next time", "with two open points", "without objections",
    "although the numbers were missing", "after a longer discussion", "for the third time",
    "in spite of the holidays", "and thanked everybody", "but left the details to the working group",
    "because the deadline is near", "and put the slides in the usual folder", "as agreed",
    "with a view to the summer", "on behalf of {name}",
)  # fmt: skip
PLAIN = (
    "{name} will follow up.", "No action needed.", "See the drawing in the folder.",
    "This section is due for review by {name}.", "Open: who tells {name}?", "Nothing else was raised.",
    "The numbers are from last month.", "{project} is not affected.",
)  # fmt: skip

KINDS = (
    (
        "Minutes, {project} weekly, number {number}",
        ("Present", "Last week", "Decisions", "Risks", "Money", "Next steps", "Any other business"),
    ),
    (
        "Runbook: {project}, revision {number}",
        ("Purpose", "Before you start", "Daily checks", "When it breaks", "Limits", "Contacts", "Clean-up"),
    ),
    (
        "Design note {number}: {project}",
        ("Background", "Goals", "What we looked at", "Decision", "Consequences", "Open questions", "Roll-out"),
    ),
)

SHARE = 5
"""Projects of a vault."""
OF_EACH = 7
"""Documents of a project."""
ASKED = 9
NAMED = 0.4
"""Share of the answering sentences that name the project; otherwise the document's title does."""


def compose(draw: Draw) -> Part:
    """Every matter is settled once in a project, and touched in other documents and in passing."""
    part = Part()
    projects = draw.some(PROJECTS, SHARE)
    settled: list[tuple[str, str]] = []
    for project in projects:
        matters = draw.order(MATTERS)
        for number in range(OF_EACH):
            facts, touched = matters[number * 2 : number * 2 + 2], draw.some(matters, 7)
            mark = f"document {project} {number}"
            part.tell("documents", _document(draw, project, facts, touched), mark, loose=draw.chance(0.5))
            settled.append((facts[draw.below(2)][1].format(project=project), mark))
        for _, _, beside in draw.some(matters, 4):
            part.tell("work", f"{draw.one(FIRST)} on {project}: {beside[0].lower()}{beside[1:]}")
    for asked, mark in draw.some(settled, ASKED):
        part.asks.append(Ask(asked, mark, "long"))
    return part


Matter = tuple[str, str, str]


def _document(draw: Draw, project: str, facts: list[Matter], touched: list[Matter]) -> str:
    """Facts stand in the later two thirds of the sections, never first or last in one."""
    title, headings = draw.one(KINDS)
    longest = draw.between(5, 20)
    places = draw.some(range(2, len(headings)), len(facts))
    told = dict(zip(places, facts, strict=True))
    lines = [title.format(project=project, number=draw.between(3, 240)), ""]
    for place, heading in enumerate(headings):
        sentences = [_filler(draw, project) for _ in range(draw.between(3, longest))]
        if touched[place] not in facts:
            sentences.insert(draw.below(len(sentences)), touched[place][2])
        if place in told:
            name, other = draw.some(FIRST, 2)
            fact = told[place][0].format(number=draw.between(2, 95), name=name, other=other)
            if draw.chance(NAMED):
                fact = f"{fact.removesuffix('.')}, says {project}'s plan."
            sentences.insert(draw.between(1, len(sentences) - 1), fact)
        lines += [f"## {heading}", " ".join(sentences), ""]
    return "\n".join(lines).rstrip()


def _filler(draw: Draw, project: str) -> str:
    name = draw.one(FIRST)
    if draw.chance(0.2):
        return draw.one(PLAIN).format(name=name, project=project if draw.chance(0.6) else draw.one(PROJECTS))
    return f"{draw.one(WHO)} {draw.one(DID)} {draw.one(WHAT)} {draw.one(HOW)}.".format(name=name)
