"""Rows, entries and leases for tests: every name is drawn from a counter, so a failing test reads the same twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from shared.domain.batch import Entry
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Committed, Lease, MemoryStore, NothingFree

NOW = 1_770_000_000_000
MINUTE = 60_000
LEASE = 15 * MINUTE
EVERYTHING = Budget()


def uuid7(number: int) -> str:
    """A UUID of version 7; a larger number sorts later."""
    return f"{number >> 16:08x}-{number & 0xFFFF:04x}-7000-8000-{number:012x}"


class Maker:
    """Fresh rows, entries and batch names. `first` keeps the names of two makers apart."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = count(first)

    def id(self) -> str:
        return uuid7(next(self._numbers))

    def batch_id(self) -> str:
        return f"cb_{next(self._numbers):032x}"

    def raw(self, text: str = "", date_ms: int = NOW, session: str | None = None, tokens: int | None = None) -> Memory:
        memory_id = self.id()
        text = text or f"memory {memory_id}"
        return Memory(
            id=memory_id,
            tier=1,
            text=text,
            role="user",
            date_ms=date_ms,
            tokens=-(-len(text.encode()) // 4) if tokens is None else tokens,
            created_ms=NOW,
            session_id=session,
        )

    def raws(self, number: int, step: int = 1) -> list[Memory]:
        return [self.raw(date_ms=NOW + place * step) for place in range(number)]

    def entries(self, *importances: int) -> list[Entry]:
        made = []
        for importance in importances:
            memory_id = self.id()
            made.append(Entry(memory_id, f"reflection {memory_id}", importance, 9 + importance))
        return made

    def lease(self, now_ms: int = NOW, lease_ms: int = LEASE) -> Lease:
        return Lease(self.batch_id(), now_ms, lease_ms)


def take(
    store: MemoryStore,
    vault: VaultRef,
    maker: Maker,
    tier: int = 1,
    budget: Budget = EVERYTHING,
    now_ms: int = NOW,
    lease_ms: int = LEASE,
) -> CheckedOut:
    """A checkout that must find rows."""
    found = store.checkout(vault, tier, budget, maker.lease(now_ms, lease_ms))
    assert isinstance(found, CheckedOut)
    return found


def take_nothing(
    store: MemoryStore, vault: VaultRef, maker: Maker, tier: int = 1, budget: Budget = EVERYTHING, now_ms: int = NOW
) -> NothingFree:
    found = store.checkout(vault, tier, budget, maker.lease(now_ms))
    assert isinstance(found, NothingFree)
    return found


def consolidate(
    store: MemoryStore, vault: VaultRef, maker: Maker, importances: Sequence[int] = (5,), tier: int = 1
) -> Committed:
    """Check everything free out and commit it under one reflection per importance."""
    batch = take(store, vault, maker, tier).batch
    return store.commit(vault, batch.id, maker.entries(*importances), NOW + MINUTE)


def everything(store: MemoryStore, vault: VaultRef) -> list[Memory]:
    rows: list[Memory] = []
    while page := store.export(vault, (rows[-1].date_ms, rows[-1].id) if rows else None, 1000):
        rows.extend(page)
    return rows


def ids_of(rows: Sequence[Memory]) -> list[str]:
    return [row.id for row in rows]
