"""The memory store as a page of plain Python: every rule at its most literal, nothing kept that could be counted.

Debt is counted from the rows each time, leases are looked up by walking the batches, and a verb is one function body.
The contract suite runs on it like on any adapter, and the adapters are compared with it call by call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from shared.domain.batch import (
    MAX_LEASED_ROWS,
    MAX_OPEN_BATCHES,
    Batch,
    Created,
    Entry,
    State,
    is_renewal_replay,
    lease_expired,
    refuse_commit,
    refuse_renewal,
    sources_deleted,
)
from shared.domain.debt import Debt
from shared.domain.errors import Conflict, InvalidRequest, NotFound, RateLimited, StaleEpoch
from shared.domain.memory import Covers, Memory, VaultRef
from shared.domain.selection import Budget, Selection
from shared.ports.store import (
    Appended,
    Change,
    CheckedOut,
    Committed,
    Deleted,
    Idempotency,
    Lease,
    NothingFree,
    Released,
    Renewed,
    Reopened,
    SortKey,
    SourcePage,
    TimelineQuery,
    Totals,
)

COMMITTED = (State.COMMITTED, State.SETTLED)


@dataclass
class Content:
    """What one epoch of one vault holds."""

    rows: dict[str, Memory] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)
    once: dict[str, tuple[Idempotency, tuple[str, ...]]] = field(default_factory=dict)
    undone: dict[str, tuple[int, int]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    changed: int = 0
    sealed: bool = False
    imported: bool = False

    def note(self, memory_id: str) -> None:
        self.changed += 1
        self.changes.append(Change(self.changed, memory_id))

    def live(self, batch_id: str) -> list[Memory]:
        return [self.rows[i] for i in self.sources.get(batch_id, ()) if i in self.rows]

    def debt(self) -> Debt:
        return recount(list(self.rows.values()))

    def open_batches(self, tier: int) -> list[Batch]:
        return [b for b in self.batches.values() if b.tier == tier and b.state is State.LEASED]

    def leased_ids(self, tier: int) -> set[str]:
        return {i for b in self.open_batches(tier) for i in self.sources[b.id]}

    def fence(self, batch_id: str) -> None:
        self.batches[batch_id] = replace(self.batches[batch_id], state=State.EXPIRED)

    def known(self, batch_id: str) -> Batch:
        if batch_id not in self.batches:
            raise NotFound("no such batch")
        return self.batches[batch_id]


def recount(rows: Sequence[Memory]) -> Debt:
    """The debt of a vault that holds exactly these rows."""
    raw = [m for m in rows if m.tier == 1 and m.consolidated_by is None]
    reflections = [m for m in rows if m.tier == 2 and m.consolidated_by is None]
    return Debt(
        raw_units=len(raw),
        raw_tokens=sum(m.tokens for m in raw),
        tier2_count=len(reflections),
        tier2_importance=sum(m.importance or 0 for m in reflections),
        tier2_tokens=sum(m.tokens for m in reflections),
    )


def wire_bytes(text: str) -> int:
    """As JSON in a body that is a JSON string itself: that is how a function hands its answer over."""
    return len(json.dumps(json.dumps(text, ensure_ascii=False), ensure_ascii=False).encode())


class ModelStore:
    """All vaults of one store. Not for threads. `current` may name the epoch above which nothing exists yet."""

    def __init__(self) -> None:
        self.current: dict[str, int] = {}
        self._contents: dict[VaultRef, Content] = {}
        self._floor: dict[str, int] = {}
        self._touched: list[VaultRef] = []

    def _read(self, vault: VaultRef) -> Content:
        if not self._floor.get(vault.vault_id, 0) <= vault.epoch <= self.current.get(vault.vault_id, vault.epoch):
            raise StaleEpoch("not the content of now")
        return self._contents.setdefault(vault, Content())

    def _write(self, vault: VaultRef) -> Content:
        content = self._read(vault)
        if content.sealed:
            raise StaleEpoch("sealed")
        return content

    def _touch(self, vault: VaultRef) -> None:
        if vault not in self._touched:
            self._touched.append(vault)

    def append(self, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int) -> Appended:
        content = self._write(vault)
        if once is not None and once.key_hash in content.once:
            first, ids = content.once[once.key_hash]
            if first.expires_ms > now_ms:
                if first.body_hash != once.body_hash:
                    raise Conflict("other body", code="idempotency_mismatch")
                return Appended(ids, content.debt(), replayed=True)
        for row in rows:
            row.text.encode()
        for row in rows:
            content.rows[row.id] = row
            content.note(row.id)
        ids = tuple(row.id for row in rows)
        if once is not None:
            content.once[once.key_hash] = (once, ids)
        self._touch(vault)
        return Appended(ids, content.debt(), replayed=False)

    def debt(self, vault: VaultRef) -> Debt:
        return self._read(vault).debt()

    def totals(self, vault: VaultRef) -> Totals:
        content = self._read(vault)
        rows = list(content.rows.values())
        dates = [m.date_ms for m in rows]
        return Totals(
            memories={tier: sum(m.tier == tier for m in rows) for tier in (1, 2, 3)},
            tokens=sum(m.tokens for m in rows),
            oldest_ms=min(dates, default=None),
            newest_ms=max(dates, default=None),
            sessions=len({m.session_id for m in rows} - {None}),
            pending=0,
            debt=content.debt(),
        )

    def get(self, vault: VaultRef, ids: Sequence[str]) -> dict[str, Memory]:
        rows = self._read(vault).rows
        return {i: rows[i] for i in ids if i in rows}

    def get_with_debt(self, vault: VaultRef, ids: Sequence[str]) -> tuple[dict[str, Memory], Debt]:
        return self.get(vault, ids), self.debt(vault)

    def checkout(self, vault: VaultRef, tier: int, budget: Budget, lease: Lease) -> CheckedOut | NothingFree:
        content = self._write(vault)
        for batch in content.open_batches(tier):
            if batch.expires_ms <= lease.now_ms:
                content.fence(batch.id)
        opened, leased = content.open_batches(tier), content.leased_ids(tier)
        pool = [m for m in content.rows.values() if m.tier == tier and m.consolidated_by is None and m.id not in leased]
        if not pool:
            held = len(leased & content.rows.keys())
            return NothingFree(held, min(b.expires_ms for b in opened) if held else None)
        if len(opened) >= MAX_OPEN_BATCHES or len(leased) >= MAX_LEASED_ROWS:
            raise RateLimited("too much is leased", retry_after=1)
        selection, chosen = Selection(budget), []
        for row in sorted(pool, key=lambda m: (m.pool_ms, m.id)):
            if selection.full or not selection.take(row.tokens, row.importance or 0, wire_bytes(row.text)):
                break
            chosen.append(row)
            if len(leased) + len(chosen) == MAX_LEASED_ROWS:
                break
        covers = Covers(
            min(m.covers.from_ms if m.covers else m.date_ms for m in chosen),
            max(m.covers.to_ms if m.covers else m.date_ms for m in chosen),
        )
        batch = Batch(
            id=lease.batch_id,
            tier=tier,
            state=State.LEASED,
            count=len(chosen),
            tokens=sum(m.tokens for m in chosen),
            covers=covers,
            leased_ms=lease.now_ms,
            expires_ms=lease.now_ms + lease.lease_ms,
            lease_ms=lease.lease_ms,
        )
        content.batches[batch.id] = batch
        content.sources[batch.id] = [m.id for m in chosen]
        return CheckedOut(batch, tuple(chosen))

    def commit(self, vault: VaultRef, batch_id: str, entries: Sequence[Entry], now_ms: int) -> Committed:
        content = self._write(vault)
        batch = content.known(batch_id)
        if batch.state in COMMITTED:
            return self._answer(content, batch, replay=True)
        if batch.state is not State.LEASED:
            raise refuse_commit(batch)
        if batch.expires_ms <= now_ms:
            content.fence(batch_id)
            raise lease_expired()
        live = content.live(batch_id)
        if not live:
            content.fence(batch_id)
            raise sources_deleted()
        created = tuple(Created(e.id, e.importance) for e in entries)
        for place, entry in enumerate(entries):
            content.rows[entry.id] = Memory(
                id=entry.id,
                tier=batch.tier + 1,
                text=entry.text,
                role="assistant",
                date_ms=batch.covers.to_ms,
                tokens=entry.tokens,
                created_ms=now_ms,
                importance=entry.importance,
                covers=batch.covers,
                origin=batch_id,
                entry=place,
            )
            content.note(entry.id)
        for place, source in enumerate(content.sources[batch_id]):
            if source in content.rows:
                content.rows[source] = replace(content.rows[source], consolidated_by=batch_id, position=place)
        batch = replace(
            batch,
            state=State.SETTLED,
            committed_ms=now_ms,
            created=created,
            sources_consolidated=len(live),
            sources_deleted=batch.count - len(live),
        )
        content.batches[batch_id] = batch
        self._touch(vault)
        return self._answer(content, batch, replay=False)

    @staticmethod
    def _answer(content: Content, batch: Batch, replay: bool) -> Committed:
        return Committed(batch.id, batch.tier + 1, batch.created, batch.sources_consolidated, replay, content.debt())

    def release(self, vault: VaultRef, batch_id: str, now_ms: int) -> Released:
        content = self._write(vault)
        batch = content.known(batch_id)
        if batch.state in COMMITTED:
            raise Conflict("committed", code="already_committed")
        if batch.state is State.REOPENED:
            raise Conflict("reopened", code="reopened")
        if batch.state is State.LEASED and batch.expires_ms <= now_ms:
            content.fence(batch_id)
        if content.batches[batch_id].state is not State.LEASED:
            return Released(content.batches[batch_id].state, 0, content.debt())
        content.batches[batch_id] = replace(batch, state=State.RELEASED)
        return Released(State.RELEASED, len(content.live(batch_id)), content.debt())

    def renew(self, vault: VaultRef, batch_id: str, now_ms: int) -> Renewed:
        content = self._write(vault)
        batch = content.known(batch_id)
        if is_renewal_replay(batch, now_ms):
            return Renewed(batch.expires_ms, content.debt())
        refusal = refuse_renewal(batch, now_ms)
        if refusal is not None:
            raise refusal
        batch = replace(batch, expires_ms=now_ms + batch.lease_ms, renewed_ms=now_ms)
        content.batches[batch_id] = batch
        return Renewed(batch.expires_ms, content.debt())

    def reopen(self, vault: VaultRef, batch_id: str, now_ms: int) -> Reopened:
        content = self._write(vault)
        batch = content.known(batch_id)
        if batch.state is State.REOPENED:
            return Reopened(*content.undone[batch_id], content.debt())
        if batch.state not in COMMITTED:
            raise Conflict("not committed", code="not_committed")
        written = [content.rows[c.id] for c in batch.created if c.id in content.rows]
        ids = {m.id for m in written}
        opened = content.open_batches(batch.tier + 1)
        holders = [b for b in opened if b.expires_ms > now_ms and ids & set(content.sources[b.id])]
        if holders or any(m.consolidated_by for m in written):
            raise Conflict("in use", code="reflections_in_use")
        for lapsed in opened:
            if lapsed.expires_ms <= now_ms:
                content.fence(lapsed.id)
        for row in written:
            del content.rows[row.id]
            content.note(row.id)
        returned = content.live(batch_id)
        for row in returned:
            content.rows[row.id] = replace(row, consolidated_by=None, position=None)
        content.undone[batch_id] = (len(written), len(returned))
        content.batches[batch_id] = replace(batch, state=State.REOPENED)
        self._touch(vault)
        return Reopened(len(written), len(returned), content.debt())

    def batch(self, vault: VaultRef, batch_id: str) -> Batch | None:
        return self._read(vault).batches.get(batch_id)

    def batches(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, Batch]:
        known = self._read(vault).batches
        return {i: known[i] for i in batch_ids if i in known}

    def sources(self, vault: VaultRef, batch_id: str, offset: int, limit: int) -> SourcePage:
        content = self._read(vault)
        header = content.batches.get(batch_id)
        ids = content.sources.get(batch_id, []) if header is not None and header.state in COMMITTED else []
        page: list[Memory] = []
        for place in range(offset, len(ids)):
            if ids[place] in content.rows:
                if len(page) == limit:
                    return SourcePage(tuple(page), place)
                page.append(content.rows[ids[place]])
        return SourcePage(tuple(page), None)

    def written_by(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, tuple[Memory, ...]]:
        rows = self._read(vault).rows.values()
        found = {i: sorted((m for m in rows if m.origin == i), key=lambda m: m.entry or 0) for i in batch_ids}
        return {i: tuple(written) for i, written in found.items() if written}

    def delete(self, vault: VaultRef, ids: Sequence[str], now_ms: int) -> Deleted:
        content = self._write(vault)
        gone: list[tuple[str, int]] = []
        missing: list[str] = []
        for memory_id in ids:
            row = content.rows.pop(memory_id, None)
            if row is None:
                missing.append(memory_id)
                continue
            gone.append((row.id, row.tokens))
            content.note(row.id)
            holders = [b.id for b in content.open_batches(row.tier) if row.id in content.sources[b.id]]
            for batch_id in [row.consolidated_by] if row.consolidated_by else holders:
                held = content.batches[batch_id]
                content.batches[batch_id] = replace(held, sources_deleted=held.sources_deleted + 1)
        if gone:
            self._touch(vault)
        return Deleted(tuple(gone), tuple(missing))

    def session_ids(self, vault: VaultRef, session_id: str, limit: int) -> tuple[str, ...]:
        rows = [m for m in self._read(vault).rows.values() if m.tier == 1 and m.session_id == session_id]
        return tuple(m.id for m in sorted(rows, key=lambda m: (m.date_ms, m.id))[:limit])

    def timeline(self, vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]:
        def key(memory: Memory) -> SortKey:
            return memory.date_ms, memory.id

        return self._page(vault, query, lambda m: query.from_ms <= m.date_ms < query.to_ms, key, query.after)

    def spanning(self, vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]:
        after = None if query.after is None else (0, query.after[1])
        return self._page(
            vault,
            query,
            lambda m: m.covers is not None and m.covers.from_ms < query.to_ms <= m.covers.to_ms,
            lambda m: (0, m.id),
            after,
        )

    def _page(
        self,
        vault: VaultRef,
        query: TimelineQuery,
        inside: Callable[[Memory], bool],
        key: Callable[[Memory], SortKey],
        after: SortKey | None,
    ) -> tuple[Memory, ...]:
        rows = [m for m in self._read(vault).rows.values() if m.tier in query.tiers and inside(m)]
        if query.min_importance is not None:
            rows = [m for m in rows if m.importance is not None and m.importance >= query.min_importance]
        if after is not None:
            rows = [m for m in rows if (key(m) < after if query.newest_first else key(m) > after)]
        return tuple(sorted(rows, key=key, reverse=query.newest_first)[: query.limit])

    def export(self, vault: VaultRef, after: SortKey | None, limit: int) -> tuple[Memory, ...]:
        rows = [m for m in self._read(vault).rows.values() if after is None or (m.date_ms, m.id) > after]
        return tuple(sorted(rows, key=lambda m: (m.date_ms, m.id))[:limit])

    def restore(self, vault: VaultRef, rows: Sequence[Memory], batches: Sequence[Batch], now_ms: int) -> int:
        content = self._write(vault)
        if content.imported and any(row.id not in content.rows for row in rows):
            raise StaleEpoch("imported")
        for row in rows:
            if row.id not in content.rows:
                content.rows[row.id] = row
                content.note(row.id)
        for batch in batches:
            content.batches.setdefault(batch.id, batch)
        self._touch(vault)
        return len(content.rows)

    def seal(self, vault: VaultRef) -> bool:
        content = self._read(vault)
        content.sealed = content.sealed or not content.rows
        return content.sealed

    def complete_import(self, vault: VaultRef) -> None:
        content = self._write(vault)
        if content.imported:
            return
        lists: dict[str, dict[int, str]] = {}
        for row in content.rows.values():
            for named in (row.origin, row.consolidated_by):
                if named is not None and named not in content.batches:
                    raise InvalidRequest(f"batch {named} is missing")
            if row.consolidated_by is not None and row.position is not None:
                places = lists.setdefault(row.consolidated_by, {})
                if row.position in places:
                    raise InvalidRequest(f"position {row.position} of {row.consolidated_by} is taken twice")
                places[row.position] = row.id
        for batch in content.batches.values():
            places = lists.get(batch.id, {})
            content.sources[batch.id] = [places.get(place, "") for place in range(batch.count)]
        content.imported = True

    def heal(self, vault: VaultRef, batch_id: str) -> None:
        pass

    def finish(self, vault: VaultRef, attempt: str) -> None:
        pass

    def purge(self, vault_id: str, below_epoch: int) -> None:
        self._floor[vault_id] = max(below_epoch, self._floor.get(vault_id, 0))
        for ref in [r for r in self._contents if r.vault_id == vault_id and r.epoch < below_epoch]:
            del self._contents[ref]

    def pending(self, vault: VaultRef, limit: int) -> tuple[Change, ...]:
        return tuple(self._read(vault).changes[:limit])

    def acknowledge(self, vault: VaultRef, changes: Sequence[Change]) -> None:
        content = self._read(vault)
        content.changes = [change for change in content.changes if change not in changes]

    def touched(self) -> tuple[VaultRef, ...]:
        touched, self._touched = tuple(self._touched), []
        return touched
