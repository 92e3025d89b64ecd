"""Reading from the table: small pages, rows that go in between, and what a remote index asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from shared.domain.memory import Memory, VaultRef
from shared.domain.times import MAX_MS, MIN_MS
from shared.ports.store import TimelineQuery
from tests.contract.dynamodb_rig import DynamoRig
from tests.contract.rows import MINUTE, NOW, Maker, consolidate, everything, ids_of, take
from tests.dynamodb.table import MemoryTable

ALL = frozenset((1, 2, 3))


@pytest.fixture
def rig() -> DynamoRig:
    return DynamoRig.in_memory()


def read_units(memory: MemoryTable, verb: Callable[[], object]) -> float:
    memory.log.clear()
    verb()
    return sum(request.read_units for request in memory.log)


def between(memory: MemoryTable, op: str, then: Callable[[], object]) -> None:
    """Calls `then` before the next request of that kind."""

    def hook(name: str, params: Any) -> None:
        if name == op:
            memory.before = None
            then()

    memory.before = hook


def timeline(newest_first: bool = False, limit: int = 10) -> TimelineQuery:
    return TimelineQuery(MIN_MS, MAX_MS + 1, ALL, newest_first, limit)


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_page_of_a_large_vault_costs_no_more_than_one_of_a_small_vault(
    rig: DynamoRig, memory: MemoryTable, make: Maker, newest_first: bool
) -> None:
    small, large = rig.new_vault(), rig.new_vault()
    rig.store.append(small, make.raws(12), None, NOW)
    rig.store.append(large, make.raws(1_200), None, NOW)
    verbs: list[Callable[[VaultRef], object]] = [
        lambda vault: rig.store.timeline(vault, timeline(newest_first)),
        lambda vault: rig.store.export(vault, None, 10),
        rig.store.totals,
    ]
    for verb in verbs:
        units = [read_units(memory, partial(verb, vault)) for vault in (small, large)]
        assert units[1] == units[0]


def test_a_session_is_read_no_further_than_asked(rig: DynamoRig, memory: MemoryTable, make: Maker) -> None:
    vault = rig.new_vault()
    rows = [make.raw(session="s", date_ms=NOW + number) for number in range(900)]
    rig.store.append(vault, rows, None, NOW)
    memory.log.clear()
    assert rig.store.session_ids(vault, "s", 5) == tuple(ids_of(rows[:5]))
    assert [request.op for request in memory.log] == ["get_item", "query"]
    assert sum(request.read_units for request in memory.log) <= 2


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_row_that_goes_before_it_is_read_is_made_up_for(
    rig: DynamoRig, memory: MemoryTable, vault: VaultRef, make: Maker, newest_first: bool
) -> None:
    rows = make.raws(6)
    rig.store.append(vault, rows, None, NOW)
    ordered = rows[::-1] if newest_first else rows
    between(memory, "batch_get_item", lambda: rig.store.delete(vault, [ordered[1].id], NOW))
    page = rig.store.timeline(vault, timeline(newest_first, limit=3))
    assert ids_of(page) == ids_of([ordered[0], ordered[2], ordered[3]])


def test_rows_without_end_are_ended_by_a_page_that_is_not_full(
    rig: DynamoRig, memory: MemoryTable, vault: VaultRef, make: Maker
) -> None:
    rows = make.raws(3)
    rig.store.append(vault, rows, None, NOW)
    between(memory, "batch_get_item", lambda: rig.store.delete(vault, ids_of(rows), NOW))
    assert rig.store.export(vault, None, 3) == ()


@pytest.mark.parametrize("sessions", [1, 299, 300, 301, 650])
def test_sessions_are_counted_whatever_page_they_fall_on(
    rig: DynamoRig, vault: VaultRef, make: Maker, sessions: int
) -> None:
    rows = [make.raw(session=f"session {number}") for number in range(sessions)]
    rig.store.append(vault, [*rows, *(make.raw(session="session 0") for _ in range(320)), make.raw()], None, NOW)
    assert rig.store.totals(vault).sessions == sessions


def test_a_session_may_have_a_long_name(rig: DynamoRig, vault: VaultRef, make: Maker) -> None:
    names = ["n" * 1024, "é" * 1024, "n" * 1023]
    for name in names:
        rig.store.append(vault, [make.raw(session=name)], None, NOW)
    for name in names:
        (found,) = rig.store.session_ids(vault, name, 9)
        assert rig.store.get(vault, [found])[found].session_id == name


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_sources_page_over_gaps_of_any_length(rig: DynamoRig, vault: VaultRef, make: Maker, limit: int) -> None:
    rows = make.raws(120)
    rig.store.append(vault, rows, None, NOW)
    batch_id = consolidate(rig.store, vault, make).batch_id
    kept = [rows[place] for place in (0, 1, 60, 61, 118)]
    rig.store.delete(vault, [row.id for row in rows if row not in kept], NOW)
    found: list[Memory] = []
    offset: int | None = 0
    while offset is not None:
        page = rig.store.sources(vault, batch_id, offset, limit)
        assert len(page.memories) <= limit
        found += page.memories
        offset = page.next_offset
    assert ids_of(found) == ids_of(kept)


def test_reading_a_batch_finishes_what_its_commit_began(
    rig: DynamoRig, memory: MemoryTable, vault: VaultRef, make: Maker
) -> None:
    class Died(BaseException):
        pass

    rows = make.raws(4)
    rig.store.append(vault, rows, None, NOW)
    batch = take(rig.store, vault, make).batch
    flipped = []

    def die(name: str, params: Any) -> None:
        flipped.append(name)
        if flipped.count("transact_write_items") == 1:
            memory.after = None
            raise Died

    memory.after = die
    with pytest.raises(Died):
        rig.store.commit(vault, batch.id, make.entries(5, 6), NOW)
    assert len(rig.store.written_by(vault, [batch.id])[batch.id]) == 2
    assert ids_of(rig.store.sources(vault, batch.id, 0, 9).memories) == ids_of(rows)


def test_what_stands_beside_a_row(rig: DynamoRig, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(session="s", date_ms=NOW + number // 2) for number in range(9)]
    rig.store.append(vault, [*rows, *(make.raw(session="other") for _ in range(3)), *make.raws(3)], None, NOW)
    at = (rows[4].date_ms, rows[4].id)
    assert ids_of(rig.store.beside(vault, "s", at, 2)) == ids_of([*rows[2:4], *rows[5:7]])
    assert ids_of(rig.store.beside(vault, "s", (rows[0].date_ms, rows[0].id), 3)) == ids_of(rows[1:4])
    rig.store.delete(vault, [rows[4].id, rows[3].id], NOW)
    assert ids_of(rig.store.beside(vault, "s", at, 2)) == ids_of([*rows[1:3], *rows[5:7]])
    assert rig.store.beside(vault, "nobody's", at, 2) == ()


def drawn(ms: int, number: int) -> str:
    """A UUID of version 7 made at that moment."""
    digits = f"{ms:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012x}"


def test_recent_rows_are_those_of_all_tiers_written_since(rig: DynamoRig, vault: VaultRef, make: Maker) -> None:
    moments = [NOW - MINUTE, NOW - 1, NOW, NOW + 1, NOW + 59_000]
    rows = [replace(make.raw(), id=drawn(ms, number)) for number, ms in enumerate(moments)]
    rig.store.append(vault, rows, None, NOW)
    batch = take(rig.store, vault, make).batch
    entry = replace(make.entries(5)[0], id=drawn(NOW + 59_500, 9))
    rig.store.commit(vault, batch.id, [entry], NOW)
    assert ids_of(rig.store.recent(vault, NOW, 1_000_000)) == [*ids_of(rows[2:]), entry.id]
    assert ids_of(rig.store.recent(vault, NOW, 800)) == [rows[4].id, entry.id]
    assert rig.store.recent(vault, NOW + 10 * MINUTE, 1_000_000) == ()


def test_rows_of_an_import_with_foreign_ids_are_not_recent(
    rig: DynamoRig, memory: MemoryTable, vault: VaultRef, make: Maker
) -> None:
    foreign = [
        replace(make.raw("x" * 3000), id=f"ffffffff-{number:04x}-4000-8000-000000000000") for number in range(90)
    ]
    rig.store.append(vault, foreign, None, NOW)
    rig.store.append(vault, [replace(make.raw(), id=drawn(NOW, 1))], None, NOW)
    memory.log.clear()
    assert ids_of(rig.store.recent(vault, NOW - MINUTE, 1_000_000)) == [drawn(NOW, 1)]
    assert sum(request.read_units for request in memory.log) <= 1


def test_the_change_counter_moves_with_rows_that_come_and_go(rig: DynamoRig, vault: VaultRef, make: Maker) -> None:
    seen = [rig.store.change_counter(vault)]

    def moved() -> bool:
        seen.append(rig.store.change_counter(vault))
        return seen[-1] > seen[-2]

    rig.store.append(vault, make.raws(2), None, NOW)
    assert moved()
    consolidate(rig.store, vault, make)
    assert moved()
    rig.store.delete(vault, ids_of(everything(rig.store, vault))[:1], NOW)
    assert moved()
    take(rig.store, vault, make, tier=2)
    assert not moved()
