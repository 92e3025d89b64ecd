"""A vault's file beside its writes: it shrinks step by step, and is marked while anything in it waits."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared.adapters.sqlite import marks as marks_module
from shared.adapters.sqlite import upkeep as upkeep_module
from shared.adapters.sqlite.index import SqliteIndex
from shared.adapters.sqlite.upkeep import PAGES_AT_ONCE, SPARE_PAGES, Upkeep
from shared.domain.errors import StaleEpoch, Unavailable
from shared.domain.memory import Memory, VaultRef
from shared.ports.search import Filters, Query
from tests.contract.rows import NOW, Maker
from tests.contract.sqlite_rig import SqliteRig, Unsynced, connect

DIMENSION = 64
INCREMENTAL, NONE = 2, 0


class Older(Unsynced):
    """Makes files as they were made before they could shrink by steps, and before coverage had an index."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        new = sql.startswith("PRAGMA auto_vacuum =") or "memory_span" in sql
        return super().execute("" if new else sql, parameters)


def older(path: Path) -> sqlite3.Connection:
    return connect(path, Older)


class Kept:
    """One vault, its index and its upkeep, which waits for nothing."""

    def __init__(self, folder: Path, rig: SqliteRig, vault: VaultRef) -> None:
        self.folder, self.rig, self.vault = folder, rig, vault
        self.index = SqliteIndex(rig.files, lambda vault: DIMENSION, 1 << 28)
        self.upkeep = Upkeep(rig.files, quiet_s=0.0)

    def write(self, rows: list[Memory]) -> None:
        self.rig.store.append(self.vault, rows, None, NOW)
        self.follow()

    def delete(self, rows: list[Memory]) -> None:
        for start in range(0, len(rows), 500):
            self.rig.store.delete(self.vault, [row.id for row in rows[start : start + 500]], NOW)
        self.follow()

    def follow(self) -> None:
        """As the worker does."""
        while changes := self.rig.feed.pending(self.vault, 500):
            ids = [change.memory_id for change in changes]
            rows = self.rig.store.get(self.vault, ids)
            self.index.remove(self.vault, [name for name in ids if name not in rows])
            self.index.put_words(self.vault, list(rows.values()))
            self.rig.feed.acknowledge(self.vault, changes)
        passages = self.index.without_vectors(self.vault, 100_000)
        if passages:
            self.index.put_vectors(self.vault, passages, np.full((len(passages), DIMENSION), 0.125, np.float32))

    def found(self, word: str) -> list[str]:
        hits = self.index.search(self.vault, Query(word), Filters(), 100)
        return sorted(hit.memory_id for hit in hits if hit.matched)

    def pragma(self, name: str) -> int:
        with self.rig.files.database(self.vault).read() as connection:
            return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    def has_span_index(self) -> bool:
        with self.rig.files.database(self.vault).read() as connection:
            return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_span'").fetchall())

    def log_bytes(self) -> int:
        path = self.rig.files.path(self.vault)
        log = path.with_name(path.name + "-wal")
        return log.stat().st_size if log.exists() else 0

    def file_bytes(self) -> int:
        return self.rig.files.path(self.vault).stat().st_size

    def to_the_end(self) -> int:
        """Steps until nothing is due any more."""
        steps = 1
        while self.upkeep.step() or self.rig.files.written(self.vault) is not None:
            steps += 1
            assert steps < 500
        return steps


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    rig = SqliteRig(tmp_path)
    yield Kept(tmp_path, rig, rig.new_vault())
    rig.close()


def many(make: Maker, count: int) -> list[Memory]:
    return [make.raw(f"word{number} " + "the harbour was quiet then " * 40) for number in range(count)]


def test_a_small_file_is_written_anew_after_a_mass_deletion(kept: Kept, make: Maker) -> None:
    rows = many(make, 300)
    kept.write(rows)
    kept.to_the_end()
    before = kept.file_bytes()
    kept.delete(rows[10:])
    kept.to_the_end()
    assert kept.pragma("freelist_count") == 0
    assert kept.file_bytes() < before / 4
    assert kept.found("word7") == [rows[7].id]
    assert kept.found("word200") == []
    content = kept.rig.files.path(kept.vault).read_bytes()
    assert [row.id for row in rows[10:] if row.text[:60].encode() in content] == []


@pytest.mark.slow
def test_a_large_file_shrinks_by_steps_while_it_is_read_and_written(
    kept: Kept, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_module, "REWRITTEN_PAGES", 0)
    rows = many(make, 1_500)
    kept.write(rows)
    kept.to_the_end()
    before = kept.file_bytes()
    kept.delete(rows[10:])
    freed, steps, added = [], 0, list[Memory]()
    with kept.rig.files.database(kept.vault).read() as reader:
        # A snapshot that stays open: it sees what it saw, and holds nothing up.
        seen = reader.execute("SELECT id, text FROM memory ORDER BY id").fetchall()
        while True:
            pages = kept.pragma("page_count")
            more = kept.upkeep.step()
            freed.append(pages - kept.pragma("page_count"))
            if not more:
                break
            steps += 1
            added.append(make.raw(f"between{steps}"))
            kept.write([added[-1]])
            assert kept.found(f"between{steps}") == [added[-1].id]
            assert reader.execute("SELECT id, text FROM memory ORDER BY id").fetchall() == seen
    assert steps >= 3
    # With a page of the file's own list of pages, now and then.
    assert PAGES_AT_ONCE <= max(freed) <= PAGES_AT_ONCE + 1
    kept.to_the_end()
    assert kept.pragma("freelist_count") <= max(SPARE_PAGES, kept.pragma("page_count") // 8)
    assert kept.file_bytes() < before / 4
    assert {row.id for row in kept.rig.store.export(kept.vault, None, 5_000)} == {
        row.id for row in (*rows[:10], *added)
    }
    with kept.rig.files.database(kept.vault).read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("large", [False, True])
def test_a_file_of_an_earlier_version_goes_on_working(
    tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:
        monkeypatch.setattr(upkeep_module, "REWRITTEN_PAGES", 0)
    rows = many(make, 400)
    rig = SqliteRig(tmp_path, older)
    vault = rig.new_vault()
    Kept(tmp_path, rig, vault).write(rows)
    rig.close()
    rig = SqliteRig(tmp_path)
    kept = Kept(tmp_path, rig, vault)
    assert (kept.pragma("auto_vacuum"), kept.has_span_index()) == (NONE, False)
    kept.delete(rows[5:])
    before = kept.pragma("page_count")
    kept.to_the_end()
    assert kept.found("word3") == [rows[3].id]
    assert kept.has_span_index()
    # One that is large stays as it is; one that is small is made like a new one.
    assert kept.pragma("auto_vacuum") == (NONE if large else INCREMENTAL)
    assert (kept.pragma("page_count") == before) is large
    kept.write([make.raw("heron")])
    assert len(kept.found("heron")) == 1
    rig.close()


def test_a_vault_is_left_in_order_once_nothing_waits(kept: Kept, make: Maker) -> None:
    rows = make.raws(3)
    assert kept.rig.files.dirty() == {}
    kept.rig.store.append(kept.vault, rows, None, NOW)
    for waiting in ("words", "vectors"):
        kept.upkeep.step()
        assert list(kept.rig.files.dirty()) == [kept.vault], waiting
        assert kept.index.waiting(10) == (() if waiting == "words" else (kept.vault,))
        kept.index.put_words(kept.vault, rows)
        kept.rig.feed.acknowledge(kept.vault, kept.rig.feed.pending(kept.vault, 10))
    kept.follow()
    assert kept.log_bytes() > 0
    kept.upkeep.step()
    assert (kept.rig.files.dirty(), kept.log_bytes()) == ({}, 0)
    assert kept.upkeep.step() is False
    kept.write(make.raws(1))
    assert list(kept.rig.files.dirty()) == [kept.vault]


def test_a_reader_keeps_a_vault_from_being_left_in_order_and_no_longer(kept: Kept, make: Maker) -> None:
    kept.write(make.raws(3))
    with kept.rig.files.database(kept.vault).read() as reader:
        assert reader.execute("SELECT COUNT(*) FROM memory").fetchone() == (3,)
        kept.write(make.raws(1))
        kept.upkeep.step()
        assert list(kept.rig.files.dirty()) == [kept.vault]
        assert reader.execute("SELECT COUNT(*) FROM memory").fetchone() == (3,)
    kept.to_the_end()
    assert kept.log_bytes() == 0


class NeverBegins(Unsynced):
    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if sql == "BEGIN IMMEDIATE":
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, parameters)


def test_the_mark_is_there_before_the_write(kept: Kept, make: Maker) -> None:
    kept.write(make.raws(1))
    kept.to_the_end()
    kept.rig.close()
    rig = SqliteRig(kept.folder, lambda path: connect(path, NeverBegins))
    with pytest.raises(Unavailable):
        rig.store.append(kept.vault, make.raws(1), None, NOW)
    rig.close()
    kept.rig.restart()
    assert list(kept.rig.files.dirty()) == [kept.vault]


def test_what_waits_is_known_after_a_crash_and_in_a_folder_without_marks(tmp_path: Path, make: Maker) -> None:
    rig = SqliteRig(tmp_path)
    waiting, done, empty = (rig.new_vault() for _ in range(3))
    Kept(tmp_path, rig, done).write(make.raws(2))
    Kept(tmp_path, rig, done).to_the_end()
    rig.store.append(waiting, make.raws(2), None, NOW)
    rig.store.debt(empty)
    # No close: a crash leaves things so.
    again = SqliteRig(tmp_path)
    assert set(again.files.dirty()) == {waiting}
    again.close()
    rig.close()
    for mark in (tmp_path / "dirty").iterdir():
        mark.unlink()
    (tmp_path / "dirty").rmdir()
    # Half made by a start that died.
    (tmp_path / "dirty.new").mkdir()
    again = SqliteRig(tmp_path)
    assert set(again.files.dirty()) == {waiting, done, empty}
    again.dropped(waiting)
    assert set(again.files.dirty()) == {done, empty}
    again.close()


def marks(folder: Path) -> set[str]:
    return {path.name for path in (folder / "dirty").iterdir()}


def named(*vaults: VaultRef) -> set[str]:
    return {f"{vault.vault_id}.{vault.epoch}" for vault in vaults}


@pytest.mark.parametrize("waiting", ["words", "vectors", "nothing"])
def test_a_vault_whose_mark_is_missing_is_marked_when_it_is_opened(kept: Kept, make: Maker, waiting: str) -> None:
    """As after its file was put back from a copy."""
    rows = make.raws(3)
    kept.rig.store.append(kept.vault, rows, None, NOW)
    if waiting == "vectors":
        kept.index.put_words(kept.vault, rows)
        kept.rig.feed.acknowledge(kept.vault, kept.rig.feed.pending(kept.vault, 10))
    if waiting == "nothing":
        kept.follow()
    kept.rig.close()
    for mark in (kept.folder / "dirty").iterdir():
        mark.unlink()
    kept.rig._start()
    told: list[VaultRef] = []
    upkeep = Upkeep(kept.rig.files, quiet_s=0.0, note=told.append)
    assert (upkeep.step(), kept.rig.files.dirty(), told) == (False, {}, [])
    kept.rig.store.debt(kept.vault)
    found = [] if waiting == "nothing" else [kept.vault]
    assert (list(kept.rig.files.dirty()), marks(kept.folder)) == (found, named(*found))
    upkeep.step()
    assert told == found
    assert list(kept.rig.files.dirty()) == found


LOOK = "SELECT EXISTS (SELECT 1 FROM outbox)"


def test_what_waits_is_asked_at_most_once_for_each_opening(
    kept: Kept, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never in a new vault nor in a marked one, and a write that follows costs neither a statement nor a sync."""
    told: list[str] = []
    synced: list[Path] = []
    monkeypatch.setattr(marks_module, "_sync", synced.append)

    class Told(Unsynced):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            told.append(sql[: len(LOOK)])
            return super().execute(sql, parameters)

    def looks(vault: VaultRef) -> tuple[int, int]:
        """How often was looked, and how often a mark's folder was synced, by an opening and two writes."""
        rig = SqliteRig(kept.folder, lambda path: connect(path, Told))
        told.clear()
        synced.clear()
        for _ in range(2):
            rig.store.append(vault, make.raws(1), None, NOW)
        rig.close()
        return told.count(LOOK), len(synced)

    fresh = kept.rig.new_vault()
    kept.write(make.raws(1))
    kept.to_the_end()
    kept.rig.close()
    assert looks(kept.vault) == (1, 1)
    assert looks(kept.vault) == (0, 0)
    assert looks(fresh) == (0, 1)


class Unknowable(Unsynced):
    """The look at what waits fails, as on a damaged page."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if sql.startswith(LOOK):
            raise sqlite3.DatabaseError("database disk image is malformed")
        return super().execute(sql, parameters)


@pytest.mark.parametrize("fault", ["damaged", "no mark to be set"])
def test_a_vault_is_read_although_nobody_knows_what_waits(kept: Kept, make: Maker, fault: str) -> None:
    kept.rig.store.append(kept.vault, make.raws(3), None, NOW)
    kept.rig.close()
    shutil.rmtree(kept.folder / "dirty")
    (kept.folder / "dirty").mkdir()
    rig = SqliteRig(kept.folder, lambda path: connect(path, Unknowable if fault == "damaged" else Unsynced))
    if fault != "damaged":
        (kept.folder / "dirty").rmdir()
        (kept.folder / "dirty").write_bytes(b"")
    assert rig.store.debt(kept.vault).raw_units == 3
    rig.close()


def test_marks_that_are_removed_under_a_running_server_come_back_with_the_next(kept: Kept, make: Maker) -> None:
    others = [kept.rig.new_vault() for _ in range(12)]
    kept.rig.store.append(kept.vault, make.raws(1), None, NOW)
    shutil.rmtree(kept.folder / "dirty")
    wrong: list[Exception] = []

    def write(vault: VaultRef) -> None:
        try:
            kept.rig.store.append(vault, Maker().raws(1), None, NOW)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(vault,)) for vault in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert marks(kept.folder) == named(kept.vault, *others)
    assert not (kept.folder / "dirty.new").exists()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_mark_does_not_outlive_its_vault(kept: Kept, make: Maker, restarted: bool) -> None:
    kept.write(make.raws(1))
    held = kept.rig.files.database(kept.vault)
    fresh = kept.rig.dropped(kept.vault)
    kept.rig.store.append(fresh, make.raws(1), None, NOW)
    # As who waited for the lock while it was dropped.
    with pytest.raises(StaleEpoch), held.write():
        pass
    assert marks(kept.folder) == named(kept.vault, fresh)
    if restarted:
        kept.rig.restart()
    assert list(kept.rig.files.dirty()) == [fresh]
    assert kept.rig.files.written(kept.vault) is None
    assert marks(kept.folder) == named(fresh)


def test_a_damaged_vault_keeps_no_other_from_its_turn(tmp_path: Path, make: Maker) -> None:
    rig = SqliteRig(tmp_path)
    damaged, whole = rig.new_vault(), rig.new_vault()
    for vault in (damaged, whole):
        Kept(tmp_path, rig, vault).write(make.raws(2))
    rig.close()
    rig.files.path(damaged).write_bytes(b"not a database " * 1_000)
    rig = SqliteRig(tmp_path)
    upkeep = Upkeep(rig.files, quiet_s=0.0)
    assert set(rig.files.dirty()) == {damaged, whole}
    while upkeep.step():
        pass
    assert set(rig.files.dirty()) == {damaged}
    assert rig.files.path(damaged).read_bytes() == b"not a database " * 1_000
    rig.close()
