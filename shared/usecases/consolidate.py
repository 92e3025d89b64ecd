"""The consolidation transaction: check out, commit, release, renew, reopen."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain import contract, metering
from shared.domain.batch import Entry
from shared.domain.lineage import check_entries
from shared.domain.selection import budget_for
from shared.domain.text import est_tokens
from shared.domain.times import to_text
from shared.domain.transfer import covers_json
from shared.ports.store import Lease, NothingFree
from shared.ports.telemetry import COMMITTED_BATCHES, CONSOLIDATED_MEMORIES
from shared.usecases import metered
from shared.usecases.imports import refuse_while_importing
from shared.usecases.models import chosen_model
from shared.usecases.services import Answer, Caller, Services


def checkout(services: Services, caller: Caller, tier: int, max_tokens: float | None) -> Answer:
    """Lease the oldest unconsolidated rows of `tier` (1 or 2). Raises `RateLimited` when too much is leased."""
    refuse_while_importing(caller)
    chosen_model(services, caller)
    lease = Lease(services.ids.batch_id(), services.clock.now_ms(), services.policy.lease_ms)
    result = services.store.checkout(caller.vault, tier, budget_for(tier, max_tokens), lease)
    if isinstance(result, NothingFree):
        return {
            "batch_id": None,
            "count": 0,
            "message": "nothing unconsolidated",
            "tier": tier,
            "leased": result.leased,
            "next_expiry": None if result.next_expiry_ms is None else to_text(result.next_expiry_ms),
        }
    batch = result.batch
    metered.record(services, caller, metering.CHECKOUT, batch.tokens)
    return {
        "batch_id": batch.id,
        "tier": batch.tier,
        "count": batch.count,
        "est_tokens": batch.tokens,
        "covers": covers_json(batch.covers),
        "lease_expires_at": to_text(batch.expires_ms),
        "memories": [{"text": memory.text, "date": to_text(memory.date_ms)} for memory in result.memories],
        "source_ids": [memory.id for memory in result.memories],
        "reflection_contract": contract.reflection_contract(batch.tier),
        "tier_definitions": contract.tier_definitions(batch.tier),
    }


def commit(services: Services, caller: Caller, batch_id: str, entries: Sequence[tuple[str, int]]) -> Answer:
    """Write the reflections of a batch, or answer again what its first commit answered.

    Raises `InvalidRequest` before anything else, `NotFound`, and `Conflict` when the lease is gone.
    """
    check_entries(entries)
    refuse_while_importing(caller)
    chosen_model(services, caller)
    rows = [
        Entry(memory_id, text, importance, est_tokens(text))
        for memory_id, (text, importance) in zip(services.ids.memory_ids(len(entries)), entries, strict=True)
    ]
    done = services.store.commit(caller.vault, batch_id, rows, services.clock.now_ms())
    if not done.already_committed:
        metered.record(services, caller, metering.COMMIT, sum(row.tokens for row in rows))
        services.telemetry.record(COMMITTED_BATCHES)
        services.telemetry.record(CONSOLIDATED_MEMORIES, done.sources_consolidated)
    return {
        "batch_id": done.batch_id,
        "committed": True,
        "already_committed": done.already_committed,
        "tier": done.tier,
        "created": [{"id": created.id, "importance": created.importance} for created in done.created],
        "sources_consolidated": done.sources_consolidated,
        "reflection": done.debt.block(),
    }


def release(services: Services, caller: Caller, batch_id: str) -> Answer:
    """Give a lease back. Raises `NotFound`, or `Conflict` for a committed batch."""
    refuse_while_importing(caller)
    done = services.store.release(caller.vault, batch_id, services.clock.now_ms())
    return {
        "batch_id": batch_id,
        "state": done.state.value,
        "returned": done.returned,
        "reflection": done.debt.block(),
    }


def renew(services: Services, caller: Caller, batch_id: str) -> Answer:
    """Extend a lease, once. Raises `NotFound` or `Conflict`."""
    refuse_while_importing(caller)
    done = services.store.renew(caller.vault, batch_id, services.clock.now_ms())
    return {
        "batch_id": batch_id,
        "state": "leased",
        "lease_expires_at": to_text(done.expires_ms),
        "reflection": done.debt.block(),
    }


def reopen(services: Services, caller: Caller, batch_id: str) -> Answer:
    """Undo a consolidation. Raises `NotFound` or `Conflict`."""
    refuse_while_importing(caller)
    done = services.store.reopen(caller.vault, batch_id, services.clock.now_ms())
    return {
        "batch_id": batch_id,
        "state": "reopened",
        "reflections_removed": done.reflections_removed,
        "sources_returned": done.sources_returned,
        "reflection": done.debt.block(),
    }
