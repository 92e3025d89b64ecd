"""What the clients of a load run do: a mix of operations drawn from a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count

SEARCH, INGEST, DATE_SEARCH, INSPECT = "search", "ingest", "date-search", "inspect"
STATS, CONSOLIDATE, DELETE, UPLOAD = "stats", "consolidate", "delete-ids", "upload"

MIX: Mapping[str, int] = {
    SEARCH: 55,
    INGEST: 15,
    DATE_SEARCH: 10,
    INSPECT: 5,
    STATS: 5,
    CONSOLIDATE: 6,
    DELETE: 2,
    UPLOAD: 2,
}
"""Shares in percent. A consolidation is several requests: see `Consolidation`."""

MAX_MESSAGES, MAX_LINES, MAX_DELETED = 5, 20, 3
QUESTION_WORDS = 6
BY_NAME_SHARE = 0.2
"""Of the searches: those for a word that only one stored row has, which must find it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `draw` decides everything about it that the answers so far do not."""

    name: str
    operation: str
    vault: int
    draw: int


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What a client does with a checkout of `tier`.

    ``end`` is ``commit``, ``renew`` (and then commit), ``release`` or ``leave``: a client that never comes back.
    """

    tier: int
    max_tokens: int
    end: str
    replay: bool


def steps(seed: int, stream: int, vaults: int, mix: Mapping[str, int] = MIX) -> Iterator[Step]:
    """Steps without end. The same arguments give the same steps; two streams of one seed differ."""
    source = random.Random(f"{seed}/{stream}")
    names, weights = list(mix), list(mix.values())
    for number in count(1):
        (operation,) = source.choices(names, weights)
        yield Step(f"s{stream}n{number}", operation, source.randrange(vaults), source.getrandbits(48))


@cache
def vocabulary(size: int = 4_000) -> tuple[str, ...]:
    """Words that can be spoken, the frequent ones first."""
    source = random.Random("words")
    found: dict[str, None] = {}
    while len(found) < size:
        word = "".join(source.choice("bdfgklmnprstvz") + source.choice("aeiou") for _ in range(source.randint(2, 4)))
        found[word] = None
    return tuple(found)


def words(source: random.Random, number: int) -> list[str]:
    """Words by Zipf's law: a word's frequency falls with its rank."""
    known = vocabulary()
    return [known[int(len(known) ** source.random()) - 1] for _ in range(number)]


def text(source: random.Random, name: str) -> str:
    """A message of 8 to 80 words that begins with a word of its own."""
    return f"{name} " + " ".join(words(source, source.randint(8, 80))) + "."


def question(source: random.Random) -> str:
    return " ".join(words(source, QUESTION_WORDS))


def consolidation(source: random.Random) -> Consolidation:
    (end,) = source.choices(("commit", "renew", "release", "leave"), (70, 10, 13, 7))
    return Consolidation(
        tier=1 if source.random() < 0.85 else 2,
        max_tokens=source.randint(1_000, 3_000),
        end=end,
        replay=source.random() < 0.2,
    )
