"""Relevance search: the index proposes, the store decides what exists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.domain import metering
from shared.domain.debt import Debt
from shared.domain.memory import TIERS, Memory
from shared.domain.sizes import fit
from shared.ports.search import Filters, Query
from shared.ports.telemetry import RETRIEVALS
from shared.usecases import metered
from shared.usecases.indexing import catch_up
from shared.usecases.models import chosen_model, meaning_of
from shared.usecases.rows import row_json
from shared.usecases.services import Answer, Caller, Services

# Where the index answers with rows that are gone, or more rows are wanted, it is asked again for this many times more.
WIDER = 4


@dataclass(frozen=True, slots=True)
class Found:
    """`debt` is the vault's, as it was read with the row."""

    memory: Memory
    score: float
    matched: bool
    debt: Debt


def search(
    services: Services,
    caller: Caller,
    query: str,
    limit: int,
    tiers: Sequence[int] | None,
    importance: int | None,
) -> Answer:
    """The `limit` best rows. Raises as `chosen_model`, and `Unavailable` (``search_unavailable``, and
    ``embedding_unavailable`` where words alone find nothing).
    """
    filters = filters_for(caller, tiers, importance)
    hits = found(services, caller, query, filters, limit)
    rows, truncated = fit([row_json(hit.memory, hit.score) for hit in hits])
    metered.record(services, caller, metering.SEARCH, sum(hit.memory.tokens for hit in hits[: len(rows)]))
    services.telemetry.record(RETRIEVALS)
    answer: Answer = {"memories": rows, "reflection": debt_with(services, caller, hits).block()}
    if truncated:
        answer["truncated"] = True
    return answer


def filters_for(caller: Caller, tiers: Sequence[int] | None, importance: int | None) -> Filters:
    return Filters(
        tiers=frozenset(TIERS if tiers is None else tiers), min_importance=importance, session_id=caller.session_id
    )


def found(services: Services, caller: Caller, query: str, filters: Filters, limit: int) -> list[Found]:
    """Exactly `limit` rows, best first, unless fewer exist."""
    rows: list[Found] = []
    for hit in ranked(services, caller, query, filters, limit):
        rows.append(hit)
        if len(rows) == limit:
            break
    return rows


def debt_with(services: Services, caller: Caller, hits: Sequence[Found]) -> Debt:
    """The vault's debt: as it was read with the last of the rows, where there are any."""
    return hits[-1].debt if hits else services.store.debt(caller.vault)


def ranked(services: Services, caller: Caller, query: str, filters: Filters, first: int) -> Iterator[Found]:
    """Live rows, best first, until the vault holds no more; the index is asked for `first` of them to begin with.

    Raises the model's `Unavailable` where the words find nothing: an answer would say that nothing is relevant.
    """
    # Not before a request comes: a cold function has less to load until then.
    from shared.retrieval.periods import periods

    vault = caller.vault
    meaning = meaning_of(services, chosen_model(services, caller), query)
    named = periods(query, services.clock.now_ms())
    asked_for = Query(query, meaning.vector, meaning.noise, meaning.nearness, named)
    catch_up(services, vault)
    seen: set[str] = set()
    asked, ceiling = first, 1.0
    while True:
        hits = services.index.search(vault, asked_for, filters, asked)
        if not seen and meaning.refusal is not None and hits and not any(hit.matched for hit in hits):
            raise meaning.refusal
        fresh = [hit for hit in hits if hit.memory_id not in seen]
        memories, debt = (
            services.store.get_with_debt(vault, [hit.memory_id for hit in fresh]) if fresh else ({}, Debt())
        )
        for hit in fresh:
            seen.add(hit.memory_id)
            # A row that was indexed between two questions may come late with a high score; scores never rise.
            ceiling = round(min(max(hit.score, 0.0), ceiling), 6)
            if hit.memory_id in memories:
                yield Found(memories[hit.memory_id], ceiling, hit.matched, debt)
        if len(hits) < asked:
            return
        asked *= WIDER
