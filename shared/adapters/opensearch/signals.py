"""From hits, and from rows that the index does not hold yet, to the signals that the ranking takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shared.adapters.opensearch.chains import Chain, chains
from shared.adapters.opensearch.documents import Facts, hashed, neighbours, read_facts
from shared.adapters.opensearch.mapping import COUNTING, FIELDS
from shared.adapters.opensearch.query import AROUND, OWN, SAID, WITHIN, Question
from shared.adapters.opensearch.transport import Json
from shared.domain.memory import Memory
from shared.ports.search import Filters, RowSource
from shared.retrieval.ranking import Candidates
from shared.retrieval.words import counted_scores


class Seen(NamedTuple):
    """One passage: `counts` of the query's terms by field, and cosines, None where there is no vector."""

    facts: Facts
    counts: Mapping[tuple[int, int], float]
    said: bool
    within: bool
    own: float | None
    around: float | None


@dataclass(frozen=True, slots=True)
class Counted:
    """The whole vault: its passages, and how many of them hold each term, by field and term."""

    population: int
    frequencies: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=1_024)
def place_of(name: str) -> tuple[int, int]:
    """(field, term) of a named part of a query."""
    field, term = name.split(" ")
    return int(field), int(term)


def seen(hit: Json) -> Seen:
    named: Mapping[str, float] = hit.get("matched_queries", {})
    said, within, own, around = False, False, None, None
    counts: dict[tuple[int, int], float] = {}
    for name, score in named.items():
        if name == SAID:
            said = True
        elif name == WITHIN:
            within = True
        elif name == OWN:
            own = score - 1.0
        elif name == AROUND:
            around = score - 1.0
        else:
            counts[place_of(name)] = round(score / COUNTING)
    return Seen(read_facts(hit["fields"]["facts"][0]), counts, said, within, own, around)


def tail(rows: RowSource, missing: Sequence[Memory], asked: Question) -> list[Seen]:
    """Passages of rows that were written but not indexed yet, by their words alone."""
    wanted = {memory.id for memory in missing}
    found = []
    for chain in chains(rows, asked.vault, missing):
        for at, piece in enumerate(chain):
            if piece.memory.id in wanted:
                found.append(_unindexed(chain, at, asked))
    return found


def _unindexed(chain: Chain, at: int, asked: Question) -> Seen:
    piece = chain[at]
    fields = [
        Counter(word for each in neighbours(chain, at, reach) for word in each.words()) for reach in range(len(FIELDS))
    ]
    session = "" if piece.memory.session_id is None else hashed(piece.memory.session_id)
    lengths = [sum(words.values()) for words in fields]
    return Seen(
        facts=Facts(
            piece.memory.id, piece.number, piece.memory.tier, piece.memory.date_ms, session, hashed(piece.memory.role),
            (lengths[0], lengths[1], lengths[2]),
        ),
        counts={
            (field, place): float(words[term])
            for field, words in enumerate(fields)
            for place, term in enumerate(asked.terms)
            if words[term]
        },
        said=any(not set(asked.terms).isdisjoint(each.said) for each in neighbours(chain, at, 1)),
        within=any(_overlaps(piece.memory, period.from_ms, period.to_ms) for period in asked.periods),
        own=None,
        around=None,
    )  # fmt: skip


def passes(memory: Memory, filters: Filters) -> bool:
    """Whether the filters leave a row; the index asks the same of its documents."""
    return (
        memory.tier in filters.tiers
        and (filters.min_importance is None or (memory.importance or 0) >= filters.min_importance)
        and (filters.session_id is None or memory.session_id in (None, filters.session_id))
        and _overlaps(memory, filters.from_ms, filters.to_ms)
    )


def _overlaps(memory: Memory, from_ms: int | None, to_ms: int | None) -> bool:
    """Whether a row's date or coverage has a part in the window, open where a bound is None."""
    start = memory.date_ms if memory.covers is None else memory.covers.from_ms
    end = memory.date_ms if memory.covers is None else memory.covers.to_ms
    return (from_ms is None or end >= from_ms) and (to_ms is None or start < to_ms)


def with_tail(counted: Counted, unindexed: Collection[Seen]) -> Counted:
    """The counts once these passages are part of the vault."""
    more = Counter(place for each in unindexed for place in each.counts)
    return Counted(
        counted.population + len(unindexed),
        tuple(
            tuple(frequency + more[field, place] for place, frequency in enumerate(frequencies))
            for field, frequencies in enumerate(counted.frequencies)
        ),
    )


def unique(passages: Iterable[Seen]) -> list[Seen]:
    """Each passage once, in one order for everyone: sums come out the same to the last bit."""
    return [
        passage for _, passage in sorted({(each.facts.memory_id, each.facts.number): each for each in passages}.items())
    ]


def candidates(
    asked: Question, passages: Sequence[Seen], counted: Counted, session_sizes: Mapping[str, int]
) -> Candidates:
    """`passages` as `unique` leaves them. `session_sizes` where some passages of a session are left out."""
    n = len(passages)
    counts = np.zeros((len(FIELDS), len(asked.terms), n), np.float32)
    for column, passage in enumerate(passages):
        for (field, place), times in passage.counts.items():
            counts[field, place, column] = times
    lengths = np.array([passage.facts.lengths for passage in passages], np.float32).reshape(n, len(FIELDS)).T
    own = np.array([0.0 if passage.own is None else passage.own for passage in passages], np.float32)
    around = np.array([0.0 if passage.around is None else passage.around for passage in passages], np.float32)
    has_vector = np.array([passage.own is not None for passage in passages], np.bool_)
    matched = np.array([passage.said for passage in passages], np.bool_)
    if asked.vector is not None:
        matched |= has_vector & (own > asked.noise)
    speaks = None
    if asked.speaker:
        speaks = np.array([passage.facts.role == asked.speaker for passage in passages], np.bool_)
        matched |= speaks
    within = None
    if asked.periods:
        within = np.array([passage.within for passage in passages], np.bool_)
        if asked.only_when:
            matched |= within
    rows: dict[str, int] = {}
    memory = np.array([rows.setdefault(passage.facts.memory_id, len(rows)) for passage in passages], np.int32)
    first = {passage.facts.memory_id: passage.facts for passage in reversed(passages)}
    ids = np.frombuffer(bytes.fromhex("".join(rows).replace("-", "")), ">u8").reshape(-1, 2).astype(np.uint64)
    codes: dict[str, int] = {}
    session = np.array(
        [codes.setdefault(each.facts.session, len(codes)) if each.facts.session else -1 for each in passages], np.int32
    )
    with_vector = asked.vector is not None and bool(has_vector.any())
    return Candidates(
        memory=memory,
        words=counted_scores(counts, lengths, counted.frequencies, max(1, counted.population)),
        matched=matched,
        session=session,
        has_vector=has_vector,
        own=own if with_vector else None,
        context=around if with_vector else None,
        speaks=speaks,
        within=within,
        tier=np.array([first[memory_id].tier for memory_id in rows], np.int8),
        date=np.array([first[memory_id].date_ms for memory_id in rows], np.int64),
        id_high=ids[:, 0],
        id_low=ids[:, 1],
        session_sizes=np.array([session_sizes.get(name, 0) for name in codes], np.int32) if session_sizes else None,
        nearness=asked.nearness,
    )
