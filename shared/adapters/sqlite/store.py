"""The memory store on SQLite: every verb is one transaction of the vault's own file."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from shared.adapters.sqlite.batches import BatchVerbs
from shared.adapters.sqlite.restoring import RestoreVerbs
from shared.adapters.sqlite.rows import (
    COLUMNS,
    Counters,
    Row,
    guard,
    in_chunks,
    insert_memories,
    marks,
    note_changes,
    read_debt,
    to_bytes,
    to_id,
    to_memory,
)
from shared.domain.debt import Debt
from shared.domain.memory import RAW, TIERS, Memory, VaultRef
from shared.domain.refusals import another_body
from shared.ports.store import Appended, Deleted, Idempotency, SortKey, TimelineQuery, Totals

ID_BYTES = 16
MOST_DIGITS = 15
"""Of the milliseconds between the first and the last date there may be."""
SPAN_DIGITS = f"(VALUES {','.join(f'({n},{10**n})' for n in range(1, MOST_DIGITS + 1))}) AS d CROSS JOIN "
# Each number of digits has its own short range of `memory_span`.
SPANS = (
    "m.tier > 1 AND length(m.date - m.covers_from) = d.column1"
    " AND m.date >= ? AND m.date < ? + d.column2 AND m.covers_from < ?"
)


class SqliteStore(BatchVerbs, RestoreVerbs):
    """`shared.ports.store.MemoryStore`. Settling happens in the committing transaction."""

    def append(self, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int) -> Appended:
        with self._files.database(vault).write() as connection:
            guard(connection)
            if once is not None:
                first = self._first_answer(connection, once, now_ms)
                if first is not None:
                    return Appended(first, read_debt(connection), replayed=True)
            counters = Counters()
            insert_memories(connection, rows, {}, counters)
            counters.write(connection)
            if once is not None:
                connection.execute("DELETE FROM idempotency WHERE expires <= ?", (now_ms,))
                packed = b"".join(to_bytes(row.id) for row in rows)
                connection.execute(
                    "INSERT INTO idempotency VALUES (?,?,?,?)", (once.key_hash, once.body_hash, packed, once.expires_ms)
                )
            debt = read_debt(connection)
        self._outbox.note(vault)
        return Appended(tuple(row.id for row in rows), debt, replayed=False)

    def _first_answer(self, connection: sqlite3.Connection, once: Idempotency, now_ms: int) -> tuple[str, ...] | None:
        row = connection.execute(
            "SELECT body_hash, ids FROM idempotency WHERE key_hash = ? AND expires > ?", (once.key_hash, now_ms)
        ).fetchone()
        if row is None:
            return None
        if row[0] != once.body_hash:
            raise another_body()
        return tuple(to_id(row[1][start : start + ID_BYTES]) for start in range(0, len(row[1]), ID_BYTES))

    def debt(self, vault: VaultRef) -> Debt:
        with self._files.database(vault).read() as connection:
            return read_debt(connection)

    def totals(self, vault: VaultRef) -> Totals:
        with self._files.database(vault).read() as connection:
            rows1, rows2, rows3, tokens = connection.execute("SELECT rows1, rows2, rows3, tokens FROM vault").fetchone()
            oldest, newest = [], []
            for tier in TIERS:
                low, high = connection.execute(
                    "SELECT (SELECT date FROM memory WHERE tier = ?1 ORDER BY date LIMIT 1),"
                    " (SELECT date FROM memory WHERE tier = ?1 ORDER BY date DESC LIMIT 1)",
                    (tier,),
                ).fetchone()
                if low is not None:
                    oldest.append(low)
                    newest.append(high)
            # Walks the index from one session to the next instead of over every row.
            sessions = connection.execute(
                "WITH RECURSIVE s(session) AS (SELECT MIN(session) FROM memory WHERE session IS NOT NULL UNION ALL"
                " SELECT (SELECT MIN(m.session) FROM memory m WHERE m.session > s.session) FROM s"
                " WHERE s.session IS NOT NULL) SELECT COUNT(session) FROM s"
            ).fetchone()[0]
            return Totals(
                memories={1: rows1, 2: rows2, 3: rows3},
                tokens=tokens,
                oldest_ms=min(oldest, default=None),
                newest_ms=max(newest, default=None),
                sessions=sessions,
                pending=0,
                debt=read_debt(connection),
            )

    def get(self, vault: VaultRef, ids: Sequence[str]) -> dict[str, Memory]:
        return self.get_with_debt(vault, ids)[0]

    def get_with_debt(self, vault: VaultRef, ids: Sequence[str]) -> tuple[dict[str, Memory], Debt]:
        found: dict[str, Memory] = {}
        with self._files.database(vault).read() as connection:
            for chunk in in_chunks(map(to_bytes, ids)):
                rows = connection.execute(f"SELECT {COLUMNS} FROM memory m WHERE m.id IN ({marks(len(chunk))})", chunk)
                found.update((memory.id, memory) for memory in map(to_memory, rows))
            return found, read_debt(connection)

    def delete(self, vault: VaultRef, ids: Sequence[str], now_ms: int) -> Deleted:
        gone: list[tuple[str, int]] = []
        missing: list[str] = []
        with self._files.database(vault).write() as connection:
            guard(connection)
            counters = Counters()
            for memory_id in ids:
                tokens = self._delete_one(connection, to_bytes(memory_id), counters)
                if tokens is None:
                    missing.append(memory_id)
                else:
                    gone.append((memory_id, tokens))
            counters.write(connection)
        if gone:
            self._outbox.note(vault)
        return Deleted(tuple(gone), tuple(missing))

    def _delete_one(self, connection: sqlite3.Connection, raw: bytes, counters: Counters) -> int | None:
        row = connection.execute(
            "DELETE FROM memory WHERE id = ? RETURNING tier, tokens, importance, consolidated_by", (raw,)
        ).fetchall()
        if not row:
            return None
        tier, tokens, importance, batch = row[0]
        counters.row(-1, tier, tokens)
        if batch is None:
            counters.pool(-1, tier, tokens, importance or 0)
        else:
            connection.execute("UPDATE batch SET sources_deleted = sources_deleted + 1 WHERE seq = ?", (batch,))
        note_changes(connection, [(raw,)])
        return int(tokens)

    def session_ids(self, vault: VaultRef, session_id: str, limit: int) -> tuple[str, ...]:
        with self._files.database(vault).read() as connection:
            rows = connection.execute(
                "SELECT id FROM memory WHERE session = ? ORDER BY date, id LIMIT ?", (session_id, limit)
            )
            return tuple(to_id(row[0]) for row in rows)

    def timeline(self, vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]:
        direction = " DESC" if query.newest_first else ""
        statement = _walk("{when}", query, f"m.date{direction}, m.id{direction}")
        with self._files.database(vault).read() as connection:
            merged = heapq.merge(
                *(_in_order(connection, statement, tier, query) for tier in _tiers(query)),
                key=lambda row: (row[4], row[0]),
                reverse=query.newest_first,
            )
            return tuple(to_memory(row) for row in islice(merged, query.limit))

    def spanning(self, vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]:
        when, values = SPANS, [query.to_ms]
        if query.after is not None:
            when += f" AND m.id {'<' if query.newest_first else '>'} ?"
        statement = _walk(when, query, f"m.id{' DESC' if query.newest_first else ''}", SPAN_DIGITS)
        after = [] if query.after is None else [to_bytes(query.after[1])]
        with self._files.database(vault).read() as connection:
            walks = [
                connection.execute(statement, (tier, *values * 3, *after, *_importance(query), query.limit))
                for tier in _tiers(query) - {RAW}
            ]
            merged = heapq.merge(*walks, key=lambda row: row[0], reverse=query.newest_first)
            return tuple(to_memory(row) for row in islice(merged, query.limit))

    def export(self, vault: VaultRef, after: SortKey | None, limit: int) -> tuple[Memory, ...]:
        low = -(2**62) if after is None else after[0]
        query = TimelineQuery(low, 2**62, frozenset(TIERS), newest_first=False, limit=limit, after=after)
        return self.timeline(vault, query)

    def heal(self, vault: VaultRef, batch_id: str) -> None:
        """Nothing: every verb is one transaction."""

    def finish(self, vault: VaultRef, attempt: str) -> None:
        """Nothing: every verb is one transaction."""

    def purge(self, vault_id: str, below_epoch: int) -> None:
        self._files.drop(vault_id, below_epoch)
        self._purged(vault_id, below_epoch)


def _tiers(query: TimelineQuery) -> frozenset[int]:
    return query.tiers if query.min_importance is None else query.tiers - {RAW}


def _importance(query: TimelineQuery) -> tuple[int, ...]:
    return () if query.min_importance is None else (query.min_importance,)


def _walk(when: str, query: TimelineQuery, order: str, beside: str = "") -> str:
    """A walk over one tier: each has its own range of an index."""
    important = "" if query.min_importance is None else " AND m.importance >= ?"
    return f"SELECT {COLUMNS} FROM {beside}memory m WHERE m.tier = ? AND {when}{important} ORDER BY {order} LIMIT ?"


def _in_order(connection: sqlite3.Connection, statement: str, tier: int, query: TimelineQuery) -> Iterator[Row]:
    """Rows of a tier from `after` on: the rest of its instant, then the others. Asked together they would be searched
    for from the window's edge.
    """
    start, end = query.from_ms, query.to_ms
    rest = (*_importance(query), query.limit)
    asked: list[tuple[str, tuple[object, ...]]] = []
    if query.after is not None and start <= query.after[0] < end:
        instant, memory_id = query.after
        same = statement.format(when=f"m.date = ? AND m.id {'<' if query.newest_first else '>'} ?")
        asked.append((same, (tier, instant, to_bytes(memory_id), *rest)))
    if query.after is not None and query.newest_first:
        end = min(end, query.after[0])
    elif query.after is not None:
        start = max(start, query.after[0] + 1)
    asked.append((statement.format(when="m.date >= ? AND m.date < ?"), (tier, start, end, *rest)))
    # No generator that delegates to a cursor: dropped half way, it would close it, perhaps after its connection.
    return chain.from_iterable(connection.execute(text, values) for text, values in asked)
