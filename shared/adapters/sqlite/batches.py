"""Checkout, commit, release, renew and reopen, each in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from shared.adapters.sqlite.files import VaultFiles
from shared.adapters.sqlite.leases import (
    end_lease,
    fence_expired,
    insert_lease,
    open_leases,
    unpacked,
)
from shared.adapters.sqlite.outbox import Outbox
from shared.adapters.sqlite.rows import (
    BATCH_COLUMNS,
    COLUMNS,
    PLACEHOLDER,
    Counters,
    created_json,
    guard,
    in_chunks,
    insert_memories,
    marks,
    note_changes,
    read_debt,
    to_batch,
    to_memory,
)
from shared.domain import refusals
from shared.domain.batch import (
    MAX_LEASED_ROWS,
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
from shared.domain.lineage import covers_of, reflections_of
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget, Selection
from shared.domain.sizes import wire_bytes
from shared.ports.store import (
    CheckedOut,
    Committed,
    Lease,
    NothingFree,
    Released,
    Renewed,
    Reopened,
    SourcePage,
)

COMMITTED = (State.COMMITTED, State.SETTLED)


class BatchVerbs:
    """The part of the store that moves batches through their states."""

    def __init__(self, files: VaultFiles, outbox: Outbox, purged: Callable[[str, int], None]) -> None:
        """`purged` is told (vault id, first epoch kept) when dropped contents are off the disk."""
        self._files = files
        self._outbox = outbox
        self._purged = purged

    def checkout(self, vault: VaultRef, tier: int, budget: Budget, lease: Lease) -> CheckedOut | NothingFree:
        with self._files.database(vault).write() as connection:
            guard(connection)
            fence_expired(connection, tier, lease.now_ms)
            leases = open_leases(connection, tier)
            selection = Selection(budget)
            chosen: list[Memory] = []
            seqs: list[int] = []
            skipped = 0
            walk = connection.execute(
                "SELECT seq, tokens, importance FROM memory WHERE tier = ? AND consolidated_by IS NULL AND tier < 3"
                " ORDER BY pool, id",
                (tier,),
            )
            for seq, tokens, importance in walk:
                if seq in leases.seqs:
                    skipped += 1
                    continue
                if not seqs:
                    leases.check_room(lease.now_ms)
                row = connection.execute(f"SELECT {COLUMNS} FROM memory m WHERE m.seq = ?", (seq,)).fetchone()
                memory = to_memory(row)
                if not selection.take(tokens, importance or 0, wire_bytes(memory.text)):
                    break
                seqs.append(seq)
                chosen.append(memory)
                if selection.full or len(leases.seqs) + len(seqs) >= MAX_LEASED_ROWS:
                    break
            if not seqs:
                return NothingFree(skipped, leases.next_expiry_ms if skipped else None)
            batch = Batch(
                id=lease.batch_id,
                tier=tier,
                state=State.LEASED,
                count=len(seqs),
                tokens=selection.tokens,
                covers=covers_of(chosen),
                leased_ms=lease.now_ms,
                expires_ms=lease.now_ms + lease.lease_ms,
                lease_ms=lease.lease_ms,
            )
            insert_lease(connection, batch, seqs)
            return CheckedOut(batch, tuple(chosen))

    def commit(self, vault: VaultRef, batch_id: str, entries: Sequence[Entry], now_ms: int) -> Committed:
        answer: Committed | None = None
        refusal = lease_expired()
        with self._files.database(vault).write() as connection:
            seq, batch = self._header(connection, batch_id)
            if batch.state in COMMITTED:
                debt = read_debt(connection)
                created, consolidated = batch.created, batch.sources_consolidated
                return Committed(batch.id, batch.tier + 1, created, consolidated, True, debt)
            guard(connection)
            if batch.state is not State.LEASED:
                raise refuse_commit(batch)
            live = self._live_sources(connection, seq) if batch.expires_ms > now_ms else []
            if live:
                answer = self._settle(connection, seq, batch, entries, live, now_ms)
            else:
                # The batch is closed in this transaction; the refusal is raised after it, or it would undo that.
                refusal = lease_expired() if batch.expires_ms <= now_ms else sources_deleted()
                end_lease(connection, seq, State.EXPIRED)
        if answer is None:
            raise refusal
        self._outbox.note(vault)
        return answer

    def _live_sources(self, connection: sqlite3.Connection, seq: int) -> list[tuple[int, int, int, int]]:
        """(position, seq, tokens, importance) of the leased rows that still exist."""
        listed = connection.execute("SELECT seqs FROM lease_list WHERE batch = ?", (seq,)).fetchone()
        live = []
        for position, number in enumerate(unpacked(listed[0])):
            row = connection.execute(
                "SELECT tokens, importance FROM memory WHERE seq = ? AND consolidated_by IS NULL", (number,)
            ).fetchone()
            if row is not None:
                live.append((position, number, row[0], row[1] or 0))
        return live

    def _settle(
        self,
        connection: sqlite3.Connection,
        seq: int,
        batch: Batch,
        entries: Sequence[Entry],
        live: list[tuple[int, int, int, int]],
        now_ms: int,
    ) -> Committed:
        counters = Counters()
        connection.executemany(
            "UPDATE memory SET consolidated_by = ?, position = ? WHERE seq = ?",
            [(seq, position, number) for position, number, _, _ in live],
        )
        counters.pool(-1, batch.tier, sum(row[2] for row in live), sum(row[3] for row in live), rows=len(live))
        reflections = reflections_of(batch, entries, now_ms)
        insert_memories(connection, reflections, {batch.id: seq}, counters)
        counters.write(connection)
        created = tuple(Created(entry.id, entry.importance) for entry in entries)
        connection.execute(
            "UPDATE batch SET state = ?, committed = ?, created = ?, sources_consolidated = ?, sources_deleted = ?"
            " WHERE seq = ?",
            (State.SETTLED, now_ms, created_json(created), len(live), batch.count - len(live), seq),
        )
        connection.execute("DELETE FROM lease_list WHERE batch = ?", (seq,))
        return Committed(batch.id, batch.tier + 1, created, len(live), False, read_debt(connection))

    def release(self, vault: VaultRef, batch_id: str, now_ms: int) -> Released:
        with self._files.database(vault).write() as connection:
            seq, batch = self._header(connection, batch_id)
            if batch.state in COMMITTED:
                raise refusals.no_lease_to_give_back()
            if batch.state is State.REOPENED:
                raise refuse_commit(batch)
            if batch.state is not State.LEASED:
                return Released(batch.state, 0, read_debt(connection))
            guard(connection)
            if batch.expires_ms <= now_ms:
                end_lease(connection, seq, State.EXPIRED)
                return Released(State.EXPIRED, 0, read_debt(connection))
            returned = len(self._live_sources(connection, seq))
            end_lease(connection, seq, State.RELEASED)
            return Released(State.RELEASED, returned, read_debt(connection))

    def renew(self, vault: VaultRef, batch_id: str, now_ms: int) -> Renewed:
        with self._files.database(vault).write() as connection:
            seq, batch = self._header(connection, batch_id)
            if is_renewal_replay(batch, now_ms):
                return Renewed(batch.expires_ms, read_debt(connection))
            refusal = refuse_renewal(batch, now_ms)
            if refusal is not None:
                raise refusal
            guard(connection)
            expires = now_ms + batch.lease_ms
            connection.execute("UPDATE batch SET expires = ?, renewed = ? WHERE seq = ?", (expires, now_ms, seq))
            return Renewed(expires, read_debt(connection))

    def reopen(self, vault: VaultRef, batch_id: str, now_ms: int) -> Reopened:
        with self._files.database(vault).write() as connection:
            seq, batch = self._header(connection, batch_id)
            if batch.state is State.REOPENED:
                row = connection.execute("SELECT removed, returned FROM batch WHERE seq = ?", (seq,)).fetchone()
                return Reopened(row[0], row[1], read_debt(connection))
            if batch.state not in COMMITTED:
                raise refusals.never_committed()
            guard(connection)
            counters = Counters()
            removed = self._remove_reflections(connection, seq, batch, now_ms, counters)
            returned, tokens, importance = connection.execute(
                "SELECT COUNT(*), COALESCE(SUM(tokens), 0), COALESCE(SUM(importance), 0) FROM memory"
                " WHERE consolidated_by = ?",
                (seq,),
            ).fetchone()
            connection.execute(
                "UPDATE memory SET consolidated_by = NULL, position = NULL WHERE consolidated_by = ?", (seq,)
            )
            counters.pool(1, batch.tier, tokens, importance, rows=returned)
            counters.write(connection)
            connection.execute(
                "UPDATE batch SET state = ?, removed = ?, returned = ? WHERE seq = ?",
                (State.REOPENED, removed, returned, seq),
            )
            debt = read_debt(connection)
        self._outbox.note(vault)
        return Reopened(removed, returned, debt)

    def _remove_reflections(
        self, connection: sqlite3.Connection, seq: int, batch: Batch, now_ms: int, counters: Counters
    ) -> int:
        """Remove what the batch wrote. Raises `Conflict` when one of the rows is consolidated or leased."""
        rows = connection.execute(
            "SELECT seq, id, tier, tokens, importance, consolidated_by FROM memory WHERE origin = ?", (seq,)
        ).fetchall()
        fence_expired(connection, batch.tier + 1, now_ms)
        leased = open_leases(connection, batch.tier + 1).seqs
        if any(row[5] is not None or row[0] in leased for row in rows):
            raise refusals.reflections_in_use()
        for _, _, tier, tokens, importance, _ in rows:
            counters.row(-1, tier, tokens)
            counters.pool(-1, tier, tokens, importance)
        connection.execute("DELETE FROM memory WHERE origin = ?", (seq,))
        note_changes(connection, [(row[1],) for row in rows])
        return len(rows)

    def _header(self, connection: sqlite3.Connection, batch_id: str) -> tuple[int, Batch]:
        row = connection.execute(
            f"SELECT {BATCH_COLUMNS}, seq FROM batch WHERE id = ? AND state <> ?", (batch_id, PLACEHOLDER)
        ).fetchone()
        if row is None:
            raise refusals.unknown_batch()
        return row[-1], to_batch(row)

    def batch(self, vault: VaultRef, batch_id: str) -> Batch | None:
        return self.batches(vault, [batch_id]).get(batch_id)

    def batches(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, Batch]:
        found: dict[str, Batch] = {}
        with self._files.database(vault).read() as connection:
            for chunk in in_chunks(batch_ids):
                rows = connection.execute(
                    f"SELECT {BATCH_COLUMNS} FROM batch WHERE state <> ? AND id IN ({marks(len(chunk))})",
                    (PLACEHOLDER, *chunk),
                )
                found.update((row[0], to_batch(row)) for row in rows)
        return found

    def sources(self, vault: VaultRef, batch_id: str, offset: int, limit: int) -> SourcePage:
        with self._files.database(vault).read() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM memory m WHERE m.consolidated_by = (SELECT seq FROM batch WHERE id = ?)"
                " AND m.position >= ? ORDER BY m.position LIMIT ?",
                (batch_id, offset, limit + 1),
            ).fetchall()
        memories = tuple(map(to_memory, rows))
        following = memories[limit].position if len(memories) > limit else None
        return SourcePage(memories[:limit], following)

    def written_by(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, tuple[Memory, ...]]:
        found: dict[str, list[Memory]] = {}
        with self._files.database(vault).read() as connection:
            for chunk in in_chunks(batch_ids):
                rows = connection.execute(
                    f"SELECT {COLUMNS} FROM memory m WHERE m.origin IN"
                    f" (SELECT seq FROM batch WHERE id IN ({marks(len(chunk))})) ORDER BY m.origin, m.entry",
                    chunk,
                )
                for memory in map(to_memory, rows):
                    found.setdefault(memory.origin or "", []).append(memory)
        return {batch_id: tuple(memories) for batch_id, memories in found.items()}
