"""Checkout and debt on a large and a small vault: neither may notice the size."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Sequence
from time import perf_counter

from shared.domain.memory import VaultRef
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Lease
from tests.bench.report import Options, Row, ms, paired, times
from tests.bench.vaults import START_MS, Bench, bench

SMALL = 1_000
ROUNDS = 60
TEXT = "The meeting about the harbour was moved to Tuesday, and nobody has told the printers so far. " * 2
CLAIM_ROWS = 100
LEASE_MS = 900_000
SLOWDOWN = 1.3
DEBT_READS = 2_000


def claim(made: Bench, vault: VaultRef, rows: int) -> str:
    budget = Budget(max_tokens=200_000, max_rows=rows)
    answer = made.store.checkout(vault, 1, budget, Lease(made.ids.batch_id(), START_MS, LEASE_MS))
    assert isinstance(answer, CheckedOut)
    assert answer.batch.count == rows
    return answer.batch.id


class Claims:
    """Checkouts of one vault; every batch is given back between two measured calls."""

    def __init__(self, made: Bench, vault: VaultRef) -> None:
        self._made = made
        self._vault = vault
        self._open: list[str] = []

    def claim(self) -> None:
        self._open.append(claim(self._made, self._vault, CLAIM_ROWS))

    def give_back(self) -> None:
        while self._open:
            self._made.store.release(self._vault, self._open.pop(), START_MS)


def written(connections: Sequence[sqlite3.Connection]) -> int:
    return sum(connection.total_changes for connection in connections)


def claim_rows(made: Bench, vault: VaultRef, sources: int) -> int:
    """Rows that one checkout of `sources` sources inserts, updates or deletes."""
    before = written(made.connections)
    batch_id = claim(made, vault, sources)
    after = written(made.connections)
    made.store.release(vault, batch_id, START_MS)
    return after - before


def statements(made: Bench, vault: VaultRef) -> int:
    """SQL statements of one debt read, without its BEGIN and COMMIT."""
    seen: list[str] = []
    for connection in made.connections:
        connection.set_trace_callback(seen.append)
    made.store.debt(vault)
    for connection in made.connections:
        connection.set_trace_callback(None)
    return sum(not text.startswith(("BEGIN", "COMMIT")) for text in seen)


def debt_seconds(made: Bench, vaults: tuple[VaultRef, VaultRef]) -> tuple[float, float]:
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(DEBT_READS):
        for vault, seen in zip(vaults, spent, strict=True):
            start = perf_counter()
            made.store.debt(vault)
            seen.append(perf_counter() - start)
    return statistics.median(spent[0]), statistics.median(spent[1])


def run(options: Options) -> list[Row]:
    count = 100_000 if options.quick else 1_000_000
    with bench() as made:
        small = made.fill(SMALL, TEXT)
        large = made.fill(count, TEXT)
        sides = [Claims(made, large), Claims(made, small)]
        for side in sides:
            side.claim()
            side.give_back()
        measured = []
        for _ in range(ROUNDS):
            measured.append(paired(1, [side.claim for side in sides]))
            for side in sides:
                side.give_back()
        wall = [statistics.median(round_[side][0] for round_ in measured) for side in (0, 1)]
        cpu = [statistics.median(round_[side][1] for round_ in measured) for side in (0, 1)]

        wide = made.fill(10_000, "short")
        few, many = claim_rows(made, wide, 10), claim_rows(made, wide, 10_000)

        reads = statements(made, small), statements(made, large)
        small_debt, large_debt = debt_seconds(made, (small, large))
    name = f"{count:,}"
    return [
        Row(
            f"checkout of {CLAIM_ROWS} rows, pool of {name}",
            f"{ms(wall[0])} (CPU {ms(cpu[0])})",
            f"{ms(wall[1])} (CPU {ms(cpu[1])}), pool of {SMALL:,}",
            f"{times(wall[0], wall[1])} (CPU {times(cpu[0], cpu[1])})",
            f"≤ {SLOWDOWN}×",
            wall[0] <= SLOWDOWN * wall[1] and cpu[0] <= SLOWDOWN * cpu[1],
        ),
        Row("rows written by a checkout of 10,000", str(many), f"{few}, checkout of 10", "", "the same", many == few),
        Row(
            f"statements of a debt read, {name} rows",
            str(reads[1]),
            f"{reads[0]}, {SMALL:,} rows",
            "",
            "1",
            reads == (1, 1),
        ),
        Row(
            f"debt read, {name} rows",
            ms(large_debt),
            f"{ms(small_debt)}, {SMALL:,} rows",
            times(large_debt, small_debt),
            f"≤ {SLOWDOWN}×",
            large_debt <= SLOWDOWN * small_debt,
        ),
    ]


TITLE = "Checkout and debt"
NOTE = (
    f"Median of {ROUNDS} checkouts on each vault, taking turns, synced to disk; each batch is released before"
    " the next. A checkout writes its header and one list of row numbers (8 bytes a source); the sources themselves"
    " carry no lease mark."
)
