"""A vault's contents: walls between vaults, epochs, seals, imports, restarts."""

from dataclasses import replace

import pytest

from shared.domain.batch import Batch
from shared.domain.errors import Conflict, InvalidRequest, NotFound, StaleEpoch
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import Idempotency, MemoryStore, TimelineQuery
from tests.contract.conftest import Rig
from tests.contract.model import recount
from tests.contract.rows import MINUTE, NOW, Maker, consolidate, everything, ids_of, take, take_nothing

ONCE = Idempotency("k", "b", NOW + MINUTE)


def writes(store: MemoryStore, vault: VaultRef, make: Maker, batch_id: str, memory_id: str) -> list[object]:
    """Every verb that writes, ready to be called."""
    return [
        lambda: store.append(vault, make.raws(1), None, NOW),
        lambda: store.append(vault, make.raws(1), ONCE, NOW),
        lambda: store.checkout(vault, 1, Budget(), make.lease()),
        lambda: store.commit(vault, batch_id, make.entries(1), NOW),
        lambda: store.delete(vault, [memory_id], NOW),
        lambda: store.restore(vault, make.raws(1), [], NOW),
    ]


def refused(attempts: list[object], *errors: type[Exception]) -> None:
    for attempt in attempts:
        assert callable(attempt)
        with pytest.raises(errors):
            attempt()


def test_nothing_crosses_the_wall_between_two_vaults(rig: Rig, store: MemoryStore, make: Maker) -> None:
    here, there = rig.new_vault(), rig.new_vault()
    rows = [make.raw(session="s") for _ in range(3)]
    store.append(here, rows, ONCE, NOW)
    batch = take(store, here, make, budget=Budget(max_rows=2)).batch
    committed = store.commit(here, batch.id, make.entries(5), NOW)
    open_batch = take(store, here, make).batch
    mine = everything(store, here)
    ids = ids_of(mine)
    assert store.get(there, ids) == {}
    assert everything(store, there) == []
    assert store.debt(there) == recount([])
    assert store.session_ids(there, "s", 9) == ()
    assert store.batch(there, batch.id) is None
    assert store.batches(there, [batch.id]) == {}
    assert store.written_by(there, [batch.id]) == {}
    assert store.sources(there, batch.id, 0, 9).memories == ()
    assert store.delete(there, ids, NOW).not_found == tuple(ids)
    assert take_nothing(store, there, make).leased == 0
    for verb in (store.release, store.renew, store.reopen):
        with pytest.raises(NotFound):
            verb(there, open_batch.id, NOW)
    for name in (committed.batch_id, open_batch.id):
        with pytest.raises(NotFound):
            store.commit(there, name, make.entries(1), NOW)
    query = TimelineQuery(0, NOW * 2, frozenset((1, 2, 3)), newest_first=False, limit=9)
    assert store.timeline(there, query) == store.spanning(there, query) == ()
    assert store.totals(there).tokens == 0
    assert everything(store, here) == mine


def test_a_dropped_content_is_gone_and_takes_no_write(rig: Rig, store: MemoryStore, make: Maker) -> None:
    vault = rig.new_vault()
    rows = make.raws(3)
    store.append(vault, rows, ONCE, NOW)
    batch = take(store, vault, make).batch
    fresh = rig.dropped(vault)
    assert fresh.vault_id == vault.vault_id
    assert fresh.epoch > vault.epoch
    refused(writes(store, vault, make, batch.id, rows[0].id), StaleEpoch)
    refused([lambda: store.debt(vault), lambda: store.get(vault, ids_of(rows))], StaleEpoch)
    assert everything(store, fresh) == []
    assert store.debt(fresh) == recount([])


def test_leases_and_idempotency_keys_end_with_their_content(rig: Rig, store: MemoryStore, make: Maker) -> None:
    vault = rig.new_vault()
    store.append(vault, make.raws(2), ONCE, NOW)
    committed = consolidate(store, vault, make)
    store.append(vault, make.raws(2), None, NOW)
    leased = take(store, vault, make).batch
    fresh = rig.dropped(vault)
    for name in (committed.batch_id, leased.id):
        with pytest.raises(NotFound):
            store.commit(fresh, name, make.entries(1), NOW)
    again = make.raws(1)
    answer = store.append(fresh, again, replace(ONCE, body_hash="other"), NOW)
    assert (answer.ids, answer.replayed) == ((again[0].id,), False)


def test_a_purge_can_be_repeated_and_spares_the_present(rig: Rig, store: MemoryStore, make: Maker) -> None:
    vault = rig.new_vault()
    other = rig.new_vault()
    store.append(other, make.raws(1), None, NOW)
    store.append(vault, make.raws(1), None, NOW)
    second = rig.dropped(vault)
    store.append(second, make.raws(2), None, NOW)
    for _ in range(2):
        store.purge(vault.vault_id, second.epoch)
    assert len(everything(store, second)) == 2
    third = rig.dropped(second)
    assert everything(store, third) == []
    assert len(everything(store, other)) == 1
    refused([lambda: store.append(vault, make.raws(1), None, NOW)], StaleEpoch)


def test_what_was_answered_survives_a_restart(rig: Rig, make: Maker) -> None:
    vault = rig.new_vault()
    rows = make.raws(4)
    rig.store.append(vault, rows, ONCE, NOW)
    committed = consolidate(rig.store, vault, make, (4, 5))
    rig.store.append(vault, make.raws(3), None, NOW)
    leased = take(rig.store, vault, make, budget=Budget(max_rows=2))
    seen = everything(rig.store, vault)
    changes = rig.feed.pending(vault, 100)
    rig.restart()
    assert everything(rig.store, vault) == seen
    assert rig.store.debt(vault) == recount(seen)
    assert rig.feed.pending(vault, 100) == changes
    assert rig.store.append(vault, make.raws(1), ONCE, NOW).ids == tuple(ids_of(rows))
    assert rig.store.commit(vault, committed.batch_id, make.entries(1), NOW).created == committed.created
    assert rig.store.batch(vault, leased.batch.id) == leased.batch
    assert len(take(rig.store, vault, make).memories) == 1
    assert rig.store.commit(vault, leased.batch.id, make.entries(1), NOW).sources_consolidated == 2


def test_a_drop_outlives_a_restart(rig: Rig, make: Maker) -> None:
    vault = rig.new_vault()
    rig.store.append(vault, make.raws(1), None, NOW)
    fresh = rig.dropped(vault)
    rig.restart()
    refused([lambda: rig.store.append(vault, make.raws(1), None, NOW)], StaleEpoch)
    assert everything(rig.store, fresh) == []


def test_an_empty_content_can_be_sealed(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    assert store.seal(vault)
    assert store.seal(vault)
    refused(writes(store, vault, make, make.batch_id(), make.id())[:3], StaleEpoch)


def test_a_content_with_rows_is_not_sealed(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(1)
    store.append(vault, rows, None, NOW)
    assert not store.seal(vault)
    store.append(vault, make.raws(1), None, NOW)
    store.delete(vault, ids_of(everything(store, vault)), NOW)
    assert store.seal(vault)


def exported(store: MemoryStore, vault: VaultRef) -> tuple[list[Memory], list[Batch]]:
    rows = everything(store, vault)
    names = sorted({name for row in rows for name in (row.origin, row.consolidated_by) if name is not None})
    return rows, list(store.batches(vault, names).values())


def a_lived_in_vault(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    for _ in range(3):
        store.append(vault, [make.raw(session="s"), *make.raws(2)], None, NOW)
        consolidate(store, vault, make, (4, 7))
    consolidate(store, vault, make, (9,), tier=2)
    store.append(vault, make.raws(4), None, NOW)
    consolidate(store, vault, make, (3, 2))
    store.append(vault, make.raws(2), None, NOW)
    rows = everything(store, vault)
    store.delete(vault, [rows[1].id, next(row.id for row in rows if row.tier == 2)], NOW)


@pytest.mark.parametrize("page", [1, 4, 1000])
def test_an_import_gives_back_what_was_exported(rig: Rig, store: MemoryStore, make: Maker, page: int) -> None:
    old, new = rig.new_vault(), rig.new_vault()
    a_lived_in_vault(store, old, make)
    rows, batches = exported(store, old)
    target = rig.importing(new)
    total = 0
    for start in range(0, len(rows), page):
        for _ in range(2):
            total = store.restore(target, rows[start : start + page], batches[start : start + page], NOW)
    store.restore(target, [], batches, NOW)
    assert total == len(rows)
    assert everything(store, new) == []
    for _ in range(2):
        store.complete_import(target)
    assert exported(store, target) == (rows, batches)
    assert store.debt(target) == store.debt(old) == recount(rows)
    assert store.totals(target) == store.totals(old)
    for batch in batches:
        assert store.sources(target, batch.id, 0, 100) == store.sources(old, batch.id, 0, 100)
        assert store.written_by(target, [batch.id]) == store.written_by(old, [batch.id])
        replay = store.commit(target, batch.id, make.entries(1), NOW)
        assert (replay.already_committed, replay.created) == (True, batch.created)


def test_an_imported_consolidation_can_be_undone(rig: Rig, store: MemoryStore, make: Maker) -> None:
    old = rig.new_vault()
    a_lived_in_vault(store, old, make)
    rows, batches = exported(store, old)
    target = rig.importing(rig.new_vault())
    store.restore(target, rows, batches, NOW)
    store.complete_import(target)
    open_ended = [batch.id for batch in batches if batch.tier == 1][-1]
    assert store.reopen(target, open_ended, NOW) == store.reopen(old, open_ended, NOW)
    assert everything(store, target) == everything(store, old)
    in_use = next(batch.id for batch in batches if batch.tier == 1)
    with pytest.raises(Conflict):
        store.reopen(target, in_use, NOW)
    assert ids_of(take(store, target, make).memories) == ids_of(take(store, old, make).memories)


def test_a_page_that_comes_after_the_end_of_its_import_changes_nothing(
    rig: Rig, store: MemoryStore, make: Maker
) -> None:
    old = rig.new_vault()
    a_lived_in_vault(store, old, make)
    rows, batches = exported(store, old)
    target = rig.importing(rig.new_vault())
    store.restore(target, rows, batches, NOW)
    store.complete_import(target)
    take(store, target, make)
    before = everything(store, target), store.debt(target)
    with pytest.raises(StaleEpoch):
        store.restore(target, [rows[0], make.raw()], [], NOW)
    assert store.restore(target, rows[:2], batches, NOW) == len(rows)
    store.complete_import(target)
    assert (everything(store, target), store.debt(target)) == before


def test_an_import_without_a_batch_is_incomplete(rig: Rig, store: MemoryStore, make: Maker) -> None:
    old = rig.new_vault()
    a_lived_in_vault(store, old, make)
    rows, batches = exported(store, old)
    target = rig.importing(rig.new_vault())
    store.restore(target, rows, batches[1:], NOW)
    with pytest.raises(InvalidRequest):
        store.complete_import(target)
    store.restore(target, [], batches[:1], NOW)
    store.complete_import(target)


def test_two_rows_cannot_share_a_place_in_a_batch(rig: Rig, store: MemoryStore, make: Maker) -> None:
    old = rig.new_vault()
    store.append(old, make.raws(3), None, NOW)
    consolidate(store, old, make)
    rows, batches = exported(store, old)
    target = rig.importing(rig.new_vault())
    store.restore(target, [replace(row, position=row.position and 1) for row in rows], batches, NOW)
    with pytest.raises(InvalidRequest):
        store.complete_import(target)


def test_a_page_sent_again_leaves_rows_as_they_are(rig: Rig, store: MemoryStore, make: Maker) -> None:
    target = rig.importing(rig.new_vault())
    rows = make.raws(3)
    assert store.restore(target, rows, [], NOW) == 3
    assert store.restore(target, [replace(row, text="other") for row in rows], [], NOW) == 3
    assert everything(store, target) == rows
    assert store.debt(target) == recount(rows)


def test_an_import_that_is_thrown_away_leaves_nothing(rig: Rig, store: MemoryStore, make: Maker) -> None:
    vault = rig.new_vault()
    target = rig.importing(vault)
    store.restore(target, make.raws(3), [], NOW)
    fresh = rig.dropped(vault)
    assert fresh.epoch > target.epoch
    refused([lambda: store.restore(target, make.raws(1), [], NOW)], StaleEpoch)
    assert everything(store, fresh) == []
