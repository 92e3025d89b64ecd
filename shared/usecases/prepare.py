"""Context for a model's next answer: what the vault knows about the last messages, as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.domain import metering
from shared.domain.memory import HIGH_LEVEL, RAW, REFLECTION, Memory
from shared.domain.sizes import ROWS_BYTES, wire_bytes
from shared.domain.text import est_tokens, is_blank
from shared.domain.times import to_text
from shared.ports.telemetry import RETRIEVALS
from shared.usecases import metered
from shared.usecases.models import chosen_model
from shared.usecases.search import Found, debt_with, filters_for, found
from shared.usecases.services import Answer, Caller, Services

DENSITY: Final = {"low": 10, "default": 30, "high": 60, "xhigh": 120}
QUERY_TOKENS = 200
HEADINGS = {HIGH_LEVEL: "What it means:", REFLECTION: "What happened:", RAW: "Exact moments:"}
# Bytes of one row besides its text: dates, role, line breaks.
LINE_BYTES = 64


def prepare(
    services: Services,
    caller: Caller,
    messages: Sequence[tuple[str, str]],
    density: str,
    context_limit: int | None,
    tiers: Sequence[int] | None,
    importance: int | None,
) -> Answer:
    """`messages` are (role, text), oldest first. Only rows that match are shown. Raises as search does."""
    limit = DENSITY[density] if context_limit is None else context_limit
    query = query_from(messages)
    hits: list[Found] = []
    if limit and not is_blank(query):
        hits = found(services, caller, query, filters_for(caller, tiers, importance), limit)
    else:
        chosen_model(services, caller)
    rows = [hit for hit in hits if hit.matched]
    shown = _that_fit(rows)
    context = context_text([hit.memory for hit in shown])
    metered.record(services, caller, metering.PREPARE, sum(hit.memory.tokens for hit in shown))
    services.telemetry.record(RETRIEVALS)
    answer: Answer = {
        "context": context,
        "memories_found": len(shown),
        "tokens": est_tokens(context),
        "reflection": debt_with(services, caller, hits).block(),
    }
    if len(shown) < len(rows):
        answer["truncated"] = True
    return answer


def query_from(messages: Sequence[tuple[str, str]]) -> str:
    """The last message with text, and those before it while all stay within about 200 tokens; oldest first.

    System messages are left out: they describe the assistant, not what is being talked about.
    """
    texts: list[str] = []
    tokens = 0
    for role, text in reversed(messages):
        if role in ("system", "developer") or is_blank(text):
            continue
        tokens += est_tokens(text)
        if texts and tokens > QUERY_TOKENS:
            break
        texts.append(text)
    return "\n".join(reversed(texts))


def context_text(memories: Sequence[Memory]) -> str:
    """Tier 3, tier 2, then raw moments; oldest to newest within a tier. Empty without memories."""
    sections = []
    for tier, heading in HEADINGS.items():
        rows = sorted((row for row in memories if row.tier == tier), key=lambda row: (row.date_ms, row.id))
        if rows:
            sections.append("\n".join([heading, *(_line(row) for row in rows)]))
    return "\n\n".join(sections)


def _line(memory: Memory) -> str:
    if memory.covers is None:
        return f"[{_minute(memory.date_ms)}] {memory.role}: {memory.text}"
    first, last = to_text(memory.covers.from_ms)[:10], to_text(memory.covers.to_ms)[:10]
    return f"[{first}] {memory.text}" if first == last else f"[{first} to {last}] {memory.text}"


def _minute(ms: int) -> str:
    text = to_text(ms)
    return f"{text[:10]} {text[11:16]}"


def _that_fit(rows: Sequence[Found]) -> Sequence[Found]:
    size = 0
    for number, hit in enumerate(rows):
        size += wire_bytes(hit.memory.text) + wire_bytes(hit.memory.role) + LINE_BYTES
        if number and size > ROWS_BYTES:
            return rows[:number]
    return rows
