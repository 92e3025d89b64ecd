"""Many more vaults than stay open: nobody is disturbed when one is closed, and what is open stays bounded."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.adapters.sqlite.database import MAX_IDLE
from shared.adapters.sqlite.index import SqliteIndex
from shared.domain.errors import StaleEpoch
from shared.domain.memory import VaultRef
from shared.ports.search import Filters, Query
from tests.contract.rows import NOW, Maker
from tests.contract.sqlite_rig import SqliteRig, Unsynced, connect

THREADS = 8
MOST_OPEN = 5


class Counted:
    """Opens connections and knows how many are open, now and at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.open = self.most = 0

    def connect(self, path: Path) -> sqlite3.Connection:
        outer = self

        class Counting(Unsynced):
            def close(self) -> None:
                super().close()
                outer.add(-1)

        connection = connect(path, Counting)
        self.add(1)
        return connection

    def add(self, number: int) -> None:
        with self._lock:
            self.open += number
            self.most = max(self.most, self.open)


class FewOpen(SqliteRig):
    """Keeps `MOST_OPEN` vaults open."""

    def _start(self) -> None:
        super()._start()
        self.files._max_open = MOST_OPEN


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def few(tmp_path: Path, counted: Counted) -> Iterator[FewOpen]:
    made = FewOpen(tmp_path, counted.connect)
    yield made
    made.close()


def crowd_out(rig: SqliteRig) -> None:
    """Use so many other vaults that none from before stays open."""
    for _ in range(MOST_OPEN):
        rig.store.debt(rig.new_vault())


def test_who_holds_a_vault_uses_it_after_it_was_closed(few: FewOpen, counted: Counted) -> None:
    vault = few.new_vault()
    held = few.files.database(vault)
    with held.write() as connection:
        crowd_out(few)
        connection.execute("UPDATE vault SET tokens = 7")
    for _ in range(2):
        crowd_out(few)
        with held.read() as connection:
            assert connection.execute("SELECT tokens FROM vault").fetchone() == (7,)
    # Of the others one connection each and the key file's: of this one none is left.
    assert counted.open == MOST_OPEN + 1


def test_whoever_asks_meanwhile_queues_on_the_same_lock(few: FewOpen) -> None:
    vault = few.new_vault()
    held = few.files.database(vault)
    crowd_out(few)
    assert few.files.database(vault) is held
    crowd_out(few)
    done = threading.Event()

    def write() -> None:
        few.store.append(vault, Maker().raws(1), None, NOW)
        done.set()

    with held.write():
        thread = threading.Thread(target=write)
        thread.start()
        assert not done.wait(0.1)
    assert done.wait(20)
    thread.join()
    assert few.store.debt(vault).raw_units == 1


def test_who_holds_a_vault_that_is_dropped_after_it_was_closed_learns_of_it(few: FewOpen) -> None:
    vault = few.new_vault()
    held = few.files.database(vault)
    crowd_out(few)
    fresh = few.dropped(vault)
    for use in (held.read, held.write):
        with pytest.raises(StaleEpoch), use():
            pass
    assert few.store.append(fresh, Maker().raws(1), None, NOW).debt.raw_units == 1


@pytest.mark.slow
def test_a_crowd_in_three_hundred_vaults(few: FewOpen, counted: Counted, make: Maker) -> None:
    """Limits that are all too small: every call meets a vault that was closed and an index that was let go."""
    limit = 400_000
    index = SqliteIndex(few.files, lambda vault: 8, limit)
    vaults = [few.new_vault() for _ in range(300)]
    expected: dict[VaultRef, str] = {}
    for number, vault in enumerate(vaults):
        rows = [make.raw(f"heron{number} on the weir"), make.raw(f"lantern{number} out")]
        few.store.append(vault, rows, None, NOW)
        index.put_words(vault, rows)
        expected[vault] = rows[0].id
    wrong: list[object] = []
    counted.most = most_bytes = 0

    def work(seed: int) -> None:
        nonlocal most_bytes
        drawn = random.Random(seed)
        try:
            for _ in range(40):
                number = drawn.randrange(len(vaults))
                vault = vaults[number]
                hits = index.search(vault, Query(f"heron{number} lantern{number + 1}"), Filters(), 10)
                if [hit.memory_id for hit in hits if hit.matched] != [expected[vault]]:
                    wrong.append(hits)
                if few.store.debt(vault).raw_units != 2:
                    wrong.append(vault)
                most_bytes = max(most_bytes, index.bytes_used)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(few.files._open) <= MOST_OPEN
    # The key file's, those kept, and one for each thread at work.
    assert counted.most <= MAX_IDLE * (MOST_OPEN + 1) + THREADS
    one = index.bytes_used // index.resident
    assert 0 < most_bytes <= limit + THREADS * one


def test_a_vault_is_not_opened_to_be_named(tmp_path: Path, counted: Counted) -> None:
    rig = SqliteRig(tmp_path)
    vaults = [rig.new_vault() for _ in range(20)]
    for vault in vaults:
        rig.store.append(vault, Maker().raws(1), None, NOW)
    rig.close()
    again = FewOpen(tmp_path, counted.connect)
    opened = counted.most
    assert set(again.files.dirty()) == set(again.files.stored()) == set(vaults)
    assert counted.most == opened
    again.close()
