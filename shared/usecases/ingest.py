"""Storing raw memories: messages of a conversation, or the lines of a file. All of them or none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from shared.domain import metering
from shared.domain.debt import Debt
from shared.domain.errors import InvalidRequest
from shared.domain.memory import RAW, Memory
from shared.domain.text import est_tokens
from shared.ports.store import Idempotency
from shared.ports.telemetry import INGESTED_MEMORIES
from shared.usecases import metered
from shared.usecases.imports import refuse_while_importing
from shared.usecases.models import bind, chosen_model
from shared.usecases.services import Answer, Caller, Services

IDEMPOTENCY_MS = 86_400_000
MAX_IDEMPOTENCY_KEY_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class NewMessage:
    """Text to remember, checked already. `date_ms` None means now."""

    role: str
    text: str
    date_ms: int | None = None


def ingest(
    services: Services, caller: Caller, messages: Sequence[NewMessage], idempotency: tuple[str, str] | None
) -> Answer:
    """Store messages in their order. `idempotency` is the client's key and a hash of the body.

    Raises `Conflict` (``import_open``, ``embedding_model_mismatch``, ``idempotency_mismatch``).
    """
    now_ms = services.clock.now_ms()
    once = _once(caller, idempotency, now_ms)
    refuse_while_importing(caller)
    ids, debt, tokens = _store(services, caller, messages, once, now_ms)
    if tokens is not None:
        metered.record(services, caller, metering.INGEST, tokens)
    return {
        "status": "accepted",
        "stored": len(ids),
        "ids": list(ids),
        "session_id": caller.session_id,
        "reflection": debt.block(),
    }


def upload(services: Services, caller: Caller, lines: Sequence[NewMessage], total_lines: int) -> Answer:
    """Store the lines of a file. `total_lines` counts those that are not blank."""
    refuse_while_importing(caller)
    ids, _, tokens = _store(services, caller, lines, None, services.clock.now_ms())
    metered.record(services, caller, metering.UPLOAD, tokens or 0)
    stored = len(ids)
    answer: Answer = {
        "status": "complete",
        "memoryKey": caller.masked,
        "vault": "core" if caller.session_id is None else "session",
        "stats": {
            "inputItems": total_lines,
            "inputTokens": tokens or 0,
            "chunks": stored,
            "stored": stored,
            "failed": 0,
            "total": total_lines,
            "processed": total_lines,
            "pending": 0,
        },
        "message": f"Stored {stored} memories.",
    }
    if caller.session_id is not None:
        answer["sessionId"] = caller.session_id
    return answer


def _store(
    services: Services, caller: Caller, messages: Sequence[NewMessage], once: Idempotency | None, now_ms: int
) -> tuple[tuple[str, ...], Debt, int | None]:
    """Ids, debt and the tokens newly stored; None for those when nothing is to be metered."""
    if messages:
        bind(services, caller)
    else:
        chosen_model(services, caller)
        # A request that stores nothing takes its Idempotency-Key all the same.
        if once is None:
            return (), services.store.debt(caller.vault), None
    rows = [
        Memory(
            id=memory_id,
            tier=RAW,
            text=message.text,
            role=message.role,
            date_ms=now_ms if message.date_ms is None else message.date_ms,
            tokens=est_tokens(message.text),
            created_ms=now_ms,
            session_id=caller.session_id,
        )
        for memory_id, message in zip(services.ids.memory_ids(len(messages)), messages, strict=True)
    ]
    appended = services.store.append(caller.vault, rows, once, now_ms)
    if appended.replayed or not rows:
        return appended.ids, appended.debt, None
    services.telemetry.record(INGESTED_MEMORIES, len(rows))
    return appended.ids, appended.debt, sum(row.tokens for row in rows)


def _once(caller: Caller, idempotency: tuple[str, str] | None, now_ms: int) -> Idempotency | None:
    if idempotency is None:
        return None
    key, body_hash = idempotency
    if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS:
        raise InvalidRequest.field("Idempotency-Key", f"must have 1 to {MAX_IDEMPOTENCY_KEY_CHARACTERS} characters")
    # The session stands beside the body: the same words under another session are another request.
    content = f"{len(body_hash)}:{body_hash}{'' if caller.session_id is None else ':' + caller.session_id}"
    return Idempotency(_sha256(key), _sha256(content), now_ms + IDEMPOTENCY_MS)


def _sha256(text: str) -> str:
    # Header values may hold bytes that decode to lone surrogates.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
