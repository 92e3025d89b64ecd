"""Open leases of a vault: which rows they hold, and how they end."""

from __future__ import annotations

import sqlite3
from array import array
from dataclasses import dataclass

from shared.adapters.sqlite.rows import lease_values
from shared.domain import refusals
from shared.domain.batch import Batch, State


def packed(seqs: list[int]) -> bytes:
    return array("q", seqs).tobytes()


def unpacked(blob: bytes) -> list[int]:
    numbers = array("q")
    numbers.frombytes(blob)
    return numbers.tolist()


@dataclass(frozen=True, slots=True)
class OpenLeases:
    """The live leases of one tier. `seqs` are the numbers of the rows in them, deleted ones included."""

    batches: int
    seqs: frozenset[int]
    next_expiry_ms: int | None

    def check_room(self, now_ms: int) -> None:
        """Raises `RateLimited` when no further lease fits."""
        refusals.check_room(self.batches, len(self.seqs), self.next_expiry_ms, now_ms)


def fence_expired(connection: sqlite3.Connection, tier: int, now_ms: int) -> None:
    """Close every lease of the tier that has run out. A fenced batch can never commit."""
    connection.execute(
        "DELETE FROM lease_list WHERE batch IN"
        " (SELECT seq FROM batch WHERE state = 'leased' AND tier = ? AND expires <= ?)",
        (tier, now_ms),
    )
    connection.execute(
        "UPDATE batch SET state = ? WHERE state = 'leased' AND tier = ? AND expires <= ?",
        (State.EXPIRED, tier, now_ms),
    )


def open_leases(connection: sqlite3.Connection, tier: int) -> OpenLeases:
    batches = connection.execute(
        "SELECT b.expires, l.seqs FROM batch b JOIN lease_list l ON l.batch = b.seq"
        " WHERE b.state = 'leased' AND b.tier = ?",
        (tier,),
    ).fetchall()
    seqs: set[int] = set()
    for _, blob in batches:
        seqs.update(unpacked(blob))
    return OpenLeases(len(batches), frozenset(seqs), min((row[0] for row in batches), default=None))


def insert_lease(connection: sqlite3.Connection, batch: Batch, seqs: list[int]) -> None:
    """The two rows of a checkout, whatever the number of its sources."""
    connection.execute(
        "INSERT INTO batch (id, tier, state, count, tokens, covers_from, covers_to, leased, expires, lease)"
        " VALUES (?,?,?,?,?,?,?,?,?,?)",
        (batch.id, *lease_values(batch)),
    )
    connection.execute("INSERT INTO lease_list (batch, seqs) VALUES (last_insert_rowid(), ?)", (packed(seqs),))


def end_lease(connection: sqlite3.Connection, seq: int, state: State) -> None:
    """Move a leased batch to `state` and drop its list."""
    connection.execute("UPDATE batch SET state = ? WHERE seq = ?", (state, seq))
    connection.execute("DELETE FROM lease_list WHERE batch = ?", (seq,))
