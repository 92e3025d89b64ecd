"""Tools of the consolidation transaction. No memory id ever appears: the server owns the lineage of a batch."""

from __future__ import annotations

from typing import Any

from shared.api.mcp import texts
from shared.api.mcp.results import Result, Runs
from shared.api.models.tools import CommitReflections, ConsolidateMemories
from shared.usecases.consolidate import checkout, commit
from shared.usecases.services import Caller, Services

_BATCH = ("batch_id", "tier", "count", "lease_expires_at", "memories", "reflection_contract")
_NOTHING = ("batch_id", "tier", "count", "message", "leased", "next_expiry")


def consolidate_memories(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    sent = ConsolidateMemories.of(given)
    answer: Any = checkout(services, caller, sent.tier, sent.max_tokens)
    if answer["batch_id"] is None:
        leased = f" {answer['leased']} are leased until {answer['next_expiry']}." if answer["leased"] else ""
        return Result({name: answer[name] for name in _NOTHING}, f"There is nothing to consolidate.{leased}")
    # Named one by one: what checkout may tell more of some day stays out of a model's sight.
    batch = {name: answer[name] for name in _BATCH}
    batch["memories"] = [{"text": each["text"], "date": each["date"]} for each in answer["memories"]]
    kind = texts.KINDS[batch["tier"]]
    brief = [
        f"Batch {batch['batch_id']}, leased until {batch['lease_expires_at']}. Write reflections of the"
        f" {texts.counted(batch['count'], kind)} below, as the contract says, and call commit_reflections with this"
        " batch_id. Where the contract says to answer with an array, give that array as `entries`.",
        "",
        batch["reflection_contract"]["instructions"],
        "",
    ]
    lines = [
        *brief,
        f"What to reflect on, oldest first. {texts.NOTICE}",
        *(f"[{each['date']}] {texts.quoted(each['text'])}" for each in batch["memories"]),
    ]
    return Result(batch, "\n".join(lines), "\n".join(brief))


def commit_reflections(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    sent = CommitReflections.of(given)
    answer: Any = commit(services, caller, sent.batch_id, sent.pairs())
    done = {
        "tier": answer["tier"],
        "committed": answer["committed"],
        "already_committed": answer["already_committed"],
        "entries_created": len(answer["created"]),
        "sources_consolidated": answer["sources_consolidated"],
        "debt": answer["reflection"],
    }
    again = "It was committed already; this is its first answer." if done["already_committed"] else "Committed."
    entries, sources = texts.counted(done["entries_created"], "entry"), done["sources_consolidated"]
    said = f"{again} Stored {entries} for {texts.counted(sources, 'memory')}."
    return Result(done, f"{said} {texts.debt(answer['reflection'])}")


RUNS: Runs = {"consolidate_memories": consolidate_memories, "commit_reflections": commit_reflections}
