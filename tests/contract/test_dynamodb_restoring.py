"""Imports and purges that are cut off, repeated, and raced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from shared.adapters.dynamodb.store import DynamoStore
from shared.domain.batch import Batch
from shared.domain.errors import InvalidRequest, StaleEpoch, Unavailable
from shared.domain.memory import Memory, VaultRef
from tests.contract.dynamodb_rig import DynamoRig
from tests.contract.model import recount
from tests.contract.rows import NOW, Maker, consolidate, everything, ids_of, take
from tests.dynamodb.table import MemoryTable


class Died(BaseException):
    pass


@pytest.fixture
def rig() -> DynamoRig:
    return DynamoRig.in_memory()


Export = tuple[Sequence[Memory], Sequence[Batch]]


@pytest.fixture
def export(rig: DynamoRig, make: Maker) -> Export:
    """A vault with two consolidations, one of which lost a source."""
    vault = rig.new_vault()
    for _ in range(2):
        rig.store.append(vault, make.raws(70), None, NOW)
        consolidate(rig.store, vault, make, (4, 7))
    rig.store.append(vault, make.raws(3), None, NOW)
    rig.store.delete(vault, [everything(rig.store, vault)[5].id], NOW)
    rows = everything(rig.store, vault)
    names = sorted({row.consolidated_by for row in rows if row.consolidated_by})
    return rows, list(rig.store.batches(vault, names).values())


@pytest.fixture
def target(rig: DynamoRig, export: Export) -> VaultRef:
    return rig.importing(rig.new_vault())


def at_transaction(memory: MemoryTable, number: int, then: Callable[[], object], *, after: bool) -> None:
    """Calls `then` before, or after, the `number`-th transaction from now, counted from 1."""
    seen = []

    def hook(name: str, params: Any) -> None:
        seen.append(name)
        if seen.count("transact_write_items") == number and name == "transact_write_items":
            memory.before = memory.after = None
            then()

    if after:
        memory.after = hook
    else:
        memory.before = hook


def die() -> None:
    raise Died


def check(rig: DynamoRig, target: VaultRef, export: Export) -> None:
    rows, batches = export
    assert everything(rig.store, target) == list(rows)
    assert rig.store.debt(target) == recount(rows)
    assert sum(rig.store.totals(target).memories.values()) == len(rows)
    for batch in batches:
        sources = rig.store.sources(target, batch.id, 0, 1000).memories
        assert ids_of(sources) == [row.id for row in sorted(rows, key=place) if row.consolidated_by == batch.id]
        found = rig.store.batch(target, batch.id)
        assert found is not None
        assert found.sources_deleted == batch.count - len(sources)


def place(row: Memory) -> int:
    return -1 if row.position is None else row.position


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_page_that_was_cut_off_is_sent_again(
    rig: DynamoRig, memory: MemoryTable, export: Export, target: VaultRef, number: int, after: bool
) -> None:
    rows, batches = export
    at_transaction(memory, number, die, after=after)
    with pytest.raises(Died):
        rig.store.restore(target, rows, batches, NOW)
    for _ in range(2):
        assert rig.store.restore(target, rows, batches, NOW) == len(rows)
    rig.store.complete_import(target)
    check(rig, target, export)


def test_two_hands_send_the_same_page(rig: DynamoRig, memory: MemoryTable, export: Export, target: VaultRef) -> None:
    rows, batches = export
    at_transaction(memory, 2, lambda: rig.store.restore(target, rows, batches, NOW), after=False)
    assert rig.store.restore(target, rows, batches, NOW) == len(rows)
    rig.store.complete_import(target)
    check(rig, target, export)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_a_completion_that_was_cut_off_goes_on(
    rig: DynamoRig, memory: MemoryTable, export: Export, target: VaultRef, number: int, after: bool
) -> None:
    rig.store.restore(target, *export, NOW)
    at_transaction(memory, number, die, after=after)
    with pytest.raises(Died):
        rig.store.complete_import(target)
    for _ in range(2):
        rig.store.complete_import(target)
    check(rig, target, export)


@pytest.mark.parametrize("number", [1, 2])
def test_a_completion_sees_the_page_that_comes_in_between(
    rig: DynamoRig, memory: MemoryTable, export: Export, target: VaultRef, number: int
) -> None:
    rows, batches = export
    rig.store.restore(target, rows[:60], batches, NOW)
    at_transaction(memory, number, lambda: rig.store.restore(target, rows[60:], [], NOW), after=False)
    rig.store.complete_import(target)
    check(rig, target, export)


def test_a_page_that_meets_the_completion_is_refused(
    rig: DynamoRig, memory: MemoryTable, export: Export, target: VaultRef, make: Maker
) -> None:
    rig.store.restore(target, *export, NOW)
    at_transaction(memory, 1, lambda: rig.store.complete_import(target), after=False)
    with pytest.raises(StaleEpoch):
        rig.store.restore(target, make.raws(1), [], NOW)
    check(rig, target, export)


def test_a_header_that_comes_alone_gets_its_list_too(
    rig: DynamoRig, memory: MemoryTable, export: Export, target: VaultRef
) -> None:
    rows, batches = export
    free = [row for row in rows if row.consolidated_by is None and row.origin is None]
    rig.store.restore(target, free, [], NOW)
    at_transaction(memory, 1, lambda: rig.store.restore(target, [], batches[:1], NOW), after=False)
    rig.store.complete_import(target)
    assert rig.store.sources(target, batches[0].id, 0, 9).memories == ()
    found = rig.store.batch(target, batches[0].id)
    assert found is not None
    assert found.sources_deleted == batches[0].count


def test_an_import_of_nothing_can_be_completed(rig: DynamoRig, make: Maker) -> None:
    target = rig.importing(rig.new_vault())
    assert rig.store.restore(target, [], [], NOW) == 0
    for _ in range(2):
        rig.store.complete_import(target)
    with pytest.raises(StaleEpoch):
        rig.store.restore(target, make.raws(1), [], NOW)


def test_what_is_wrong_is_named(rig: DynamoRig, export: Export, target: VaultRef) -> None:
    rows, batches = export
    rig.store.restore(target, rows, batches[:1], NOW)
    with pytest.raises(InvalidRequest) as raised:
        rig.store.complete_import(target)
    assert batches[1].id in raised.value.message


def test_a_seal_and_an_append_exclude_each_other(rig: DynamoRig, memory: MemoryTable, make: Maker) -> None:
    first, second = rig.new_vault(), rig.new_vault()
    at_transaction(memory, 1, lambda: rig.store.seal(first), after=False)
    with pytest.raises(StaleEpoch):
        rig.store.append(first, make.raws(1), None, NOW)
    rig.store.append(second, make.raws(1), None, NOW)
    assert not rig.store.seal(second)


def test_rows_that_are_certain_but_not_there_yet_are_rows(rig: DynamoRig, memory: MemoryTable, make: Maker) -> None:
    vault = rig.new_vault()
    rows = make.raws(150)
    at_transaction(memory, 1, die, after=True)
    with pytest.raises(Died):
        rig.store.append(vault, rows, None, NOW)
    assert not rig.store.seal(vault)
    rig.store.finish(vault, rows[0].id)
    assert len(everything(rig.store, vault)) == 150


def left(rig: DynamoRig, memory: MemoryTable, vault: VaultRef) -> list[str]:
    partition = f"V#{vault.vault_id}#{vault.epoch}"
    return [item["sk"]["S"] for item in memory.snapshot(rig.name) if item["pk"]["S"] == partition]


def fill(rig: DynamoRig, vault: VaultRef, make: Maker) -> None:
    rig.store.append(vault, make.raws(60), None, NOW)
    consolidate(rig.store, vault, make)
    rig.store.append(vault, make.raws(5), None, NOW)
    take(rig.store, vault, make)


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_purge_that_was_cut_off_is_finished_by_the_next(
    rig: DynamoRig, memory: MemoryTable, make: Maker, place: int
) -> None:
    vault = rig.new_vault()
    fill(rig, vault, make)
    epoch = rig.directory.next_epoch(vault.vault_id, unbind=False)
    seen = []

    def hook(name: str, params: Any) -> None:
        seen.append(name)
        if seen.count("batch_write_item") == place:
            memory.after = None
            raise Died

    memory.after = hook
    with pytest.raises(Died):
        rig.store.purge(vault.vault_id, epoch)
    assert rig.directory.waiting_purge(vault.vault_id) == epoch
    with pytest.raises(StaleEpoch):
        rig.store.get(vault, [])
    rig.store.purge(vault.vault_id, epoch)
    assert left(rig, memory, vault) == ["D"]
    assert rig.directory.waiting_purge(vault.vault_id) is None


def test_a_large_purge_is_done_in_several_calls(rig: DynamoRig, memory: MemoryTable, make: Maker) -> None:
    vault = rig.new_vault()
    rig.store.append(vault, make.raws(1_200), None, NOW)
    epoch = rig.directory.next_epoch(vault.vault_id, unbind=False)
    seconds = count(step=6)
    slow = DynamoStore(rig.table, rig.feed.note, rig.directory.purged, clock=lambda: float(next(seconds)))
    with pytest.raises(Unavailable) as more:
        slow.purge(vault.vault_id, epoch)
    assert more.value.retry_after
    assert 1 < len(left(rig, memory, vault)) < 1_200
    with pytest.raises(StaleEpoch):
        rig.store.debt(vault)
    slow.purge(vault.vault_id, epoch)
    assert rig.directory.waiting_purge(vault.vault_id) is None
    assert left(rig, memory, vault) == ["D"]


def test_a_purge_survives_batches_that_are_done_in_part(rig: DynamoRig, memory: MemoryTable, make: Maker) -> None:
    vault = rig.new_vault()
    fill(rig, vault, make)
    memory.leave_unprocessed(20, op="batch_write_item", times=3)
    rig.dropped(vault)
    assert left(rig, memory, vault) == ["D"]


def test_the_next_purge_takes_what_a_late_writer_left(rig: DynamoRig, memory: MemoryTable, make: Maker) -> None:
    vault = rig.new_vault()
    fill(rig, vault, make)
    fresh = rig.dropped(vault)
    late = {"pk": {"S": f"V#{vault.vault_id}#{vault.epoch}"}, "sk": {"S": "T#late#000"}}
    memory.put_item(TableName=rig.name, Item=late)
    fill(rig, fresh, make)
    rig.dropped(fresh)
    assert left(rig, memory, vault) == left(rig, memory, fresh) == ["D"]


def test_a_purge_after_many_others_looks_at_the_last_contents_only(
    rig: DynamoRig, memory: MemoryTable, make: Maker
) -> None:
    vault = rig.new_vault()
    costs = []
    for _ in range(12):
        rig.store.append(vault, make.raws(1), None, NOW)
        memory.log.clear()
        vault = rig.dropped(vault)
        costs.append(len(memory.log))
    assert costs[-1] == costs[-2] == costs[6]
