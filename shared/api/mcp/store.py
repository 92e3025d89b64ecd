"""The tool that writes raw memories."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from shared.api.mcp import texts
from shared.api.mcp.results import Result, Runs
from shared.api.models.tools import StoreMemory
from shared.domain.text import check_text
from shared.usecases.ingest import NewMessage, ingest
from shared.usecases.services import Caller, Services


def store_memory(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    sent = StoreMemory.of(given)
    check_text("text", sent.text)
    writer = caller if sent.session_id is None else replace(caller, session_id=sent.session_id)
    once = None if sent.request_key is None else (sent.request_key, _hash(given))
    answer: Any = ingest(services, writer, [NewMessage(sent.role, sent.text, sent.timestamp)], once)
    receipt = {name: answer[name] for name in ("status", "stored", "session_id", "reflection")}
    return Result(receipt, "\n".join(["Stored, word for word.", *texts.suggestion(answer["reflection"])]))


def _hash(given: dict[str, object]) -> str:
    covered = json.dumps(given, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.sha256(covered).hexdigest()


RUNS: Runs = {"store_memory": store_memory}
