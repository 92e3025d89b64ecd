"""Checkout: the oldest free rows, within a budget, under a lease that nobody else's overlaps."""

import pytest

from shared.domain.batch import MAX_OPEN_BATCHES, Created, State
from shared.domain.errors import Conflict, RateLimited
from shared.domain.memory import Covers, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import MemoryStore
from tests.contract.conftest import at_volume
from tests.contract.rows import LEASE, MINUTE, NOW, Maker, consolidate, ids_of, take, take_nothing


def test_rows_come_oldest_first_whatever_order_they_were_written_in(
    store: MemoryStore, vault: VaultRef, make: Maker
) -> None:
    rows = [make.raw(date_ms=NOW + offset) for offset in (5, -3, 5, 0, -3, 99)]
    store.append(vault, rows[::-1], None, NOW)
    leased = take(store, vault, make).memories
    assert ids_of(leased) == ids_of(sorted(rows, key=lambda row: (row.date_ms, row.id)))


def test_the_header_describes_the_batch(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(date_ms=NOW - 7, tokens=3), make.raw(date_ms=NOW + 7, tokens=4)]
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make, now_ms=NOW + 1, lease_ms=2 * MINUTE).batch
    assert (batch.tier, batch.state, batch.count, batch.tokens) == (1, State.LEASED, 2, 7)
    assert batch.covers == Covers(NOW - 7, NOW + 7)
    assert (batch.leased_ms, batch.lease_ms, batch.expires_ms) == (NOW + 1, 2 * MINUTE, NOW + 1 + 2 * MINUTE)
    assert store.batch(vault, batch.id) == batch
    assert store.batches(vault, [batch.id, "cb_unknown"]) == {batch.id: batch}


def test_leased_rows_are_unconsolidated_until_the_commit(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(3), None, NOW)
    before = store.debt(vault)
    taken = take(store, vault, make)
    assert store.debt(vault) == before
    assert all(row.consolidated_by is None for row in store.get(vault, ids_of(taken.memories)).values())


def test_checkouts_never_overlap(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(7)
    store.append(vault, rows, None, NOW)
    batches = [take(store, vault, make, budget=Budget(max_rows=3)) for _ in range(3)]
    assert [ids_of(batch.memories) for batch in batches] == [
        ids_of(rows[:3]),
        ids_of(rows[3:6]),
        ids_of(rows[6:]),
    ]


def test_a_row_older_than_leased_ones_is_the_next(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(3), None, NOW)
    take(store, vault, make, budget=Budget(max_rows=2))
    late = make.raw(date_ms=NOW - MINUTE)
    store.append(vault, [late], None, NOW)
    assert take(store, vault, make).memories[0] == late


@pytest.mark.parametrize(
    ("tokens", "cap", "taken"),
    [
        ([400, 400, 200, 1], 1000, 3),
        ([400, 400, 201, 1], 1000, 2),
        ([5000, 1], 1000, 1),
        ([1000, 1], 1000, 1),
        ([999, 1, 1], 1000, 2),
    ],
)
def test_the_token_budget_is_a_hard_cap_that_only_the_first_row_may_break(
    store: MemoryStore, vault: VaultRef, make: Maker, tokens: list[int], cap: int, taken: int
) -> None:
    rows = [make.raw(date_ms=NOW + place, tokens=number) for place, number in enumerate(tokens)]
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make, budget=Budget(max_tokens=cap))
    assert ids_of(batch.memories) == ids_of(rows[:taken])
    assert batch.batch.tokens == sum(tokens[:taken])


@pytest.mark.parametrize(
    ("importances", "target", "soft_tokens", "taken"),
    [
        ([10, 10, 10, 10], 30, 10_000, 3),
        ([10, 10, 9, 10, 10], 30, 10_000, 4),
        ([1, 1, 1], 30, 10_000, 3),
        ([1, 1, 1], 30, 20, 2),
    ],
)
def test_reflections_are_taken_until_the_importance_or_the_soft_cap_is_reached(
    store: MemoryStore, vault: VaultRef, make: Maker, importances: list[int], target: int, soft_tokens: int, taken: int
) -> None:
    store.append(vault, make.raws(1), None, NOW)
    created = consolidate(store, vault, make, importances).created
    batch = take(store, vault, make, 2, Budget(target_importance=target, soft_tokens=soft_tokens))
    assert ids_of(batch.memories) == [item.id for item in created[:taken]]


def test_reflections_queue_by_the_start_of_their_coverage(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    reflections: list[Created] = []
    for start, end in ((0, 90), (10, 20), (-5, 95)):
        store.append(vault, [make.raw(date_ms=NOW + start), make.raw(date_ms=NOW + end)], None, NOW)
        reflections += consolidate(store, vault, make).created
    batch = take(store, vault, make, tier=2)
    assert ids_of(batch.memories) == [reflections[n].id for n in (2, 0, 1)]
    assert batch.batch.covers == Covers(NOW - 5, NOW + 95)


def test_high_level_reflections_are_never_leased(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    consolidate(store, vault, make)
    consolidate(store, vault, make, tier=2)
    assert take_nothing(store, vault, make, tier=2).leased == 0
    assert take_nothing(store, vault, make, tier=1).leased == 0


@pytest.mark.parametrize(("character", "rows_in_an_answer"), [("a", 18), ("\n", 6), ("\x01", 2), ("é", 18)])
def test_a_batch_ends_below_the_size_of_an_answer(
    store: MemoryStore, vault: VaultRef, make: Maker, character: str, rows_in_an_answer: int
) -> None:
    # 290,000 bytes each in memory; on the wire a line feed is three (JSON inside a JSON string), U+0001 is seven.
    text = character * (290_000 // len(character.encode()))
    store.append(vault, [make.raw(text) for _ in range(20)], None, NOW)
    assert len(take(store, vault, make).memories) == rows_in_an_answer


@at_volume
def test_a_batch_has_at_most_ten_thousand_rows(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(10_003)
    store.append(vault, rows, None, NOW)
    assert ids_of(take(store, vault, make).memories) == ids_of(rows[:10_000])
    assert ids_of(take(store, vault, make).memories) == ids_of(rows[10_000:])


def test_an_empty_vault_has_nothing_free(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    nothing = take_nothing(store, vault, make)
    assert (nothing.leased, nothing.next_expiry_ms) == (0, None)


def test_an_empty_answer_tells_what_is_leased_and_until_when(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(3), None, NOW)
    take(store, vault, make, budget=Budget(max_rows=2), lease_ms=9 * MINUTE)
    take(store, vault, make, lease_ms=4 * MINUTE)
    nothing = take_nothing(store, vault, make)
    assert (nothing.leased, nothing.next_expiry_ms) == (3, NOW + 4 * MINUTE)
    other_tier = take_nothing(store, vault, make, tier=2)
    assert (other_tier.leased, other_tier.next_expiry_ms) == (0, None)


def test_a_lease_can_be_taken_over_at_its_expiry_and_not_before(
    store: MemoryStore, vault: VaultRef, make: Maker
) -> None:
    store.append(vault, make.raws(2), None, NOW)
    first = take(store, vault, make)
    take_nothing(store, vault, make, now_ms=NOW + LEASE - 1)
    second = take(store, vault, make, now_ms=NOW + LEASE)
    assert second.memories == first.memories
    fenced = store.batch(vault, first.batch.id)
    assert fenced is not None
    assert fenced.state is State.EXPIRED


def test_a_batch_that_was_taken_over_can_never_commit(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    first = take(store, vault, make)
    second = take(store, vault, make, now_ms=NOW + LEASE)
    with pytest.raises(Conflict) as refusal:
        store.commit(vault, first.batch.id, make.entries(1), NOW + 1)
    assert refusal.value.code == "lease_expired"
    assert store.commit(vault, second.batch.id, make.entries(1), NOW + LEASE + 1).sources_consolidated == 2


def test_more_expired_batches_than_usual_are_all_fenced(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(MAX_OPEN_BATCHES), None, NOW)
    old = [take(store, vault, make, budget=Budget(max_rows=1)).batch.id for _ in range(MAX_OPEN_BATCHES)]
    assert len(take(store, vault, make, now_ms=NOW + LEASE).memories) == MAX_OPEN_BATCHES
    assert {batch.state for batch in store.batches(vault, old).values()} == {State.EXPIRED}


def test_a_hundred_batches_may_be_open_at_once(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(MAX_OPEN_BATCHES), None, NOW)
    leases = [take(store, vault, make, budget=Budget(max_rows=1), lease_ms=LEASE + n) for n in range(MAX_OPEN_BATCHES)]
    assert take_nothing(store, vault, make).leased == MAX_OPEN_BATCHES
    store.append(vault, [make.raw(date_ms=NOW + MINUTE)], None, NOW)
    with pytest.raises(RateLimited) as refusal:
        store.checkout(vault, 1, Budget(), make.lease())
    assert refusal.value.retry_after is not None
    assert 0 < refusal.value.retry_after <= LEASE // 1000
    store.release(vault, leases[5].batch.id, NOW)
    assert take(store, vault, make, budget=Budget(max_rows=1)).memories == leases[5].memories
    assert take(store, vault, make, now_ms=NOW + LEASE).memories


@at_volume
@pytest.mark.slow
def test_a_hundred_thousand_rows_may_be_leased_at_once(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    for _ in range(11):
        store.append(vault, make.raws(9_100), None, NOW)
    sizes: list[int] = []
    while len(sizes) < 12:
        try:
            sizes.append(len(take(store, vault, make).memories))
        except RateLimited:
            break
    assert sum(sizes) == 100_000


def test_deleted_rows_are_not_leased(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(3)
    store.append(vault, rows, None, NOW)
    store.delete(vault, [rows[0].id], NOW)
    assert ids_of(take(store, vault, make).memories) == ids_of(rows[1:])
