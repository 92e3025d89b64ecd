"""Release, renew and reopen: the moves between a batch's states, each of them once."""

import pytest

from shared.domain.batch import RENEW_REPLAY_MS, State
from shared.domain.debt import Debt
from shared.domain.errors import Conflict, NotFound
from shared.domain.memory import VaultRef
from shared.domain.selection import Budget
from shared.ports.store import MemoryStore
from tests.contract.model import recount
from tests.contract.rows import LEASE, MINUTE, NOW, Maker, consolidate, everything, take, take_nothing


def state(store: MemoryStore, vault: VaultRef, batch_id: str) -> State:
    header = store.batch(vault, batch_id)
    assert header is not None
    return header.state


def test_a_release_gives_the_rows_back_at_once(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(3)
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make).batch
    answer = store.release(vault, batch.id, NOW + 1)
    assert (answer.state, answer.returned, answer.debt) == (State.RELEASED, 3, recount(rows))
    assert take(store, vault, make).memories == tuple(rows)


def test_a_released_batch_takes_no_commit_and_no_renewal(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    batch = take(store, vault, make).batch
    store.release(vault, batch.id, NOW + 1)
    with pytest.raises(Conflict) as refusal:
        store.commit(vault, batch.id, make.entries(1), NOW + 1)
    assert refusal.value.code == "batch_released"
    with pytest.raises(Conflict) as refusal:
        store.renew(vault, batch.id, NOW + 1)
    assert refusal.value.code == "batch_released"


def test_a_second_release_changes_nothing(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    batch = take(store, vault, make).batch
    store.release(vault, batch.id, NOW + 1)
    again = take(store, vault, make).batch
    answer = store.release(vault, batch.id, NOW + 2)
    assert (answer.state, answer.returned) == (State.RELEASED, 0)
    assert state(store, vault, again.id) is State.LEASED


def test_an_expired_lease_is_not_released_but_expired(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    batch = take(store, vault, make).batch
    answer = store.release(vault, batch.id, NOW + LEASE)
    assert (answer.state, answer.returned) == (State.EXPIRED, 0)
    # Having said so, the store stands by it, whatever the next caller's clock says.
    with pytest.raises(Conflict):
        store.commit(vault, batch.id, make.entries(1), NOW + 1)


def test_a_committed_batch_cannot_be_released_or_renewed(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    name = consolidate(store, vault, make).batch_id
    for verb in (store.release, store.renew):
        with pytest.raises(Conflict) as refusal:
            verb(vault, name, NOW + 2)
        assert refusal.value.code == "already_committed"


def test_a_release_does_not_count_deleted_rows(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(3)
    store.append(vault, rows, None, NOW)
    batch = take(store, vault, make).batch
    store.delete(vault, [rows[0].id], NOW)
    assert store.release(vault, batch.id, NOW + 1).returned == 2


def test_unknown_batches_are_not_found(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    for verb in (store.release, store.renew, store.reopen):
        with pytest.raises(NotFound):
            verb(vault, make.batch_id(), NOW)


def test_a_renewal_adds_the_leases_own_length_from_now(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    batch = take(store, vault, make, lease_ms=4 * MINUTE).batch
    answer = store.renew(vault, batch.id, NOW + 3 * MINUTE)
    assert answer.expires_ms == NOW + 7 * MINUTE
    take_nothing(store, vault, make, now_ms=NOW + 7 * MINUTE - 1)
    assert store.commit(vault, batch.id, make.entries(1), NOW + 7 * MINUTE - 1).sources_consolidated == 1


def test_a_lease_is_renewed_once(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    batch = take(store, vault, make).batch
    first = store.renew(vault, batch.id, NOW + MINUTE)
    repeated = store.renew(vault, batch.id, NOW + MINUTE + RENEW_REPLAY_MS)
    assert repeated.expires_ms == first.expires_ms
    with pytest.raises(Conflict) as refusal:
        store.renew(vault, batch.id, NOW + MINUTE + RENEW_REPLAY_MS + 1)
    assert refusal.value.code == "already_renewed"
    header = store.batch(vault, batch.id)
    assert header is not None
    assert (header.expires_ms, header.renewed_ms) == (first.expires_ms, NOW + MINUTE)


def test_an_expired_lease_is_not_renewed(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    batch = take(store, vault, make).batch
    with pytest.raises(Conflict) as refusal:
        store.renew(vault, batch.id, NOW + LEASE)
    assert refusal.value.code == "lease_expired"


def test_a_short_lease_that_ran_out_has_no_replay(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    batch = take(store, vault, make, lease_ms=5).batch
    store.renew(vault, batch.id, NOW + 1)
    with pytest.raises(Conflict) as refusal:
        store.renew(vault, batch.id, NOW + 6)
    assert refusal.value.code == "lease_expired"


def test_a_renewal_takes_the_batch_out_of_reach(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    batch = take(store, vault, make).batch
    store.renew(vault, batch.id, NOW + LEASE - 1)
    nothing = take_nothing(store, vault, make, now_ms=NOW + LEASE)
    assert (nothing.leased, nothing.next_expiry_ms) == (2, NOW + 2 * LEASE - 1)


def test_a_reopen_undoes_the_consolidation(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(4)
    store.append(vault, rows, None, NOW)
    before = store.debt(vault)
    committed = consolidate(store, vault, make, (5, 6))
    answer = store.reopen(vault, committed.batch_id, NOW + 2 * MINUTE)
    assert (answer.reflections_removed, answer.sources_returned, answer.debt) == (2, 4, before)
    assert everything(store, vault) == rows
    assert store.written_by(vault, [committed.batch_id]) == {}
    assert store.sources(vault, committed.batch_id, 0, 10).memories == ()
    assert state(store, vault, committed.batch_id) is State.REOPENED
    assert take(store, vault, make).memories == tuple(rows)


def test_a_reopened_batch_takes_nothing_any_more(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    name = consolidate(store, vault, make).batch_id
    store.reopen(vault, name, NOW)
    for attempt in (
        lambda: store.commit(vault, name, make.entries(1), NOW),
        lambda: store.release(vault, name, NOW),
        lambda: store.renew(vault, name, NOW),
    ):
        with pytest.raises(Conflict) as refusal:
            attempt()
        assert refusal.value.code == "reopened"


def test_a_repeated_reopen_gives_the_first_counts(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(3)
    store.append(vault, rows, None, NOW)
    name = consolidate(store, vault, make, (5, 6)).batch_id
    store.reopen(vault, name, NOW)
    other = consolidate(store, vault, make)
    store.delete(vault, [rows[0].id], NOW)
    again = store.reopen(vault, name, NOW + 5)
    assert (again.reflections_removed, again.sources_returned) == (2, 3)
    assert again.debt == store.debt(vault)
    assert state(store, vault, other.batch_id) in (State.COMMITTED, State.SETTLED)


def test_a_reopen_counts_what_is_still_there(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(3)
    store.append(vault, rows, None, NOW)
    committed = consolidate(store, vault, make, (5, 6))
    store.delete(vault, [rows[0].id, committed.created[1].id], NOW)
    answer = store.reopen(vault, committed.batch_id, NOW)
    assert (answer.reflections_removed, answer.sources_returned) == (1, 2)
    assert answer.debt == recount(everything(store, vault)) == recount(rows[1:])


@pytest.mark.parametrize("fate", ["leased", "released", "expired"])
def test_only_a_committed_batch_can_be_reopened(store: MemoryStore, vault: VaultRef, make: Maker, fate: str) -> None:
    store.append(vault, make.raws(1), None, NOW)
    batch = take(store, vault, make).batch
    if fate == "released":
        store.release(vault, batch.id, NOW)
    if fate == "expired":
        take(store, vault, make, now_ms=NOW + LEASE)
    with pytest.raises(Conflict) as refusal:
        store.reopen(vault, batch.id, NOW)
    assert refusal.value.code == "not_committed"


def test_a_reflection_that_is_consolidated_keeps_its_batch_closed(
    store: MemoryStore, vault: VaultRef, make: Maker
) -> None:
    store.append(vault, make.raws(2), None, NOW)
    lower = consolidate(store, vault, make, (5, 6))
    upper = consolidate(store, vault, make, (7,), tier=2)
    rows = everything(store, vault)
    with pytest.raises(Conflict) as refusal:
        store.reopen(vault, lower.batch_id, NOW)
    assert refusal.value.code == "reflections_in_use"
    assert everything(store, vault) == rows
    assert store.reopen(vault, upper.batch_id, NOW).sources_returned == 2
    assert store.reopen(vault, lower.batch_id, NOW).reflections_removed == 2
    assert store.debt(vault) == recount(everything(store, vault))


def test_a_reflection_that_is_leased_keeps_its_batch_closed(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    lower = consolidate(store, vault, make, (5, 6))
    held = take(store, vault, make, tier=2, budget=Budget(max_rows=1)).batch
    with pytest.raises(Conflict) as refusal:
        store.reopen(vault, lower.batch_id, NOW + LEASE - 1)
    assert refusal.value.code == "reflections_in_use"
    store.release(vault, held.id, NOW)
    assert store.reopen(vault, lower.batch_id, NOW).reflections_removed == 2


def test_an_expired_lease_of_a_reflection_is_fenced(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    lower = consolidate(store, vault, make, (5, 6))
    held = take(store, vault, make, tier=2).batch
    assert store.reopen(vault, lower.batch_id, NOW + LEASE).reflections_removed == 2
    assert state(store, vault, held.id) is State.EXPIRED
    with pytest.raises(Conflict):
        store.commit(vault, held.id, make.entries(1), NOW + 1)
    assert store.debt(vault) == recount(everything(store, vault))


def test_a_deleted_reflection_does_not_keep_its_batch_closed(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    lower = consolidate(store, vault, make)
    take(store, vault, make, tier=2)
    store.delete(vault, [lower.created[0].id], NOW)
    answer = store.reopen(vault, lower.batch_id, NOW)
    assert (answer.reflections_removed, answer.sources_returned) == (0, 1)
    assert answer.debt.tier2_count == 0


def test_debt_returns_to_zero_and_back(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(2), None, NOW)
    lower = consolidate(store, vault, make)
    upper = consolidate(store, vault, make, tier=2)
    assert store.debt(vault) == Debt()
    store.reopen(vault, upper.batch_id, NOW)
    store.reopen(vault, lower.batch_id, NOW)
    assert store.debt(vault) == recount(everything(store, vault))
    assert store.debt(vault).raw_units == 2
