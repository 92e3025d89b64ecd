"""The promises of the store, read off a vault that has come to rest. Only the ports are used, no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.domain.batch import Batch, Entry, State
from shared.domain.errors import Conflict, StaleEpoch
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import ChangeFeed, CheckedOut, Lease, MemoryStore
from tests.contract.model import recount
from tests.contract.rows import everything, uuid7

COMMITTED = (State.COMMITTED, State.SETTLED)
BEFORE_EVERYTHING = -(2**40)


def audit(store: MemoryStore, feed: ChangeFeed, vault: VaultRef, batch_ids: Sequence[str]) -> None:
    """Raises `AssertionError` for a vault that breaks a promise. Consolidates everything on the way."""
    try:
        rows = everything(store, vault)
    except StaleEpoch:
        return
    batches = store.batches(vault, batch_ids)
    check_counters(store, vault, rows)
    check_lineage(store, vault, rows, batches)
    waiting = {change.memory_id for change in feed.pending(vault, 1_000_000)}
    assert waiting >= {row.id for row in rows}, "a row was never handed to the index"
    try:
        drain(store, vault, [batch for batch in batches.values() if batch.state is State.LEASED])
    except StaleEpoch:
        assert not rows, "a content with rows was sealed"


def check_counters(store: MemoryStore, vault: VaultRef, rows: Sequence[Memory]) -> None:
    totals = store.totals(vault)
    assert store.debt(vault) == totals.debt == recount(rows), "debt is not what a recount gives"
    assert totals.memories == {tier: sum(row.tier == tier for row in rows) for tier in (1, 2, 3)}
    assert totals.tokens == sum(row.tokens for row in rows)


def check_lineage(store: MemoryStore, vault: VaultRef, rows: Sequence[Memory], batches: dict[str, Batch]) -> None:
    """Consolidated rows and reflections belong to committed batches, and each such batch counts its own rows."""
    for row in rows:
        for named in (row.consolidated_by, row.origin):
            assert named is None or batches[named].state in COMMITTED, f"{named} is not committed but has rows"
    for batch in batches.values():
        sources = every_source(store, vault, batch.id)
        marked = [row.id for row in rows if row.consolidated_by == batch.id]
        if batch.state in COMMITTED:
            assert sorted(row.id for row in sources) == sorted(marked)
            assert batch.count == len(sources) + batch.sources_deleted, f"{batch.id} has lost count of its sources"
            assert len(sources) <= batch.sources_consolidated <= batch.count
            written = {row.id for row in rows if row.origin == batch.id}
            assert written <= {created.id for created in batch.created}
        else:
            assert not marked


def every_source(store: MemoryStore, vault: VaultRef, batch_id: str) -> list[Memory]:
    rows: list[Memory] = []
    offset: int | None = 0
    while offset is not None:
        page = store.sources(vault, batch_id, offset, 1000)
        rows.extend(page.memories)
        offset = page.next_offset
    return rows


def drain(store: MemoryStore, vault: VaultRef, leased: Iterable[Batch]) -> None:
    """Commit what is leased, then check out and commit the rest: every row must become a source exactly once.

    That shows what no answer shows: which rows each open lease really holds.
    """
    before = {row.id: row for row in everything(store, vault)}
    number, seen = 2**31, {row.id for row in before.values() if row.consolidated_by is not None}
    open_ids = [batch.id for batch in leased]
    for tier in (1, 2):
        wanted = {row.id for row in before.values() if row.tier == tier and row.consolidated_by is None}
        names = [batch_id for batch_id in open_ids if store.batches(vault, [batch_id])[batch_id].tier == tier]
        while True:
            number += 1
            name = f"cb_{number:032x}"
            found = store.checkout(vault, tier, Budget(), Lease(name, BEFORE_EVERYTHING, 1))
            if not isinstance(found, CheckedOut):
                break
            names.append(name)
        for name in names:
            number += 1
            try:
                store.commit(vault, name, [Entry(uuid7(number), "drained", 1, 2)], BEFORE_EVERYTHING)
            except Conflict as refusal:
                if refusal.code != "sources_deleted":
                    raise AssertionError(f"an open lease took no commit: {refusal.code}") from refusal
                continue
            taken = [row.id for row in every_source(store, vault, name)]
            assert not seen & set(taken), "a row was consolidated twice"
            seen.update(taken)
        assert wanted <= seen, "a row is neither free nor leased"
    rows = everything(store, vault)
    assert {row.id for row in rows} >= set(before)
    assert all(rows_after.text == before[rows_after.id].text for rows_after in rows if rows_after.id in before)
    check_counters(store, vault, rows)
