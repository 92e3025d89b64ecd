"""Tools that read: searching, inspecting, status."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from shared.api.mcp import texts
from shared.api.mcp.results import Result, Runs
from shared.api.models.tools import (
    DateSearchMemories,
    Fetch,
    InspectMemory,
    MemoryStatus,
    Search,
    SearchMemories,
)
from shared.usecases.services import Answer, Caller, Services

MEMORY_URI = "memory://vault/memories/"
CONNECTOR_LIMIT = 10
PAGE_SOURCES = 50
"""Sources of a reflection in one answer: a conversation has less room than a program."""


def search_memories(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    from shared.usecases.search import search

    sent = SearchMemories.of(given)
    asker = replace(caller, session_id=sent.session_id or caller.session_id)
    answer: Any = search(services, asker, sent.query, sent.limit, sent.tiers, sent.importance)
    return Result(answer, "\n".join([texts.rows(answer["memories"]), *texts.suggestion(answer["reflection"])]))


def date_search_memories(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    from shared.usecases.date_search import date_search

    sent = DateSearchMemories.of(given)
    answer: Any = date_search(
        services,
        caller,
        from_=sent.from_,
        to=sent.to,
        query=sent.query,
        tiers=sent.tiers,
        max_tokens=sent.max_tokens,
        order=sent.order,
        importance=sent.importance,
        after_id=sent.after_id,
    )
    lines = [texts.rows(answer["memories"])]
    if answer["truncated"]:
        returned = answer["returned"]
        after = f", after_id {returned['after_id']}" if "after_id" in returned else ""
        lines.append(f"There are more. Returned so far: from {returned['from']} to {returned['to']}{after}.")
    return Result(answer, "\n".join([*lines, *texts.suggestion(answer["reflection"])]))


def inspect_memory(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    sent = InspectMemory.of(given)
    answer = _inspected(services, caller, sent.memory_id, sent.offset)
    head = [texts.NOTICE, texts.row({**answer, "id": answer["memory_id"]})]
    parents = [
        f"It went into: {texts.KINDS[parent['tier']]} {parent['id']}" for parent in answer.get("consolidated_into", ())
    ]
    sources: list[str] = []
    if "sources" in answer:
        deleted = answer["sources_deleted"]
        gone = f" ({deleted} deleted since)" if deleted else ""
        sources.append(f"Written from {texts.counted(answer['sources_total'], 'source')}{gone}:")
        sources += [texts.row(source) for source in answer["sources"]]
        if answer["truncated"]:
            sources.append(f"There are more: offset {answer['next_offset']}.")
    return Result(answer, "\n".join([*head, *parents, *sources]))


def search(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    from shared.usecases import search as searching

    found: Any = searching.search(services, caller, Search.of(given).query, CONNECTOR_LIMIT, None, None)
    results = [
        {"id": row["id"], "title": texts.title(row["content"]), "url": MEMORY_URI + row["id"]}
        for row in found["memories"]
    ]
    lines = [f"{result['id']} {texts.quoted(result['title'])}" for result in results]
    said = [f"{texts.counted(len(lines), 'result')}. {texts.NOTICE}", *lines] if lines else ["Nothing was found."]
    return Result({"results": results}, "\n".join(said))


def fetch(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    found = _inspected(services, caller, Fetch.of(given).id, 0)
    text = found["content"]
    metadata = {name: found[name] for name in ("tier", "role", "date", "importance", "session_id") if name in found}
    lineage: dict[str, Any] = {"consolidated_into": [parent["id"] for parent in found.get("consolidated_into", ())]}
    if "sources" in found:
        lineage |= {"sources": [source["id"] for source in found["sources"]], "sources_total": found["sources_total"]}
    answer: Answer = {
        "id": found["memory_id"],
        "title": texts.title(text),
        "text": text,
        "url": MEMORY_URI + found["memory_id"],
        "metadata": {**metadata, "lineage": lineage},
    }
    return Result(answer, f"{texts.NOTICE}\n{texts.row({**found, 'id': found['memory_id']})}")


def memory_status(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    MemoryStatus.of(given)
    totals = services.store.totals(caller.vault)
    block: Any = totals.debt.block()
    answer: Answer = {
        "connected": True,
        "vaultRef": vault_ref(caller),
        "storage": "strata",
        "totalMemories": sum(totals.memories.values()),
        "totalTokens": totals.tokens,
        "tiers": {str(tier): totals.memories.get(tier, 0) for tier in (1, 2, 3)},
        "grantedScopes": sorted(caller.scopes),
        "reflection": block,
    }
    tiers = ", ".join(f"{totals.memories.get(tier, 0)} in tier {tier}" for tier in (1, 2, 3))
    held = texts.counted(sum(totals.memories.values()), "memory")
    return Result(answer, f"The vault holds {held}: {tiers}. {texts.debt(block)}")


def vault_ref(caller: Caller) -> str:
    """A name for the vault that is the same under each of its keys and opens nothing."""
    return "vault_" + hashlib.sha256(caller.record.vault_id.encode()).hexdigest()[:12]


def _inspected(services: Services, caller: Caller, memory_id: str, offset: int) -> Any:
    from shared.usecases import inspect

    return inspect.inspect_memory(services, caller, memory_id, offset, PAGE_SOURCES)


RUNS: Runs = {
    "search_memories": search_memories,
    "date_search_memories": date_search_memories,
    "inspect_memory": inspect_memory,
    "search": search,
    "fetch": fetch,
    "memory_status": memory_status,
}
