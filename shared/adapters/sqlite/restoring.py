"""The store's part of an import: rows and batch headers written as they were, checked before they become visible."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from shared.adapters.sqlite.files import VaultFiles
from shared.adapters.sqlite.outbox import Outbox
from shared.adapters.sqlite.rows import (
    PLACEHOLDER,
    Counters,
    created_json,
    guard,
    insert_memories,
    lease_values,
    to_bytes,
)
from shared.domain.batch import Batch
from shared.domain.errors import InvalidRequest, StaleEpoch
from shared.domain.memory import Memory, VaultRef


class RestoreVerbs:
    """The part of the store that takes an export back."""

    _files: VaultFiles
    _outbox: Outbox

    def restore(self, vault: VaultRef, rows: Sequence[Memory], batches: Sequence[Batch], now_ms: int) -> int:
        with self._files.database(vault).write() as connection:
            guard(connection)
            if _imported(connection) and not _holds_all(connection, rows):
                raise StaleEpoch("The import was finished while this page was sent.")
            for batch in batches:
                self._restore_header(connection, batch)
            named = {name for row in rows for name in (row.origin, row.consolidated_by) if name is not None}
            seqs = {name: self._batch_seq(connection, name) for name in named}
            counters = Counters()
            insert_memories(connection, rows, seqs, counters, keep_existing=True)
            counters.write(connection)
            total = connection.execute("SELECT rows1 + rows2 + rows3 FROM vault").fetchone()[0]
        self._outbox.note(vault)
        return int(total)

    def _batch_seq(self, connection: sqlite3.Connection, batch_id: str) -> int:
        """The number of a batch; one whose header has not come yet is given a place to wait for it."""
        connection.execute("INSERT OR IGNORE INTO batch (id, state) VALUES (?, ?)", (batch_id, PLACEHOLDER))
        return int(connection.execute("SELECT seq FROM batch WHERE id = ?", (batch_id,)).fetchone()[0])

    def _restore_header(self, connection: sqlite3.Connection, batch: Batch) -> None:
        seq = self._batch_seq(connection, batch.id)
        connection.execute(
            "UPDATE batch SET tier = ?, state = ?, count = ?, tokens = ?, covers_from = ?, covers_to = ?, leased = ?,"
            " expires = ?, lease = ?, renewed = ?, committed = ?, created = ?, sources_consolidated = ?,"
            " sources_deleted = ? WHERE seq = ? AND state = ?",
            (
                *lease_values(batch),
                batch.renewed_ms,
                batch.committed_ms,
                created_json(batch.created),
                batch.sources_consolidated,
                batch.sources_deleted,
                seq,
                PLACEHOLDER,
            ),
        )

    def seal(self, vault: VaultRef) -> bool:
        with self._files.database(vault).write() as connection:
            changed = connection.execute("UPDATE vault SET sealed = 1 WHERE rows1 + rows2 + rows3 = 0")
            return changed.rowcount == 1

    def complete_import(self, vault: VaultRef) -> None:
        with self._files.database(vault).write() as connection:
            if _imported(connection):
                return
            awaited = connection.execute("SELECT id FROM batch WHERE state = ? LIMIT 1", (PLACEHOLDER,)).fetchone()
            if awaited is not None:
                raise InvalidRequest(
                    f"The import is incomplete: no line carried the batch {awaited[0]}.",
                    hint="Send every page of the export, then finish.",
                )
            twice = connection.execute(
                "SELECT (SELECT id FROM batch WHERE seq = consolidated_by), position FROM memory"
                " WHERE consolidated_by IS NOT NULL GROUP BY consolidated_by, position HAVING COUNT(*) > 1 LIMIT 1"
            ).fetchone()
            if twice is not None:
                raise InvalidRequest(f"Two lines claim position {twice[1]} of batch {twice[0]}.")
            wrong = connection.execute(
                "SELECT b.id FROM memory m JOIN batch b ON b.seq = m.consolidated_by"
                " WHERE b.tier <> m.tier OR m.position >= b.count"
                " UNION ALL SELECT b.id FROM memory m JOIN batch b ON b.seq = m.origin WHERE b.tier <> m.tier - 1"
                " LIMIT 1"
            ).fetchone()
            if wrong is not None:
                raise InvalidRequest(f"Lines disagree about the batch {wrong[0]}.")
            # A source that was deleted between two pages of the export is on neither of them.
            connection.execute(
                "UPDATE batch SET sources_deleted = count -"
                " (SELECT COUNT(*) FROM memory m WHERE m.consolidated_by = batch.seq)"
            )
            connection.execute("UPDATE vault SET imported = 1")


def _imported(connection: sqlite3.Connection) -> bool:
    """Whether the content was checked as a whole: from then on a page can only repeat what is there."""
    return bool(connection.execute("SELECT imported FROM vault").fetchone()[0])


def _holds_all(connection: sqlite3.Connection, rows: Sequence[Memory]) -> bool:
    known = "SELECT 1 FROM memory WHERE id = ?"
    return all(connection.execute(known, (to_bytes(row.id),)).fetchone() is not None for row in rows)
