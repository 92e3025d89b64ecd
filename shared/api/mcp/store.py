"""The tool that writes raw memories."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from shared.api.mcp import texts
from shared.api.mcp.results import Result, Runs
from shared.api.models.tools import StoreMemory
from shared.domain.errors import Conflict
from shared.domain.text import check_text
from shared.usecases.ingest import NewMessage, ingest
from shared.usecases.services import Caller, Services

NAMESPACE = "tool:"
"""Parts a tool's words from the Idempotency-Keys of requests."""


def store_memory(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    sent = StoreMemory.of(given)
    check_text("text", sent.text)
    writer = replace(caller, session_id=sent.session_id or caller.session_id)
    once = None if sent.request_key is None else (NAMESPACE + sent.request_key, _hash(sent))
    try:
        answer: Any = ingest(services, writer, [NewMessage(sent.role, sent.text, sent.timestamp)], once)
    except Conflict as error:
        if error.code != "idempotency_mismatch":
            raise
        problem = "request_key: something else was stored under this word within a day"
        raise Conflict(problem, code=error.code, hint="Take another word for what is new.") from None
    receipt = {name: answer[name] for name in ("status", "stored", "session_id", "reflection")}
    return Result(receipt, "\n".join(["Stored, word for word.", *texts.suggestion(answer["reflection"])]))


def _hash(sent: StoreMemory) -> str:
    """Of what would be stored, however the call spells it; the session is compared by the use case."""
    covered = json.dumps([sent.role, sent.text, sent.timestamp], ensure_ascii=False)
    return hashlib.sha256(covered.encode()).hexdigest()


RUNS: Runs = {"store_memory": store_memory}
