"""The directory in the table: answers that get lost, and what is noted for a purge."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from shared.adapters.dynamodb.directory import DynamoDirectory
from shared.adapters.dynamodb.table import Patience, Table
from shared.domain.memory import VaultRef
from shared.ports.directory import KeyRecord
from tests.contract.dynamodb_rig import DynamoRig
from tests.contract.rows import MINUTE, NOW
from tests.dynamodb.table import MemoryTable

KEY = KeyRecord("k1", "1" * 64, "v1", "first", frozenset(("memories:read",)), NOW)
MINTED = replace(KEY, key_id="k2", key_hash="2" * 64, vault_id="v2", minted_by="k1")


@pytest.fixture
def rig() -> DynamoRig:
    return DynamoRig.in_memory()


@pytest.fixture
def directory(rig: DynamoRig) -> DynamoDirectory:
    rig.directory.add(KEY)
    return rig.directory


def requests(memory: MemoryTable) -> list[str]:
    return [request.op for request in memory.log]


def test_a_key_and_its_vault_are_two_reads(directory: DynamoDirectory, memory: MemoryTable) -> None:
    memory.log.clear()
    assert directory.open(KEY.key_hash) is not None
    assert requests(memory) == ["get_item", "get_item"]


@pytest.mark.parametrize("kind", ["reply_lost", "connection_closed"])
def test_an_epoch_is_not_moved_twice_when_the_answer_is_lost(
    directory: DynamoDirectory, memory: MemoryTable, kind: str
) -> None:
    memory.fail(kind, op="transact_write_items")
    assert directory.next_epoch("v1", unbind=False) == 2
    assert directory.vault("v1").epoch == 2


def test_lost_answers_of_every_verb_are_asked_for_again(directory: DynamoDirectory, memory: MemoryTable) -> None:
    lose = partial(memory.fail, "reply_lost")
    lose(op="transact_write_items")
    assert directory.add(MINTED) == MINTED
    lose(op="update_item")
    assert directory.bind_model(VaultRef("v1", 1), "a") == "a"
    lose(op="update_item")
    assert directory.open_import(VaultRef("v1", 1)) == 2
    lose(op="transact_write_items")
    directory.cancel_import(VaultRef("v1", 1), 2)
    assert directory.vault("v1").importing is None
    importing = directory.open_import(VaultRef("v1", 1))
    lose(op="transact_write_items")
    directory.finish_import(VaultRef("v1", 1), importing)
    assert directory.vault("v1").epoch == importing
    lose(op="transact_write_items")
    assert directory.disable("k2", "v1", "k1")
    assert not directory.disable("k2", "v1", "k1")


def test_a_late_repetition_does_not_close_an_import_that_was_opened_since(rig: DynamoRig, memory: MemoryTable) -> None:
    rig.directory.add(KEY)
    old = VaultRef("v1", 1)
    importing = rig.directory.open_import(old)
    memory.fail("reply_lost", op="transact_write_items")
    others = DynamoDirectory(Table(memory, rig.name))
    waiting = Patience(5, sleep=lambda seconds: void(others.open_import(old)))
    DynamoDirectory(Table(memory, rig.name, requests=waiting)).cancel_import(old, importing)
    assert rig.directory.vault("v1").importing == importing


def void(answer: object) -> None:
    assert answer is not None


def test_a_disabled_key_leaves_both_listings(directory: DynamoDirectory, rig: DynamoRig, memory: MemoryTable) -> None:
    directory.add(MINTED)
    assert [key.key_id for key in directory.listed("v1", "k1")] == ["k1", "k2"]
    assert directory.disable("k2", "v2", "nobody")
    assert [key.key_id for key in directory.listed("v1", "k1")] == ["k1"]
    left = [item["pk"]["S"] for item in memory.snapshot(rig.name) if item["sk"]["S"] == "K#k2"]
    assert left == []


def test_a_use_is_written_once_an_hour_and_never_backwards(directory: DynamoDirectory, memory: MemoryTable) -> None:
    memory.log.clear()
    for minute in range(0, 120, 5):
        directory.touch("k1", NOW + minute * MINUTE)
    directory.touch("never seen", NOW)
    assert requests(memory) == ["update_item"] * 2
    opened = directory.open(KEY.key_hash)
    assert opened is not None
    assert opened[0].last_used_ms == NOW + 60 * MINUTE


def test_all_processes_together_write_a_use_once_an_hour(
    rig: DynamoRig, directory: DynamoDirectory, memory: MemoryTable
) -> None:
    other = DynamoDirectory(rig.table)
    other.open(KEY.key_hash)
    directory.touch("k1", NOW)
    directory.touch("k1", NOW + 60 * MINUTE)
    other.open(KEY.key_hash)
    memory.log.clear()
    other.touch("k1", NOW + 119 * MINUTE)
    assert memory.log == []
    other.touch("k1", NOW + 120 * MINUTE)
    assert requests(memory) == ["update_item"]


def test_the_model_of_an_opened_vault_is_not_read_again(directory: DynamoDirectory, memory: MemoryTable) -> None:
    first = VaultRef("v1", 1)
    assert directory.model(first) is None
    directory.bind_model(first, "a")
    directory.open(KEY.key_hash)
    memory.log.clear()
    assert directory.model(first) == "a"
    assert memory.log == []


def test_a_model_that_another_process_unbound_is_not_the_next_epochs(
    rig: DynamoRig, directory: DynamoDirectory
) -> None:
    directory.bind_model(VaultRef("v1", 1), "a")
    directory.open(KEY.key_hash)
    other = DynamoDirectory(rig.table)
    following = VaultRef("v1", other.next_epoch("v1", unbind=True))
    assert directory.model(following) is None
    other.bind_model(following, "b")
    assert directory.model(following) == "b"


def test_the_model_of_a_cancelled_import_is_not_that_of_the_epoch_with_its_number(
    rig: DynamoRig, directory: DynamoDirectory
) -> None:
    importing = VaultRef("v1", directory.open_import(VaultRef("v1", 1)))
    directory.bind_model(importing, "a")
    assert directory.model(importing) == "a"
    other = DynamoDirectory(rig.table)
    other.cancel_import(VaultRef("v1", 1), importing.epoch)
    assert other.next_epoch("v1", unbind=True) == importing.epoch
    other.bind_model(importing, "b")
    assert directory.model(importing) == "b"


def test_a_use_that_cannot_be_noted_fails_nothing(
    rig: DynamoRig, directory: DynamoDirectory, memory: MemoryTable, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = DynamoDirectory(Table(memory, rig.name, requests=Patience(0)))
    impatient.open(KEY.key_hash)
    memory.fail("throttled", op="update_item")
    impatient.touch("k1", NOW)
    assert "was not noted" in caplog.text


def test_a_purge_is_due_until_it_is_done(directory: DynamoDirectory) -> None:
    assert directory.waiting_purge("v1") is None
    first = directory.next_epoch("v1", unbind=False)
    assert directory.waiting_purge("v1") == first
    second = directory.next_epoch("v1", unbind=False)
    directory.purged("v1", first)
    assert directory.waiting_purge("v1") == second
    directory.purged("v1", second)
    assert directory.waiting_purge("v1") is None
    importing = directory.open_import(directory.vault("v1").ref)
    directory.finish_import(directory.vault("v1").ref, importing)
    assert directory.waiting_purge("v1") == importing


def test_a_purge_of_no_vault_leaves_no_trace(rig: DynamoRig, memory: MemoryTable) -> None:
    rig.store.purge("never made", 1)
    assert memory.snapshot(rig.name) == []
