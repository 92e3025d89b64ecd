"""What the embedded back end writes: rows per checkout, reads per debt block, and that each verb is one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.domain.memory import VaultRef
from shared.domain.selection import Budget
from shared.ports.store import Idempotency
from tests.contract.rows import LEASE, NOW, Maker, consolidate, take
from tests.contract.sqlite_rig import SqliteRig, connect


class Traced:
    """A store whose connections report their statements."""

    def __init__(self, folder: Path) -> None:
        self.statements: list[str] = []
        self._connections: list[sqlite3.Connection] = []
        self.rig = SqliteRig(folder, self._connect)

    def _connect(self, path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(self.statements.append)
        self._connections.append(connection)
        return connection

    def during(self, work: Callable[[], object]) -> tuple[list[str], int]:
        """The statements of the work, and how many rows it inserted, updated or deleted."""
        self.statements.clear()
        before = sum(connection.total_changes for connection in self._connections)
        work()
        return list(self.statements), sum(connection.total_changes for connection in self._connections) - before


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    made = Traced(tmp_path)
    yield made
    made.rig.close()


@pytest.fixture
def vault(traced: Traced) -> VaultRef:
    return traced.rig.new_vault()


@pytest.mark.parametrize("expired", [0, 3])
def test_a_checkout_writes_as_much_for_ten_rows_as_for_ten_thousand(
    traced: Traced, vault: VaultRef, make: Maker, expired: int
) -> None:
    store = traced.rig.store
    store.append(vault, make.raws(10_010 + expired), None, NOW)
    written = []
    for rows in (10, 10_000):
        for _ in range(expired):
            take(store, vault, make, budget=Budget(max_rows=1))
        budget, lease = Budget(max_rows=rows), make.lease(NOW + LEASE)
        statements, changed = traced.during(lambda b=budget, t=lease: store.checkout(vault, 1, b, t))  # type: ignore[misc]
        written.append((changed, [text.split()[0] for text in statements if not text.startswith("SELECT")]))
    assert written[0] == written[1]
    assert written[0][0] <= 3 + 2 * expired


def test_the_debt_block_is_one_read(traced: Traced, vault: VaultRef, make: Maker) -> None:
    store = traced.rig.store
    store.append(vault, make.raws(1000), None, NOW)
    statements, changed = traced.during(lambda: store.debt(vault))
    assert sum(text.startswith("SELECT") for text in statements) == 1
    assert changed == 0


def test_every_verb_is_one_transaction_that_holds_the_lock_from_the_start(
    traced: Traced, vault: VaultRef, make: Maker
) -> None:
    store = traced.rig.store
    once = Idempotency("k", "b", NOW + LEASE)
    store.append(vault, make.raws(6), None, NOW)
    name = consolidate(store, vault, make, (1, 2)).batch_id
    store.append(vault, make.raws(6), None, NOW)
    leases = [take(store, vault, make, budget=Budget(max_rows=2)).batch.id for _ in range(3)]
    rows = [row.id for row in store.export(vault, None, 2)]
    verbs: list[Callable[[], object]] = [
        lambda: store.append(vault, make.raws(3), once, NOW),
        lambda: store.append(vault, make.raws(3), once, NOW),
        lambda: store.checkout(vault, 1, Budget(), make.lease()),
        lambda: store.renew(vault, leases[0], NOW),
        lambda: store.release(vault, leases[0], NOW),
        lambda: store.commit(vault, leases[1], make.entries(1, 2), NOW),
        lambda: store.commit(vault, leases[1], make.entries(1, 2), NOW),
        lambda: store.delete(vault, rows, NOW),
        lambda: store.reopen(vault, name, NOW),
        lambda: store.reopen(vault, name, NOW),
        lambda: store.seal(vault),
    ]
    for number, verb in enumerate(verbs):
        statements, _ = traced.during(verb)
        assert statements[0] == "BEGIN IMMEDIATE", number
        assert statements[-1] == "COMMIT", number
        assert not [text for text in statements[1:-1] if text.split()[0] in ("BEGIN", "COMMIT", "ROLLBACK")], number


def test_no_lookup_walks_a_table(traced: Traced, vault: VaultRef, make: Maker) -> None:
    """The statements of everyday verbs find their rows by an index."""
    store = traced.rig.store
    store.append(vault, make.raws(20), None, NOW)
    committed = consolidate(store, vault, make, (1, 2))
    store.append(vault, make.raws(20), None, NOW)
    statements: list[str] = []
    for work in (
        lambda: store.checkout(vault, 1, Budget(max_rows=2), make.lease()),
        lambda: store.append(vault, make.raws(1), Idempotency("k", "b", NOW + 1), NOW),
        lambda: store.commit(vault, committed.batch_id, make.entries(1), NOW),
        lambda: store.sources(vault, committed.batch_id, 0, 5),
        lambda: store.written_by(vault, [committed.batch_id]),
        lambda: store.delete(vault, [committed.created[0].id], NOW),
        lambda: store.export(vault, (NOW, make.id()), 5),
        lambda: store.session_ids(vault, "s", 5),
    ):
        statements += traced.during(work)[0]
    plain = connect(traced.rig.files.path(vault))
    try:
        for text in statements:
            if text.split()[0] in ("SELECT", "UPDATE", "DELETE"):
                steps = [row[3] for row in plain.execute(f"EXPLAIN QUERY PLAN {text}")]
                walked = [step for step in steps if step.startswith("SCAN") and "INDEX" not in step]
                assert not [step for step in walked if "memory" in step or step.split()[1] == "m"], (text, steps)
    finally:
        plain.close()
