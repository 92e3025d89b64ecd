"""The directory: which key opens which vault, and which epoch is the vault's content."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from shared.adapters.sqlite.directory import SqliteDirectory
from shared.domain.errors import NotFound, StaleEpoch
from shared.domain.memory import VaultRef
from shared.ports.directory import Directory, KeyRecord
from tests.contract.conftest import SERVED, SERVED_MARKS
from tests.contract.dynamodb_rig import DynamoRig
from tests.contract.rows import MINUTE, NOW
from tests.contract.sqlite_rig import connect


@pytest.fixture(params=["sqlite", "dynamodb", pytest.param(SERVED, marks=SERVED_MARKS)])
def directory(
    request: pytest.FixtureRequest, dynamo: Callable[[str], DynamoRig], tmp_path: Path
) -> Iterator[Directory]:
    if request.param == "sqlite":
        made = SqliteDirectory(tmp_path, connect)
        yield made
        made.database.close()
    else:
        rig = dynamo(request.param)
        yield rig.directory
        rig.close()


def key(number: int, vault: str = "v1", minted_by: str | None = None) -> KeyRecord:
    scopes = frozenset(("memories:read", "memories:write"))
    return KeyRecord(f"k{number}", f"{number:064x}", vault, f"key {number}", scopes, NOW + number, minted_by)


def test_a_key_that_was_never_seen_opens_nothing(directory: Directory) -> None:
    assert directory.open(key(1).key_hash) is None
    with pytest.raises(NotFound):
        directory.vault("v1")


def test_a_key_comes_back_with_its_vault(directory: Directory) -> None:
    assert directory.add(key(1)) == key(1)
    opened = directory.open(key(1).key_hash)
    assert opened is not None
    record, vault = opened
    assert record == key(1)
    assert vault == directory.vault("v1")
    assert (vault.vault_id, vault.model, vault.importing) == ("v1", None, None)
    assert vault.created_ms == key(1).created_ms


def test_the_first_key_of_a_hash_stays(directory: Directory) -> None:
    directory.add(key(1))
    late = replace(key(2, "v2"), key_hash=key(1).key_hash)
    assert directory.add(late) == key(1)
    with pytest.raises(NotFound):
        directory.vault("v2")


def test_concurrent_adds_of_one_key_agree(directory: Directory) -> None:
    keys = [replace(key(number, f"v{number}"), key_hash="f" * 64) for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        added = set(pool.map(directory.add, keys))
    assert len(added) == 1


def test_two_keys_may_open_one_vault(directory: Directory) -> None:
    directory.add(key(1))
    epoch = directory.next_epoch("v1", unbind=False)
    directory.add(key(2))
    for number in (1, 2):
        opened = directory.open(key(number).key_hash)
        assert opened is not None
        assert opened[1].epoch == epoch


def test_keys_are_listed_by_vault_and_by_minter(directory: Directory) -> None:
    for record in (key(3, "v3", minted_by="k1"), key(1), key(2), key(4, "v4", minted_by="k2")):
        directory.add(record)
    assert [record.key_id for record in directory.listed("v1", "k1")] == ["k1", "k2", "k3"]
    assert [record.key_id for record in directory.listed("v4", "k9")] == ["k4"]


def test_a_disabled_key_is_known_but_not_listed(directory: Directory) -> None:
    directory.add(key(1))
    directory.add(key(2))
    assert directory.disable("k2", "v1", "k1")
    assert not directory.disable("k2", "v1", "k1")
    opened = directory.open(key(2).key_hash)
    assert opened is not None
    assert opened[0].disabled
    assert [record.key_id for record in directory.listed("v1", "k1")] == ["k1"]
    assert directory.add(key(2)).disabled


def test_only_keys_that_are_shown_can_be_disabled(directory: Directory) -> None:
    directory.add(key(1))
    directory.add(key(2, "v2"))
    directory.add(key(3, "v3", minted_by="k1"))
    assert not directory.disable("k2", "v1", "k1")
    assert not directory.disable("k9", "v1", "k1")
    assert directory.disable("k3", "v1", "k1")


def test_a_use_is_noted_within_an_hour(directory: Directory) -> None:
    directory.add(key(1))
    directory.touch("k1", NOW)
    directory.touch("k1", NOW + 60 * MINUTE)
    opened = directory.open(key(1).key_hash)
    assert opened is not None
    assert opened[0].last_used_ms in (NOW, NOW + 60 * MINUTE)


def test_the_first_model_stays_bound(directory: Directory) -> None:
    directory.add(key(1))
    vault = directory.vault("v1").ref
    assert directory.bind_model(vault, "a") == "a"
    assert directory.bind_model(vault, "b") == "a"
    assert directory.vault("v1").model == "a"


@pytest.mark.parametrize(("unbind", "model"), [(True, None), (False, "a")])
def test_the_next_epoch_keeps_or_drops_the_model(directory: Directory, unbind: bool, model: str | None) -> None:
    directory.add(key(1))
    old = directory.vault("v1").ref
    directory.bind_model(old, "a")
    epoch = directory.next_epoch("v1", unbind)
    assert epoch > old.epoch
    assert (directory.vault("v1").epoch, directory.vault("v1").model) == (epoch, model)
    with pytest.raises(StaleEpoch):
        directory.bind_model(old, "b")


def test_epochs_are_never_used_twice(directory: Directory) -> None:
    directory.add(key(1))
    with ThreadPoolExecutor(8) as pool:
        epochs = list(pool.map(lambda _: directory.next_epoch("v1", unbind=False), range(16)))
    assert len(set(epochs)) == 16
    assert directory.vault("v1").epoch == max(epochs)


def test_an_import_becomes_the_content_when_it_is_finished(directory: Directory) -> None:
    directory.add(key(1))
    old = directory.vault("v1").ref
    importing = directory.open_import(old)
    assert importing > old.epoch
    assert directory.open_import(old) == importing
    assert (directory.vault("v1").ref, directory.vault("v1").importing) == (old, importing)
    assert directory.bind_model(VaultRef("v1", importing), "a") == "a"
    directory.finish_import(old, importing)
    assert (directory.vault("v1").epoch, directory.vault("v1").importing) == (importing, None)
    for attempt in (lambda: directory.finish_import(old, importing), lambda: directory.open_import(old)):
        with pytest.raises(StaleEpoch):
            attempt()


def test_a_drop_ends_an_import_for_good(directory: Directory) -> None:
    directory.add(key(1))
    old = directory.vault("v1").ref
    importing = directory.open_import(old)
    epoch = directory.next_epoch("v1", unbind=False)
    assert epoch > importing
    assert directory.vault("v1").importing is None
    with pytest.raises(StaleEpoch):
        directory.finish_import(old, importing)
    with pytest.raises(StaleEpoch):
        directory.finish_import(directory.vault("v1").ref, importing)
    assert directory.open_import(directory.vault("v1").ref) > epoch
