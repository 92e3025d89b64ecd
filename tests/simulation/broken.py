"""Stores with one mistake each. The simulation is worth what it finds here: every one of them must be caught.

A `Mistake` names the configurations in which it must show. `race` says that no call is wrong while it runs alone.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from shared.adapters.sqlite import batches, restoring
from shared.adapters.sqlite import rows as rows_module
from shared.adapters.sqlite import store as store_module
from shared.adapters.sqlite.database import Database
from shared.adapters.sqlite.leases import OpenLeases, end_lease, insert_lease, open_leases, unpacked
from shared.adapters.sqlite.rows import Counters, guard, insert_memories, note_changes, read_debt, to_bytes
from shared.adapters.sqlite.store import SqliteStore
from shared.domain.batch import Batch, Entry, State, refuse_renewal
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import (
    Appended,
    CheckedOut,
    Committed,
    Deleted,
    Idempotency,
    Lease,
    NothingFree,
    Released,
    Renewed,
    Reopened,
)

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mistake:
    name: str
    patch: Patch
    shows_in: Sequence[str]
    race: bool = True
    crashes: int = 0


MISTAKES: list[Mistake] = []


class Collecting:
    """Decorates patches; each is noted as a mistake in `mistakes`."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        self._mistakes = mistakes

    def __call__(self, name: str, *shows_in: str, race: bool = True, crashes: int = 0) -> Callable[[Patch], Patch]:
        def note(patch: Patch) -> Patch:
            self._mistakes.append(Mistake(name, patch, shows_in, race, crashes))
            return patch

        return note


mistake = Collecting(MISTAKES)


def switch(
    patch: pytest.MonkeyPatch, owner: object, name: str
) -> Callable[[Callable[..., Any]], AbstractContextManager[None]]:
    """Lets one thread at a time replace a function for itself alone."""
    original, mine = getattr(owner, name), threading.local()

    def dispatch(*arguments: Any) -> Any:
        return (getattr(mine, "instead", None) or original)(*arguments)

    @contextmanager
    def instead(replacement: Callable[..., Any]) -> Iterator[None]:
        mine.instead = replacement
        try:
            yield
        finally:
            mine.instead = None

    patch.setattr(owner, name, dispatch)
    return instead


def method(patch: pytest.MonkeyPatch, function: Callable[..., object]) -> None:
    patch.setattr(SqliteStore, function.__name__, function)


@mistake("every statement is a transaction of its own", "two checkouts", "delete and commit")
def _(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def write(self: Database, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        connection = self._take()
        try:
            yield connection
        finally:
            self._give_back(connection)

    patch.setattr(Database, "write", write)


@mistake("a write transaction begins as a reader", "two commits with other entries")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Database, "write", Database.read)


@mistake("rows are chosen in one transaction and leased in another", "two checkouts")
def _(patch: pytest.MonkeyPatch) -> None:
    def checkout(
        self: SqliteStore, vault: VaultRef, tier: int, budget: Budget, lease: Lease
    ) -> CheckedOut | NothingFree:
        kept: list[tuple[Batch, list[int]]] = []
        with instead(lambda _, batch, seqs: kept.append((batch, seqs))):
            found = original(self, vault, tier, budget, lease)
        with self._files.database(vault).write() as connection:
            for batch, seqs in kept:
                insert_lease(connection, batch, seqs)
        return found

    original, instead = SqliteStore.checkout, switch(patch, batches, "insert_lease")
    method(patch, checkout)


@mistake("leased rows are not skipped", "two checkouts", race=False)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batches, "open_leases", lambda *_: OpenLeases(0, frozenset(), None))


@mistake("a late commit is accepted", "two late commits and a checkout, clocks apart", race=False)
def _(patch: pytest.MonkeyPatch) -> None:
    def commit(self: SqliteStore, vault: VaultRef, batch_id: str, entries: Sequence[Entry], now_ms: int) -> Committed:
        return original(self, vault, batch_id, entries, now_ms - 10**9)

    original = SqliteStore.commit
    method(patch, commit)


@mistake("a reclaim does not fence", "checkout and commit at the expiry, clocks apart")
def _(patch: pytest.MonkeyPatch) -> None:
    clock = [0]

    def live(connection: sqlite3.Connection, tier: int) -> OpenLeases:
        found = connection.execute(
            "SELECT l.seqs FROM batch b JOIN lease_list l ON l.batch = b.seq"
            " WHERE b.state = 'leased' AND b.tier = ? AND b.expires > ?",
            (tier, clock[0]),
        ).fetchall()
        return OpenLeases(len(found), frozenset(seq for (blob,) in found for seq in unpacked(blob)), None)

    patch.setattr(batches, "fence_expired", lambda _, __, now_ms: clock.__setitem__(0, now_ms))
    patch.setattr(batches, "open_leases", live)


@mistake("a refused commit does not fence", "two late commits and a checkout, clocks apart")
def _(patch: pytest.MonkeyPatch) -> None:
    def ends(connection: sqlite3.Connection, seq: int, state: State) -> None:
        if state is not State.EXPIRED:
            end_lease(connection, seq, state)

    patch.setattr(batches, "end_lease", ends)


@mistake(
    "a commit reads in one transaction and writes in another", "two commits with other entries", "delete and commit"
)
def _(patch: pytest.MonkeyPatch) -> None:
    def commit(self: SqliteStore, vault: VaultRef, batch_id: str, entries: Sequence[Entry], now_ms: int) -> Committed:
        later: list[Any] = []

        def settle(_: SqliteStore, connection: sqlite3.Connection, *arguments: Any) -> Committed:
            later.append(arguments)
            return Committed(batch_id, 0, (), 0, False, read_debt(connection))

        with instead(settle):
            answer = original(self, vault, batch_id, entries, now_ms)
        for arguments in later:
            with self._files.database(vault).write() as connection:
                return self._settle(connection, *arguments)
        return answer

    original, instead = SqliteStore.commit, switch(patch, SqliteStore, "_settle")
    method(patch, commit)


def _mark_first(self: SqliteStore, vault: VaultRef, batch_id: str) -> None:
    with self._files.database(vault).write() as connection:
        seq, batch = self._header(connection, batch_id)
        if batch.state is State.LEASED:
            for position, number, _, _ in self._live_sources(connection, seq):
                connection.execute(
                    "UPDATE memory SET consolidated_by = ?, position = ? WHERE seq = ?", (seq, position, number)
                )


@mistake("sources are marked before the commit point", "a commit, its replay and a reader")
def _(patch: pytest.MonkeyPatch) -> None:
    def commit(self: SqliteStore, vault: VaultRef, batch_id: str, entries: Sequence[Entry], now_ms: int) -> Committed:
        with self._files.database(vault).read() as connection:
            seq, _ = self._header(connection, batch_id)
            listed = connection.execute("SELECT seqs FROM lease_list WHERE batch = ?", (seq,)).fetchone()
        _mark_first(self, vault, batch_id)
        with self._files.database(vault).write() as connection:
            if listed is not None:
                marked = [(number,) for number in unpacked(listed[0])]
                connection.executemany("UPDATE memory SET consolidated_by = NULL WHERE seq = ?", marked)
        return original(self, vault, batch_id, entries, now_ms)

    original = SqliteStore.commit
    method(patch, commit)


@mistake("a replay writes its entries again", "two commits with other entries", race=False)
def _(patch: pytest.MonkeyPatch) -> None:
    def commit(self: SqliteStore, vault: VaultRef, batch_id: str, entries: Sequence[Entry], now_ms: int) -> Committed:
        answer = original(self, vault, batch_id, entries, now_ms)
        if answer.already_committed:
            rows = [Memory(e.id, 2, e.text, "assistant", now_ms, e.tokens, now_ms, importance=1) for e in entries]
            self.append(vault, rows, None, now_ms)
        return answer

    original = SqliteStore.commit
    method(patch, commit)


@mistake("counters move after the rows", "ingest, delete and a reader of the counters")
def _(patch: pytest.MonkeyPatch) -> None:
    def append(
        self: SqliteStore, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int
    ) -> Appended:
        counters = Counters()
        with self._files.database(vault).write() as connection:
            guard(connection)
            insert_memories(connection, rows, {}, counters)
        with self._files.database(vault).write() as connection:
            counters.write(connection)
            return Appended(tuple(row.id for row in rows), read_debt(connection), replayed=False)

    method(patch, append)


@mistake("counters move before the rows", "ingest, delete and a reader of the counters", crashes=1)
def _(patch: pytest.MonkeyPatch) -> None:
    def delete(self: SqliteStore, vault: VaultRef, ids: Sequence[str], now_ms: int) -> Deleted:
        counters = Counters()
        with self._files.database(vault).write() as connection:
            for tokens, tier in connection.execute(
                f"SELECT tokens, tier FROM memory WHERE id IN ({','.join('?' * len(ids))})", [*map(to_bytes, ids)]
            ):
                counters.row(-1, tier, tokens)
                counters.pool(-1, tier, tokens, 0)
            counters.write(connection)
        with instead(lambda *_: None):
            return original(self, vault, ids, now_ms)

    original, instead = SqliteStore.delete, switch(patch, Counters, "write")
    method(patch, delete)


@mistake("a renewal looks first and writes later", "renew and reclaim")
def _(patch: pytest.MonkeyPatch) -> None:
    def renew(self: SqliteStore, vault: VaultRef, batch_id: str, now_ms: int) -> Renewed:
        with self._files.database(vault).read() as connection:
            seq, batch = self._header(connection, batch_id)
            refusal = refuse_renewal(batch, now_ms)
            if refusal is not None:
                raise refusal
        with self._files.database(vault).write() as connection:
            expires = now_ms + batch.lease_ms
            connection.execute("UPDATE batch SET expires = ?, renewed = ? WHERE seq = ?", (expires, now_ms, seq))
            return Renewed(expires, read_debt(connection))

    method(patch, renew)


@mistake("a release looks first and writes later", "release and commit")
def _(patch: pytest.MonkeyPatch) -> None:
    def release(self: SqliteStore, vault: VaultRef, batch_id: str, now_ms: int) -> Released:
        with self._files.database(vault).read() as connection:
            seq, batch = self._header(connection, batch_id)
            if batch.state is not State.LEASED:
                return Released(batch.state, 0, read_debt(connection))
        with self._files.database(vault).write() as connection:
            end_lease(connection, seq, State.RELEASED)
            return Released(State.RELEASED, batch.count, read_debt(connection))

    method(patch, release)


@mistake("a delete does not count the gap", "two deletes", race=False)
def _(patch: pytest.MonkeyPatch) -> None:
    def delete(self: SqliteStore, vault: VaultRef, ids: Sequence[str], now_ms: int) -> Deleted:
        answer = original(self, vault, ids, now_ms)
        with self._files.database(vault).write() as connection:
            connection.execute("UPDATE batch SET sources_deleted = 0")
        return answer

    original = SqliteStore.delete
    method(patch, delete)


@mistake("a delete decides on what it read before", "delete and commit")
def _(patch: pytest.MonkeyPatch) -> None:
    def delete(self: SqliteStore, vault: VaultRef, ids: Sequence[str], now_ms: int) -> Deleted:
        before = self.get(vault, ids)
        gone = [(i, before[i].tokens) for i in ids if i in before]
        with self._files.database(vault).write() as connection:
            guard(connection)
            counters = Counters()
            for memory_id, tokens in gone:
                connection.execute("DELETE FROM memory WHERE id = ?", (to_bytes(memory_id),))
                counters.row(-1, before[memory_id].tier, tokens)
                counters.pool(-1, before[memory_id].tier, tokens, before[memory_id].importance or 0)
            counters.write(connection)
            note_changes(connection, [(to_bytes(memory_id),) for memory_id, _ in gone])
        return Deleted(tuple(gone), tuple(i for i in ids if i not in before))

    method(patch, delete)


@mistake("a reopen looks for leases first and removes later", "reopen and a checkout of its reflections")
def _(patch: pytest.MonkeyPatch) -> None:
    def reopen(self: SqliteStore, vault: VaultRef, batch_id: str, now_ms: int) -> Reopened:
        with self._files.database(vault).read() as connection:
            before = open_leases(connection, 2)
        with instead(lambda *_: before):
            return original(self, vault, batch_id, now_ms)

    original, instead = SqliteStore.reopen, switch(patch, batches, "open_leases")
    method(patch, reopen)


@mistake("an idempotency key is looked up before the transaction", "one request twice at once")
def _(patch: pytest.MonkeyPatch) -> None:
    def append(
        self: SqliteStore, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int
    ) -> Appended:
        if once is None:
            return original(self, vault, rows, once, now_ms)
        with self._files.database(vault).read() as connection:
            first = self._first_answer(connection, once, now_ms)
            if first is not None:
                return Appended(first, read_debt(connection), replayed=True)
        answer = original(self, vault, rows, None, now_ms)
        with self._files.database(vault).write() as connection:
            packed = b"".join(map(to_bytes, answer.ids))
            record = (once.key_hash, once.body_hash, packed, once.expires_ms)
            connection.execute("INSERT OR REPLACE INTO idempotency VALUES (?,?,?,?)", record)
        return answer

    original = SqliteStore.append
    method(patch, append)


@mistake("an idempotency record never expires", "an expired idempotency record used again", race=False)
def _(patch: pytest.MonkeyPatch) -> None:
    def first(self: SqliteStore, connection: sqlite3.Connection, once: Idempotency, now_ms: int) -> object:
        return original(self, connection, once, now_ms - 10**9)

    original = SqliteStore._first_answer
    patch.setattr(SqliteStore, "_first_answer", first)


@mistake("nobody looks whether the content is sealed", "a writer and the seal")
def _(patch: pytest.MonkeyPatch) -> None:
    for module in (batches, restoring, store_module):
        patch.setattr(module, "guard", lambda _: None)


@mistake("the seal looks first and seals later", "a writer and the seal")
def _(patch: pytest.MonkeyPatch) -> None:
    def seal(self: SqliteStore, vault: VaultRef) -> bool:
        with self._files.database(vault).read() as connection:
            rows = connection.execute("SELECT rows1 + rows2 + rows3 FROM vault").fetchone()[0]
        if rows == 0:
            with self._files.database(vault).write() as connection:
                connection.execute("UPDATE vault SET sealed = 1")
        return bool(rows == 0)

    method(patch, seal)


@mistake("the index is told after the transaction", "one request twice at once", crashes=1)
def _(patch: pytest.MonkeyPatch) -> None:
    def append(
        self: SqliteStore, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int
    ) -> Appended:
        raws = [(to_bytes(row.id),) for row in rows]
        with instead(lambda *_: None):
            answer = original(self, vault, rows, once, now_ms)
        with self._files.database(vault).write() as connection:
            note_changes(connection, raws)
        return answer

    original, instead = SqliteStore.append, switch(patch, rows_module, "note_changes")
    method(patch, append)
