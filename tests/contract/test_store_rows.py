"""Delete and every way to read rows: by id, by batch, by session, in time."""

import pytest

from shared.domain.debt import Debt
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import MemoryStore, SortKey, TimelineQuery
from tests.contract.model import recount
from tests.contract.rows import NOW, Maker, consolidate, everything, ids_of, take

ALL_TIERS = frozenset((1, 2, 3))
LOW, HIGH = -(2**53), 2**53


def key(row: Memory) -> SortKey:
    return row.date_ms, row.id


@pytest.fixture
def three_tiers(store: MemoryStore, vault: VaultRef, make: Maker) -> list[Memory]:
    """Rows of all tiers, several of them at one instant, in (date, id) order."""
    for start in (0, 10, 10, 40):
        store.append(vault, [make.raw(date_ms=NOW + start + n, session="s" if n else None) for n in (0, 5)], None, NOW)
        consolidate(store, vault, make, (3, 8))
    consolidate(store, vault, make, (9, 10), tier=2)
    store.append(vault, [make.raw(date_ms=NOW + 15), make.raw(date_ms=NOW + 15)], None, NOW)
    rows = sorted(everything(store, vault), key=key)
    assert {row.tier for row in rows} == {1, 2, 3}
    return rows


def test_deleted_rows_are_gone_for_every_reader(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(session="s") for _ in range(3)]
    store.append(vault, rows, None, NOW)
    answer = store.delete(vault, [rows[0].id, make.id(), rows[2].id], NOW)
    assert sorted(answer.rows) == sorted((row.id, row.tokens) for row in (rows[0], rows[2]))
    assert len(answer.not_found) == 1
    assert everything(store, vault) == [rows[1]]
    assert store.get(vault, ids_of(rows)) == {rows[1].id: rows[1]}
    assert store.session_ids(vault, "s", 10) == (rows[1].id,)
    assert store.debt(vault) == recount([rows[1]])
    assert store.totals(vault).memories[1] == 1


def test_deleting_twice_is_not_found(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(1)
    store.append(vault, rows, None, NOW)
    store.delete(vault, ids_of(rows), NOW)
    again = store.delete(vault, ids_of(rows), NOW)
    assert (again.rows, again.not_found) == ((), (rows[0].id,))


def test_rows_of_every_tier_and_state_can_be_deleted(
    store: MemoryStore, vault: VaultRef, three_tiers: list[Memory]
) -> None:
    remaining = list(three_tiers)
    while remaining:
        gone = remaining.pop(len(remaining) // 2)
        assert store.delete(vault, [gone.id], NOW).rows == ((gone.id, gone.tokens),)
        assert ids_of(everything(store, vault)) == ids_of(remaining)
        assert store.debt(vault) == recount(remaining)
    totals = store.totals(vault)
    assert (totals.tokens, totals.sessions, totals.oldest_ms, totals.newest_ms) == (0, 0, None, None)


def test_a_deleted_source_leaves_a_counted_gap(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(5)
    store.append(vault, rows, None, NOW)
    name = consolidate(store, vault, make).batch_id
    store.delete(vault, [rows[1].id, rows[3].id], NOW)
    header = store.batch(vault, name)
    assert header is not None
    assert (header.count, header.sources_deleted) == (5, 2)
    page = store.sources(vault, name, 0, 10)
    assert [(row.id, row.position) for row in page.memories] == [(rows[n].id, n) for n in (0, 2, 4)]


def test_deleting_a_reflection_frees_nothing(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    committed = consolidate(store, vault, make, (4, 6))
    answer = store.delete(vault, [committed.created[0].id], NOW)
    assert len(answer.rows) == 1
    assert store.debt(vault) == recount(everything(store, vault))
    assert (store.debt(vault).raw_units, store.debt(vault).tier2_importance) == (0, 6)
    (left,) = store.written_by(vault, [committed.batch_id])[committed.batch_id]
    assert (left.id, left.entry) == (committed.created[1].id, 1)


def test_get_finds_what_is_there(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(1200)
    store.append(vault, rows, None, NOW)
    wanted = [*ids_of(rows[::-1]), make.id(), rows[0].id]
    assert store.get(vault, wanted) == {row.id: row for row in rows}
    assert store.get(vault, []) == {}


def test_rows_come_with_the_debt(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(tokens=7), make.raw(tokens=5)]
    assert store.get_with_debt(vault, [rows[0].id]) == ({}, Debt())
    store.append(vault, rows, None, NOW)
    assert store.get_with_debt(vault, [rows[1].id, make.id()]) == (
        {rows[1].id: rows[1]},
        Debt(raw_units=2, raw_tokens=12),
    )
    consolidate(store, vault, make, (4, 6))
    assert store.get_with_debt(vault, [])[1] == recount(everything(store, vault))


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_sources_page_by_position(store: MemoryStore, vault: VaultRef, make: Maker, limit: int) -> None:
    rows = make.raws(9)
    store.append(vault, rows, None, NOW)
    name = consolidate(store, vault, make).batch_id
    store.delete(vault, [rows[n].id for n in (0, 3, 4, 8)], NOW)
    found: list[int | None] = []
    offset: int | None = 0
    while offset is not None:
        page = store.sources(vault, name, offset, limit)
        assert len(page.memories) <= limit
        assert page.next_offset is None or page.next_offset > offset
        found += [row.position for row in page.memories]
        offset = page.next_offset
    assert found == [1, 2, 5, 6, 7]
    assert [row.position for row in store.sources(vault, name, 3, 2).memories] == [5, 6]
    assert store.sources(vault, name, 9, 2).memories == ()


def test_written_by_answers_for_many_batches(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    names = []
    for _ in range(3):
        store.append(vault, make.raws(1), None, NOW)
        names.append(consolidate(store, vault, make, (1, 2, 3)).batch_id)
    store.append(vault, make.raws(1), None, NOW)
    leased = take(store, vault, make).batch.id
    store.delete(vault, ids_of(store.written_by(vault, [names[1]])[names[1]]), NOW)
    found = store.written_by(vault, [*names, leased, make.batch_id()])
    assert set(found) == {names[0], names[2]}
    assert [row.importance for row in found[names[0]]] == [1, 2, 3]
    assert store.written_by(vault, []) == {}


def test_sessions_hold_raw_rows_oldest_first(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(date_ms=NOW - n % 3, session=("a", "A", "")[n % 2]) for n in range(8)]
    store.append(vault, [*rows, make.raw()], None, NOW)
    expected = ids_of(sorted((row for row in rows if row.session_id == "a"), key=key))
    assert list(store.session_ids(vault, "a", 100)) == expected
    assert list(store.session_ids(vault, "a", 2)) == expected[:2]
    assert store.session_ids(vault, "b", 2) == ()
    assert store.totals(vault).sessions == 2


def query(
    from_ms: int = LOW,
    to_ms: int = HIGH,
    tiers: frozenset[int] = ALL_TIERS,
    newest_first: bool = False,
    limit: int = 1000,
    min_importance: int | None = None,
    after: SortKey | None = None,
) -> TimelineQuery:
    return TimelineQuery(from_ms, to_ms, tiers, newest_first, limit, min_importance, after)


def test_the_timeline_is_in_order_and_its_reverse_is_exact(
    store: MemoryStore, vault: VaultRef, three_tiers: list[Memory]
) -> None:
    assert list(store.timeline(vault, query())) == three_tiers
    assert list(store.timeline(vault, query(newest_first=True))) == three_tiers[::-1]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 5])
def test_the_timeline_goes_on_after_any_row(
    store: MemoryStore, vault: VaultRef, three_tiers: list[Memory], newest_first: bool, limit: int
) -> None:
    expected = three_tiers[::-1] if newest_first else three_tiers
    for place, row in enumerate(expected):
        page = store.timeline(vault, query(newest_first=newest_first, limit=limit, after=key(row)))
        assert list(page) == expected[place + 1 : place + 1 + limit]


def test_the_window_is_half_open(store: MemoryStore, vault: VaultRef, three_tiers: list[Memory]) -> None:
    for from_ms, to_ms in ((NOW, NOW + 15), (NOW + 15, NOW + 16), (NOW + 16, NOW + 45), (NOW + 15, NOW + 15)):
        expected = [row for row in three_tiers if from_ms <= row.date_ms < to_ms]
        assert list(store.timeline(vault, query(from_ms, to_ms))) == expected


@pytest.mark.parametrize("tiers", [{1}, {2}, {3}, {1, 3}, {2, 3}])
def test_the_timeline_shows_the_asked_tiers(
    store: MemoryStore, vault: VaultRef, three_tiers: list[Memory], tiers: set[int]
) -> None:
    found = store.timeline(vault, query(tiers=frozenset(tiers)))
    assert list(found) == [row for row in three_tiers if row.tier in tiers]


def test_a_least_importance_leaves_reflections_only(
    store: MemoryStore, vault: VaultRef, three_tiers: list[Memory]
) -> None:
    found = store.timeline(vault, query(min_importance=8))
    assert list(found) == [row for row in three_tiers if (row.importance or 0) >= 8]


@pytest.mark.parametrize("newest_first", [False, True])
def test_spanning_reflections_come_by_id(
    store: MemoryStore, vault: VaultRef, three_tiers: list[Memory], newest_first: bool
) -> None:
    for to_ms in range(NOW - 1, NOW + 47):
        expected = sorted(
            (r for r in three_tiers if r.covers is not None and r.covers.from_ms < to_ms <= r.covers.to_ms),
            key=lambda row: row.id,
            reverse=newest_first,
        )
        assert list(store.spanning(vault, query(to_ms=to_ms, newest_first=newest_first))) == expected
        if expected:
            rest = query(to_ms=to_ms, newest_first=newest_first, limit=2, after=(123, expected[0].id))
            assert list(store.spanning(vault, rest)) == expected[1:3]


def test_spanning_takes_the_same_filters(store: MemoryStore, vault: VaultRef, three_tiers: list[Memory]) -> None:
    within = NOW + 12
    spanning = [r for r in three_tiers if r.covers is not None and r.covers.from_ms < within <= r.covers.to_ms]
    assert {row.tier for row in spanning} == {2, 3}
    important = store.spanning(vault, query(to_ms=within, min_importance=8))
    assert set(ids_of(important)) == {row.id for row in spanning if (row.importance or 0) >= 8}
    third = store.spanning(vault, query(to_ms=within, tiers=frozenset((1, 3))))
    assert set(ids_of(third)) == {row.id for row in spanning if row.tier == 3}


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_an_export_pages_over_everything_once(
    store: MemoryStore, vault: VaultRef, three_tiers: list[Memory], limit: int
) -> None:
    found: list[Memory] = []
    while page := store.export(vault, key(found[-1]) if found else None, limit):
        assert len(page) <= limit
        found += page
    assert found == three_tiers


def test_an_export_goes_on_after_a_row_that_is_gone(
    store: MemoryStore, vault: VaultRef, three_tiers: list[Memory]
) -> None:
    store.delete(vault, [three_tiers[4].id], NOW)
    assert ids_of(store.export(vault, key(three_tiers[4]), 1000)) == ids_of(three_tiers[5:])


def test_totals_count_the_vault(store: MemoryStore, vault: VaultRef, three_tiers: list[Memory]) -> None:
    totals = store.totals(vault)
    assert totals.memories == {tier: sum(row.tier == tier for row in three_tiers) for tier in ALL_TIERS}
    assert totals.tokens == sum(row.tokens for row in three_tiers)
    assert (totals.oldest_ms, totals.newest_ms) == (three_tiers[0].date_ms, three_tiers[-1].date_ms)
    assert (totals.sessions, totals.pending) == (1, 0)
    assert totals.debt == recount(three_tiers)


def test_a_delete_of_leased_rows_is_seen_by_the_empty_answer(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(3)
    store.append(vault, rows, None, NOW)
    take(store, vault, make, budget=Budget())
    store.delete(vault, [rows[0].id], NOW)
    assert store.debt(vault) == recount(rows[1:])
