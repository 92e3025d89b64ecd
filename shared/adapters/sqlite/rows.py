"""Rows of the `memory` and `batch` tables as domain objects, and the counters that follow them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, TypeVar

from shared.domain.batch import Batch, Created, State
from shared.domain.debt import Debt
from shared.domain.errors import StaleEpoch
from shared.domain.memory import RAW, REFLECTION, Covers, Memory

COLUMNS = (
    "m.id, m.tier, m.text, m.role, m.date, m.tokens, m.written, m.session, m.importance, m.covers_from, m.covers_to,"
    " (SELECT id FROM batch WHERE seq = m.origin), m.entry,"
    " (SELECT id FROM batch WHERE seq = m.consolidated_by), m.position"
)
BATCH_COLUMNS = (
    "id, tier, state, count, tokens, covers_from, covers_to, leased, expires, lease, renewed, committed, created,"
    " sources_consolidated, sources_deleted"
)
T = TypeVar("T")
Row = tuple[Any, ...]
"""What SQLite returns; the columns' types are those of the schema."""

PLACEHOLDER = "awaited"
IN_CHUNK = 500


def to_bytes(memory_id: str) -> bytes:
    return bytes.fromhex(memory_id.replace("-", ""))


def to_id(raw: bytes) -> str:
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def to_memory(row: Row) -> Memory:
    (raw, tier, text, role, date, tokens, written, session, importance, start, end, origin, entry, by, position) = row
    covers = None if start is None else Covers(start, end)
    # By place: names cost a fifth of the call, and this one is made for every row that is read.
    return Memory(
        to_id(raw), tier, text, role, date, tokens, written, session, importance, covers, origin, entry, by, position
    )


def to_batch(row: Row) -> Batch:
    created = tuple(Created(item[0], item[1]) for item in json.loads(row[12]))
    return Batch(
        id=row[0],
        tier=row[1],
        state=State(row[2]),
        count=row[3],
        tokens=row[4],
        covers=Covers(row[5], row[6]),
        leased_ms=row[7],
        expires_ms=row[8],
        lease_ms=row[9],
        renewed_ms=row[10],
        committed_ms=row[11],
        created=created,
        sources_consolidated=row[13],
        sources_deleted=row[14],
    )


def lease_values(batch: Batch) -> tuple[int | str, ...]:
    """What a header holds from its checkout on: `tier` to `lease`, in the order of the columns."""
    return (
        batch.tier,
        batch.state,
        batch.count,
        batch.tokens,
        batch.covers.from_ms,
        batch.covers.to_ms,
        batch.leased_ms,
        batch.expires_ms,
        batch.lease_ms,
    )


def created_json(created: Iterable[Created]) -> str:
    return json.dumps([[item.id, item.importance] for item in created], separators=(",", ":"))


def in_chunks(items: Iterable[T], size: int = IN_CHUNK) -> Iterator[tuple[T, ...]]:
    iterator = iter(items)
    while chunk := tuple(islice(iterator, size)):
        yield chunk


def marks(count: int) -> str:
    """Placeholders for an ``IN`` list."""
    return ",".join("?" * count)


def guard(connection: sqlite3.Connection) -> None:
    """Refuse to write into a content that was dropped or sealed."""
    if connection.execute("SELECT sealed FROM vault").fetchone()[0]:
        raise StaleEpoch("The vault's content was replaced while the request ran.")


def read_debt(connection: sqlite3.Connection) -> Debt:
    row = connection.execute(
        "SELECT raw_units, raw_tokens, tier2_count, tier2_importance, tier2_tokens FROM vault"
    ).fetchone()
    return Debt(*row)


class Counters:
    """Changes of the vault's counters in one transaction, written by one statement at its end."""

    def __init__(self) -> None:
        self._rows = [0, 0, 0, 0]
        self._tokens = 0
        self._pool = [0, 0, 0, 0, 0]

    def row(self, sign: int, tier: int, tokens: int, rows: int = 1) -> None:
        """`rows` rows entered (+1) or left (-1) the vault, with `tokens` in all."""
        self._rows[tier] += sign * rows
        self._tokens += sign * tokens

    def pool(self, sign: int, tier: int, tokens: int, importance: int, rows: int = 1) -> None:
        """`rows` rows entered (+1) or left (-1) the pool of unconsolidated rows of their tier."""
        if tier == RAW:
            self._pool[0] += sign * rows
            self._pool[1] += sign * tokens
        elif tier == REFLECTION:
            self._pool[2] += sign * rows
            self._pool[3] += sign * importance
            self._pool[4] += sign * tokens

    def write(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE vault SET raw_units = raw_units + ?, raw_tokens = raw_tokens + ?, tier2_count = tier2_count + ?,"
            " tier2_importance = tier2_importance + ?, tier2_tokens = tier2_tokens + ?, rows1 = rows1 + ?,"
            " rows2 = rows2 + ?, rows3 = rows3 + ?, tokens = tokens + ?",
            (*self._pool, *self._rows[1:], self._tokens),
        )


def insert_memories(
    connection: sqlite3.Connection,
    memories: Sequence[Memory],
    batch_seqs: dict[str, int],
    counters: Counters,
    *,
    keep_existing: bool = False,
) -> None:
    """Write rows, their outbox entries and their share of the counters. `batch_seqs` numbers the batches they name."""
    verb = "INSERT OR IGNORE" if keep_existing else "INSERT"
    insert = (
        f"{verb} INTO memory (id, tier, text, role, date, tokens, written, session, importance, covers_from,"
        " covers_to, pool, origin, entry, consolidated_by, position)"
        " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    )
    rows = [
        (
            to_bytes(memory.id),
            memory.tier,
            memory.text,
            memory.role,
            memory.date_ms,
            memory.tokens,
            memory.created_ms,
            memory.session_id,
            memory.importance,
            None if memory.covers is None else memory.covers.from_ms,
            None if memory.covers is None else memory.covers.to_ms,
            memory.pool_ms,
            None if memory.origin is None else batch_seqs[memory.origin],
            memory.entry,
            None if memory.consolidated_by is None else batch_seqs[memory.consolidated_by],
            memory.position,
        )
        for memory in memories
    ]
    added = list(zip(memories, rows, strict=True))
    if keep_existing:
        # Only a statement of its own tells whether its row was there already.
        added = [pair for pair in added if connection.execute(insert, pair[1]).rowcount == 1]
    elif rows:
        connection.executemany(insert, rows)
    for (tier, pooled), alike in groupby((memory for memory, _ in added), key=_kind):
        group = list(alike)
        tokens = sum(memory.tokens for memory in group)
        counters.row(1, tier, tokens, len(group))
        if pooled:
            counters.pool(1, tier, tokens, sum(memory.importance or 0 for memory in group), len(group))
    note_changes(connection, [(row[0],) for _, row in added])


def _kind(memory: Memory) -> tuple[int, bool]:
    """Its tier, and whether it enters the pool."""
    return memory.tier, memory.consolidated_by is None


def note_changes(connection: sqlite3.Connection, raws: Sequence[tuple[bytes]]) -> None:
    """Put rows into the outbox of the search index."""
    if raws:
        connection.executemany("INSERT INTO outbox (id) VALUES (?)", raws)
