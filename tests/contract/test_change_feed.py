"""The change feed: no row enters or leaves a vault unnoticed."""

from pathlib import Path
from threading import Thread

import pytest

from shared.domain.memory import VaultRef
from shared.ports.store import ChangeFeed, MemoryStore
from tests.contract.conftest import OpenRig, Rig, at_volume, named
from tests.contract.rows import EVERYTHING, NOW, Maker, consolidate, ids_of


def names(feed: ChangeFeed, vault: VaultRef) -> list[str]:
    return [change.memory_id for change in feed.pending(vault, 1000)]


def test_rows_written_and_removed_are_announced_in_order(
    store: MemoryStore, feed: ChangeFeed, vault: VaultRef, make: Maker
) -> None:
    rows = make.raws(3)
    store.append(vault, rows, None, NOW)
    committed = consolidate(store, vault, make, (4, 5))
    reflections = [item.id for item in committed.created]
    store.delete(vault, [rows[1].id, make.id()], NOW)
    assert names(feed, vault) == [*ids_of(rows), *reflections, rows[1].id]
    store.reopen(vault, committed.batch_id, NOW)
    assert sorted(names(feed, vault)[6:]) == sorted(reflections)
    seqs = [change.seq for change in feed.pending(vault, 1000)]
    assert seqs == sorted(set(seqs))


def test_what_changes_no_row_announces_none(store: MemoryStore, feed: ChangeFeed, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), None, NOW)
    committed = consolidate(store, vault, make)
    before = feed.pending(vault, 1000)
    store.commit(vault, committed.batch_id, make.entries(1), NOW)
    store.delete(vault, [make.id()], NOW)
    store.checkout(vault, 2, EVERYTHING, make.lease())
    assert feed.pending(vault, 1000) == before


def test_the_oldest_changes_come_first(store: MemoryStore, feed: ChangeFeed, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(5)
    store.append(vault, rows, None, NOW)
    page = feed.pending(vault, 2)
    assert [change.memory_id for change in page] == ids_of(rows[:2])
    feed.acknowledge(vault, page)
    assert names(feed, vault) == ids_of(rows[2:])
    feed.acknowledge(vault, page)
    feed.acknowledge(vault, [])
    assert names(feed, vault) == ids_of(rows[2:])


def test_an_acknowledgement_does_not_cover_a_later_change(
    store: MemoryStore, feed: ChangeFeed, vault: VaultRef, make: Maker
) -> None:
    rows = make.raws(1)
    store.append(vault, rows, None, NOW)
    page = feed.pending(vault, 10)
    store.delete(vault, ids_of(rows), NOW)
    feed.acknowledge(vault, page)
    (left,) = feed.pending(vault, 10)
    assert left.memory_id == rows[0].id
    assert left.seq > page[0].seq


def test_changes_stay_with_their_vault(rig: Rig, make: Maker) -> None:
    here, there = rig.new_vault(), rig.new_vault()
    rig.store.append(here, make.raws(2), None, NOW)
    assert rig.feed.pending(there, 10) == ()
    rig.feed.acknowledge(there, rig.feed.pending(here, 10))
    assert len(rig.feed.pending(here, 10)) == 2


@at_volume
def test_many_thousand_changes_can_be_acknowledged_at_once(
    store: MemoryStore, feed: ChangeFeed, vault: VaultRef, make: Maker
) -> None:
    store.append(vault, make.raws(2500), None, NOW)
    page = feed.pending(vault, 2400)
    feed.acknowledge(vault, page)
    assert len(feed.pending(vault, 5000)) == 100


def test_a_thread_is_told_once_which_vaults_it_changed(rig: Rig, make: Maker) -> None:
    here, there = rig.new_vault(), rig.new_vault()
    rig.feed.touched()
    rig.store.append(here, make.raws(1), None, NOW)
    rig.store.append(here, make.raws(1), None, NOW)
    committed = consolidate(rig.store, here, make)
    rig.store.debt(there)
    assert rig.feed.touched() == (here,)
    assert rig.feed.touched() == ()
    rig.store.reopen(here, committed.batch_id, NOW)
    assert rig.feed.touched() == (here,)
    rig.store.delete(here, [make.id()], NOW)
    assert rig.feed.touched() == ()


@pytest.mark.parametrize("name", named("model"))
def test_another_threads_changes_are_its_own(name: str, open_rig: OpenRig, tmp_path: Path, make: Maker) -> None:
    rig = open_rig(name, tmp_path)
    vault = rig.new_vault()
    thread = Thread(target=lambda: rig.store.append(vault, make.raws(1), None, NOW))
    thread.start()
    thread.join()
    assert rig.feed.touched() == ()
    assert len(rig.feed.pending(vault, 10)) == 1
    rig.close()
