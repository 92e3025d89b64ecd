"""What the embedded back end does with files that are foreign, broken, missing, full or owned by someone else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from shared.adapters.sqlite.database import Connect, connect
from shared.adapters.sqlite.files import FolderOwner
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef
from tests.contract.rows import NOW, Maker
from tests.contract.sqlite_rig import SqliteRig


def vault_file(folder: Path, vault: VaultRef) -> Path:
    return folder / "vaults" / f"{vault.vault_id}.{vault.epoch}.sqlite3"


def test_a_folder_has_one_owner_and_is_free_after_it(tmp_path: Path) -> None:
    with FolderOwner(tmp_path), pytest.raises(Unavailable, match="in use by another strata server"):
        FolderOwner(tmp_path)
    FolderOwner(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="data"):
        FolderOwner(tmp_path / "file" / "data")


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"\x00" * 4096, b"SQLite format 3\x00" + b"x" * 90]
)
def test_a_broken_key_file_stops_the_start_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys.sqlite3"
    path.write_bytes(content)
    with pytest.raises(Unavailable, match=r"keys\.sqlite3"):
        SqliteRig(tmp_path)
    assert path.read_bytes() == content


def test_a_foreign_database_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Unavailable, match="not made by this program"):
        SqliteRig(tmp_path)
    assert path.read_bytes() == before


def test_a_missing_key_file_beside_vaults_stops_the_start(tmp_path: Path) -> None:
    rig = SqliteRig(tmp_path)
    rig.store.append(rig.new_vault(), Maker().raws(1), None, NOW)
    rig.close()
    (tmp_path / "keys.sqlite3").unlink()
    with pytest.raises(Unavailable, match="missing"):
        SqliteRig(tmp_path)
    assert not (tmp_path / "keys.sqlite3").exists()


def test_a_missing_vault_file_is_reported_and_not_begun_anew(tmp_path: Path) -> None:
    rig = SqliteRig(tmp_path)
    vault = rig.new_vault()
    rig.store.append(vault, Maker().raws(3), None, NOW)
    rig.close()
    vault_file(tmp_path, vault).unlink()
    rig = SqliteRig(tmp_path)
    with pytest.raises(Unavailable, match=vault.vault_id):
        rig.store.debt(vault)
    assert not vault_file(tmp_path, vault).exists()
    rig.close()


def test_a_corrupted_vault_answers_unavailable_and_others_work(tmp_path: Path) -> None:
    rig = SqliteRig(tmp_path)
    broken, whole = rig.new_vault(), rig.new_vault()
    for vault in (broken, whole):
        rig.store.append(vault, Maker().raws(50), None, NOW)
    rig.close()
    path = vault_file(tmp_path, broken)
    content = path.read_bytes()
    path.write_bytes(b"garbage " * (len(content) // 8))
    rig = SqliteRig(tmp_path)
    with pytest.raises(Unavailable, match=vault_file(tmp_path, broken).name) as caught:
        rig.store.debt(broken)
    assert caught.value.code == "storage_unavailable"
    assert caught.value.retry_after is not None
    assert path.read_bytes().startswith(b"garbage ")
    assert rig.store.debt(whole).raw_units == 50
    rig.close()


def limited(pages: int) -> Connect:
    """Connections to files that cannot grow beyond a number of pages: SQLite's own full disk."""

    def open_limited(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    return open_limited


def test_a_full_disk_refuses_the_write_whole_and_reads_go_on(tmp_path: Path) -> None:
    rig, make = SqliteRig(tmp_path, limited(60)), Maker()
    vault = rig.new_vault()
    rig.store.append(vault, make.raws(5), None, NOW)
    before = rig.store.debt(vault)
    large = [make.raw("x" * 3000) for _ in range(200)]
    with pytest.raises(Unavailable, match="full") as caught:
        rig.store.append(vault, large, None, NOW)
    assert caught.value.code == "storage_unavailable"
    assert rig.store.debt(vault) == before
    assert rig.store.get(vault, [large[0].id]) == {}
    assert rig.store.append(vault, make.raws(1), None, NOW).debt.raw_units == before.raw_units + 1
    rig.close()


def test_a_read_only_file_refuses_writes_and_serves_reads(tmp_path: Path) -> None:
    rig, make = SqliteRig(tmp_path), Maker()
    vault = rig.new_vault()
    rig.store.append(vault, make.raws(5), None, NOW)
    rig.close()

    def read_only(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA query_only = 1")
        return connection

    rig = SqliteRig(tmp_path, read_only)
    with pytest.raises(Unavailable) as caught:
        rig.store.append(vault, make.raws(1), None, NOW)
    assert caught.value.code == "storage_unavailable"
    assert rig.store.debt(vault).raw_units == 5
    rig.close()
