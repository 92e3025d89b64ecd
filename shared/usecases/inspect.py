"""Lineage of one memory: the sources below a reflection, the reflections above any row."""

from __future__ import annotations

from uuid import UUID

from shared.domain import metering
from shared.domain.errors import InvalidRequest, NotFound
from shared.domain.memory import RAW, Memory
from shared.domain.sizes import ROWS_BYTES, fit, wire_bytes
from shared.domain.times import to_text
from shared.domain.transfer import canonical_uuid, covers_json
from shared.usecases import metered
from shared.usecases.rows import parent_json, source_json
from shared.usecases.services import Answer, Caller, Services

MAX_SOURCES = 500


def inspect_memory(services: Services, caller: Caller, memory_id: str, offset: int, limit: int = MAX_SOURCES) -> Answer:
    """At most `limit` sources from `offset` on, a position in the batch of a reflection.

    Raises `InvalidRequest`, or `NotFound`.
    """
    canonical = canonical_uuid(memory_id)
    if canonical is None:
        raise InvalidRequest.field("memory_id", "must be a UUID", f"For example {UUID(int=0)}.")
    if offset < 0:
        raise InvalidRequest.field("offset", "must be an integer of 0 or more")
    memory = services.store.get(caller.vault, [canonical]).get(canonical)
    if memory is None:
        raise NotFound("There is no memory with this id.", hint="Search and date-search return ids.")
    answer: Answer = {
        "memory_id": memory.id,
        "tier": memory.tier,
        "content": memory.text,
        "role": memory.role,
        "date": to_text(memory.date_ms),
        "created_at": to_text(memory.created_ms),
    }
    if memory.session_id is not None:
        answer["session_id"] = memory.session_id
    if memory.consolidated_by is not None or memory.tier == RAW:
        answer["consolidated_into"] = _consolidated_into(services, caller, memory)
    tokens = 0
    if memory.origin is not None:
        tokens = _add_sources(services, caller, memory, memory.origin, offset, limit, answer)
    metered.record(services, caller, metering.INSPECT, tokens)
    return answer


def _consolidated_into(services: Services, caller: Caller, memory: Memory) -> list[Answer]:
    if memory.consolidated_by is None:
        return []
    written = services.store.written_by(caller.vault, [memory.consolidated_by])
    return [parent_json(parent) for parent in written.get(memory.consolidated_by, ())]


def _add_sources(
    services: Services, caller: Caller, memory: Memory, batch_id: str, offset: int, limit: int, answer: Answer
) -> int:
    """Add the reflection's side to `answer`; returns the tokens of the sources shown."""
    page = services.store.sources(caller.vault, batch_id, offset, limit)
    # Read after the sources: a source that is missing from them is counted.
    batch = services.store.batch(caller.vault, batch_id)
    shown, cut = fit([source_json(source) for source in page.memories], ROWS_BYTES - wire_bytes(answer))
    next_offset = page.memories[len(shown)].position if cut else page.next_offset
    answer["importance"] = memory.importance
    answer["batch_id"] = batch_id
    answer["covers"] = covers_json(memory.covers)
    answer["sources"] = shown
    answer["sources_total"] = batch.count if batch is not None else len(shown)
    answer["sources_deleted"] = batch.sources_deleted if batch is not None else 0
    answer["truncated"] = next_offset is not None
    answer["next_offset"] = next_offset
    return sum(source.tokens for source in page.memories[: len(shown)])
