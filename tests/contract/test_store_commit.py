"""Commit: one point in time, one answer for ever."""

import pytest

from shared.domain.batch import Created, State
from shared.domain.debt import Debt
from shared.domain.errors import Conflict, NotFound
from shared.domain.memory import Covers, Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import MemoryStore, SourcePage
from tests.contract.conftest import at_volume
from tests.contract.model import recount
from tests.contract.rows import LEASE, MINUTE, NOW, Maker, consolidate, everything, ids_of, take, take_nothing

AFTER_A_YEAR = NOW + 365 * 86_400_000


def code(store: MemoryStore, vault: VaultRef, make: Maker, batch_id: str, now_ms: int = NOW) -> str:
    with pytest.raises(Conflict) as refusal:
        store.commit(vault, batch_id, make.entries(1), now_ms)
    return refusal.value.code


def test_the_answer_names_what_was_written(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(4), None, NOW)
    batch = take(store, vault, make).batch
    entries = make.entries(3, 10, 1)
    answer = store.commit(vault, batch.id, entries, NOW + MINUTE)
    assert answer.batch_id == batch.id
    assert answer.tier == 2
    assert answer.created == tuple(Created(entry.id, entry.importance) for entry in entries)
    assert answer.sources_consolidated == 4
    assert not answer.already_committed
    assert answer.debt == Debt(tier2_count=3, tier2_importance=14, tier2_tokens=sum(e.tokens for e in entries))
    assert store.debt(vault) == answer.debt == recount(everything(store, vault))


def test_reflections_are_rows_that_cover_the_whole_batch(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(date_ms=NOW - 50), make.raw(date_ms=NOW + 50)]
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make).batch
    entries = make.entries(7, 2)
    store.commit(vault, batch.id, entries, NOW + MINUTE)
    expected = {
        entry.id: Memory(
            id=entry.id,
            tier=2,
            text=entry.text,
            role="assistant",
            date_ms=NOW + 50,
            tokens=entry.tokens,
            created_ms=NOW + MINUTE,
            importance=entry.importance,
            covers=Covers(NOW - 50, NOW + 50),
            origin=batch.id,
            entry=place,
        )
        for place, entry in enumerate(entries)
    }
    assert store.get(vault, list(expected)) == expected
    assert store.written_by(vault, [batch.id]) == {batch.id: tuple(expected.values())}


def test_sources_know_their_batch_and_their_place_in_it(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(5)
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make, budget=Budget(max_rows=4)).batch
    store.commit(vault, batch.id, make.entries(1), NOW + 1)
    found = store.get(vault, ids_of(rows))
    assert [found[row.id].consolidated_by for row in rows] == [batch.id] * 4 + [None]
    assert [found[row.id].position for row in rows] == [0, 1, 2, 3, None]
    assert [found[row.id].text for row in rows] == [row.text for row in rows]


def test_consolidated_rows_leave_their_pool_for_good(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(3), None, NOW)
    consolidate(store, vault, make)
    nothing = take_nothing(store, vault, make, now_ms=AFTER_A_YEAR)
    assert (nothing.leased, nothing.next_expiry_ms) == (0, None)


def test_the_header_keeps_the_outcome(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    batch = take(store, vault, make).batch
    answer = store.commit(vault, batch.id, make.entries(4), NOW + MINUTE)
    header = store.batch(vault, batch.id)
    assert header is not None
    assert header.state in (State.COMMITTED, State.SETTLED)
    assert (header.count, header.covers) == (batch.count, batch.covers)
    assert (header.created, header.sources_consolidated, header.sources_deleted) == (answer.created, 2, 0)
    assert header.committed_ms == NOW + MINUTE


def test_a_second_tier_is_consolidated_into_a_third(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    lower = consolidate(store, vault, make, (5, 6))
    upper = consolidate(store, vault, make, (9,), tier=2)
    assert (upper.tier, upper.sources_consolidated, upper.debt) == (3, 2, Debt())
    rows = store.get(vault, [item.id for item in (*lower.created, *upper.created)])
    assert [row.tier for row in rows.values()] == [2, 2, 3]
    assert rows[lower.created[0].id].consolidated_by == upper.batch_id
    assert rows[upper.created[0].id].consolidated_by is None


@pytest.mark.parametrize("now_ms", [NOW + 2, NOW + LEASE, AFTER_A_YEAR, 0])
def test_the_first_commit_wins_and_every_later_one_is_its_replay(
    store: MemoryStore, vault: VaultRef, make: Maker, now_ms: int
) -> None:
    store.append(vault, make.raws(2), None, NOW)
    batch = take(store, vault, make).batch
    first = store.commit(vault, batch.id, make.entries(4, 5), NOW + 1)
    rows = everything(store, vault)
    replay = store.commit(vault, batch.id, make.entries(9), now_ms)
    assert replay.already_committed
    assert (replay.created, replay.sources_consolidated, replay.tier) == (first.created, 2, 2)
    assert everything(store, vault) == rows
    store.append(vault, make.raws(1), None, NOW)
    assert store.commit(vault, batch.id, make.entries(9), now_ms).debt == store.debt(vault)


def test_a_replay_names_reflections_that_were_deleted_since(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    first = consolidate(store, vault, make, (4, 5))
    store.delete(vault, [first.created[0].id], NOW)
    replay = store.commit(vault, first.batch_id, make.entries(1), NOW + 5)
    assert replay.created == first.created
    assert first.created[0].id not in store.get(vault, [first.created[0].id])


def test_a_commit_at_the_expiry_is_too_late_for_good(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    batch = take(store, vault, make).batch
    assert code(store, vault, make, batch.id, NOW + LEASE) == "lease_expired"
    assert code(store, vault, make, batch.id, NOW + 1) == "lease_expired"
    assert len(everything(store, vault)) == 2
    assert len(take(store, vault, make, now_ms=NOW + 1).memories) == 2


def test_a_commit_just_before_the_expiry_is_in_time(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    batch = take(store, vault, make).batch
    assert store.commit(vault, batch.id, make.entries(1), NOW + LEASE - 1).sources_consolidated == 2


def test_an_unknown_batch_is_not_found(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    known = take(store, vault, make).batch.id
    for name in (make.batch_id(), "", "cb_\u0000", "x" * 5000, f"{known}#S0", f"{known}#"):
        with pytest.raises(NotFound):
            store.commit(vault, name, make.entries(1), NOW)
        assert store.batch(vault, name) is None
        assert store.sources(vault, name, 0, 5) == SourcePage((), None)
        assert store.written_by(vault, [name]) == {}


def test_rows_deleted_while_leased_are_left_out(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(4)
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make).batch
    store.delete(vault, [rows[1].id], NOW)
    answer = store.commit(vault, batch.id, make.entries(1), NOW + 1)
    assert answer.sources_consolidated == 3
    header = store.batch(vault, batch.id)
    assert header is not None
    assert (header.count, header.sources_deleted, header.covers) == (4, 1, batch.covers)
    page = store.sources(vault, batch.id, 0, 10)
    assert [(row.id, row.position) for row in page.memories] == [(rows[0].id, 0), (rows[2].id, 2), (rows[3].id, 3)]


def test_a_delete_after_the_commit_does_not_change_its_answer(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(3)
    store.append(vault, rows, None, NOW)
    first = consolidate(store, vault, make)
    store.delete(vault, ids_of(rows), NOW)
    replay = store.commit(vault, first.batch_id, make.entries(1), NOW)
    assert replay.sources_consolidated == 3
    header = store.batch(vault, first.batch_id)
    assert header is not None
    assert header.sources_deleted == 3
    assert store.sources(vault, first.batch_id, 0, 10).memories == ()


def test_a_batch_without_sources_left_is_closed(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(2)
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make).batch
    store.delete(vault, ids_of(rows), NOW)
    assert code(store, vault, make, batch.id, NOW + 1) == "sources_deleted"
    assert everything(store, vault) == []
    header = store.batch(vault, batch.id)
    assert header is not None
    assert header.state not in (State.LEASED, State.COMMITTED, State.SETTLED)
    code(store, vault, make, batch.id, NOW + 2)
    assert take_nothing(store, vault, make).leased == 0


@at_volume
@pytest.mark.parametrize("count", [10_000])
def test_a_batch_of_the_largest_size_commits_whole(
    store: MemoryStore, vault: VaultRef, make: Maker, count: int
) -> None:
    rows = make.raws(count)
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make).batch
    entries = make.entries(*[1 + n % 10 for n in range(100)])
    answer = store.commit(vault, batch.id, entries, NOW + 1)
    assert (answer.sources_consolidated, len(answer.created)) == (count, 100)
    assert answer.debt == recount(everything(store, vault))
    page = store.sources(vault, batch.id, count - 3, 100)
    assert (ids_of(page.memories), page.next_offset) == (ids_of(rows[-3:]), None)
    assert store.reopen(vault, batch.id, NOW + 2).sources_returned == count
    assert store.debt(vault) == recount(rows)
