"""Rows as answers show them."""

from __future__ import annotations

from shared.domain.memory import Memory
from shared.domain.times import to_text
from shared.domain.transfer import covers_json
from shared.usecases.services import Answer


def row_json(memory: Memory, score: float | None = None) -> Answer:
    """A row of search and date-search."""
    row: Answer = {
        "id": memory.id,
        "tier": memory.tier,
        "content": memory.text,
        "role": memory.role,
        "date": to_text(memory.date_ms),
    }
    if score is not None:
        row["score"] = score
    if memory.session_id is not None:
        row["session_id"] = memory.session_id
    if memory.covers is not None:
        row["importance"] = memory.importance
        row["covers"] = covers_json(memory.covers)
    return row


def source_json(memory: Memory) -> Answer:
    """A row among the sources of a reflection."""
    return {
        "id": memory.id,
        "tier": memory.tier,
        "content": memory.text,
        "role": memory.role,
        "importance": memory.importance,
        "date": to_text(memory.date_ms),
    }


def parent_json(memory: Memory) -> Answer:
    """A reflection that a row went into."""
    return {
        "id": memory.id,
        "tier": memory.tier,
        "importance": memory.importance,
        "date": to_text(memory.date_ms),
        "covers": covers_json(memory.covers),
    }
