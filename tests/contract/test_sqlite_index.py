"""What the embedded index leaves on disk and keeps in memory."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.sqlite.index import SqliteIndex
from shared.adapters.sqlite.resident import ResidentIndex
from shared.adapters.sqlite.slots import TERM_BYTES, Slots
from shared.domain.memory import Memory, VaultRef
from shared.ports.search import Filters, Query
from shared.retrieval.tokens import tokens
from tests.contract.rows import NOW, Maker, consolidate
from tests.contract.sqlite_rig import SqliteRig, connect

MODEL = HashingEmbedder()


class Vault:
    """One vault with its index; `reopen` begins anew as a restarted process would."""

    def __init__(self, folder: Path) -> None:
        self.rig = SqliteRig(folder)
        self.ref = self.rig.new_vault()
        self.reopen()

    def reopen(self) -> None:
        self.rig.restart()
        self.index = SqliteIndex(self.rig.files, lambda vault: MODEL.dimension, 1 << 28)

    def write(self, rows: Sequence[Memory]) -> None:
        self.rig.store.append(self.ref, rows, None, NOW)
        self.index.put_words(self.ref, rows)
        passages = self.index.without_vectors(self.ref, 10_000)
        self.index.put_vectors(self.ref, passages, MODEL.embed_documents([passage.text for passage in passages]))

    def delete(self, ids: Sequence[str]) -> None:
        self.rig.store.delete(self.ref, ids, NOW)
        self.index.remove(self.ref, ids)

    def found(self, query: str) -> list[str]:
        """Rows that hold a word of the query."""
        hits = self.index.search(self.ref, Query(query), Filters(), 100)
        return sorted(hit.memory_id for hit in hits if hit.matched)

    def terms(self) -> dict[str, int]:
        with self.rig.files.database(self.ref).read() as connection:
            return dict(connection.execute("SELECT stem, id FROM term").fetchall())

    def on_disk(self) -> bytes:
        """Every byte of the vault's file and of its log after a checkpoint."""
        path = self.rig.files.path(self.ref)
        connection = connect(path)
        blocked = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        connection.close()
        assert not blocked
        log = path.with_name(path.name + "-wal")
        return path.read_bytes() + (log.read_bytes() if log.exists() else b"")


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = Vault(tmp_path)
    yield made
    made.rig.close()


def stems(*texts: str) -> set[str]:
    return {stem for text in texts for stem in tokens(text)}


@pytest.mark.parametrize("searched", [False, True])
def test_terms_are_those_of_the_rows_that_are_left(vault: Vault, make: Maker, searched: bool) -> None:
    heading = stems("user 1 January 2026 February 2 2026")
    long = "Otters swim. " * 60 + "A zeppelin passed. " + "Otters dive. " * 60
    rows = [make.raw("granite lighthouses"), make.raw("granite canoes"), make.raw(long), make.raw("violins")]
    vault.write(rows)
    if searched:
        assert vault.found("lighthouse") == [rows[0].id]
    numbers = vault.terms()
    vault.delete([rows[0].id, rows[2].id, make.id()])
    assert vault.terms().keys() - heading == stems("granite canoes", "violins")
    assert vault.found("lighthouse zeppelin otters") == []
    assert vault.found("granite") == [rows[1].id]
    again = [make.raw("zeppelins"), make.raw("saffron lighthouse")]
    vault.write(again)
    now = vault.terms()
    assert {stem: number for stem, number in now.items() if stem in numbers} | now == now
    assert all(now[stem] > max(numbers.values()) for stem in stems("zeppelin lighthouse saffron"))
    for _ in range(2):
        assert vault.found("zeppelin") == [again[0].id]
        assert vault.found("lighthouses") == [again[1].id]
        assert vault.found("violin") == [rows[3].id]
        vault.reopen()
    vault.delete([row.id for row in (rows[1], rows[3], *again)])
    assert vault.terms() == {}


def test_histories_leave_the_terms_of_their_rows(vault: Vault, make: Maker) -> None:
    drawn = random.Random(5)
    words = [f"{start}{end}" for start in ("bram", "clon", "drift", "glim") for end in ("ock", "und", "ax", "ole")]
    held: dict[str, str] = {}
    for step in range(60):
        if held and drawn.random() < 0.5:
            gone = drawn.sample(sorted(held), drawn.randint(1, min(3, len(held))))
            vault.delete(gone)
            for name in gone:
                del held[name]
        else:
            rows = [make.raw(" ".join(drawn.choices(words, k=3))) for _ in range(drawn.randint(1, 3))]
            vault.write(rows)
            held.update((row.id, row.text) for row in rows)
        if drawn.random() < 0.2:
            vault.reopen()
        word = drawn.choice(words)
        if drawn.random() < 0.5:
            assert vault.found(word) == sorted(name for name, text in held.items() if word in text.split()), step
        stored = vault.terms()
        assert {stem for stem in stored if stem in stems(*words)} == stems(*held.values()), step
        assert len(set(stored.values())) == len(stored)


def test_no_byte_of_a_deleted_text_or_its_words_stays_on_disk(vault: Vault, make: Maker) -> None:
    """In pages that other rows share, and in pages of its own that are free afterwards."""
    long = "Nothing of note happened. " * 600 + "They met at Zyxquorning. " + "A quiet day. " * 600
    kept = [make.raw(f"keep {word} here") for word in ("klimberwocking", "vostrapelling", "drunthafening")]
    gone = [make.raw(long), make.raw("brisquelmating once"), make.raw("and twice: jovantriking")]
    vault.write([kept[0], gone[0], kept[1], gone[1], kept[2], gone[2]])
    words = [b"yxquorn", b"brisquelm", b"jovantrik"]
    before = vault.on_disk()
    assert [word for word in words if word not in before] == []
    vault.delete([row.id for row in gone])
    after = vault.on_disk()
    assert [word for word in (*words, b"of note", b"quiet") if word in after] == []
    assert all(row.text.encode() in after for row in kept)
    vault.reopen()
    assert [word for word in words if word in vault.on_disk()] == []
    assert vault.found("klimberwocking") == [kept[0].id]


def test_no_byte_of_a_reopened_reflection_stays_on_disk(vault: Vault, make: Maker) -> None:
    vault.write(make.raws(3))
    done = consolidate(vault.rig.store, vault.ref, make, (5,))
    (name,) = [item.id for item in done.created]
    (row,) = vault.rig.store.get(vault.ref, [name]).values()
    vault.index.put_words(vault.ref, [row])
    last = row.text.split("-")[-1].encode()
    assert last in vault.on_disk()
    vault.rig.store.reopen(vault.ref, done.batch_id, NOW)
    vault.index.remove(vault.ref, [name])
    assert row.text.encode() not in vault.on_disk()
    assert "reflect" not in vault.terms()


def names(count: int) -> list[VaultRef]:
    return [VaultRef(f"vault {number}", 1) for number in range(count)]


def test_slots_stay_while_there_is_room() -> None:
    slots, vaults = Slots(limit_bytes=1 << 20, limit=3), names(3)
    first = []
    for vault in vaults:
        with slots.held(vault) as slot:
            first.append(slot)
    for vault, known in zip(vaults, first, strict=True):
        with slots.held(vault) as slot:
            assert slot is known
    assert len(slots) == 3


def test_slots_are_bounded_and_one_in_use_stays() -> None:
    slots, vaults = Slots(limit_bytes=1 << 20, limit=3), names(10)
    with slots.held(vaults[0]) as mine:
        for vault in vaults[1:]:
            with slots.held(vault):
                pass
        assert len(slots) == 3
        with slots.held(vaults[0]) as again:
            assert again is mine
    for vault in vaults[1:4]:
        with slots.held(vault):
            pass
    with slots.held(vaults[0]) as later:
        assert later is not mine
    assert len(slots) == 3


def test_numbers_of_stems_are_bounded_over_all_vaults() -> None:
    """The vaults used longest ago forget theirs, and keep their indexes."""
    slots, vaults = Slots(limit_bytes=1 << 20, limit=9, limit_terms=25), names(4)
    index = cast("ResidentIndex", Weighed(50))
    for vault in vaults[:2]:
        with slots.held(vault) as slot, slot.numbering() as (number, _):
            slot.index = index
            number.update((f"{vault.vault_id} {place}", place) for place in range(10))
    assert slots.bytes_used == 2 * (50 + 10 * TERM_BYTES)
    with slots.held(vaults[2]) as slot, slot.numbering() as (number, _):
        number.update((f"third {place}", place) for place in range(10))
    assert slots.bytes_used == 2 * 50 + 20 * TERM_BYTES
    for vault, kept in zip(vaults[:3], (0, 10, 10), strict=True):
        with slots.held(vault) as slot:
            assert (slot.terms_kept, slot.index is index) == (kept, vault != vaults[2])


class Weighed:
    """Stands for an index that takes so many bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def bytes_used(self) -> int:
        return self.size


def test_indexes_are_bounded_by_their_bytes_however_they_grew() -> None:
    slots, vaults = Slots(limit_bytes=100), names(5)

    def grow(vault: VaultRef, size: int) -> None:
        with slots.held(vault) as slot:
            slot.index = cast("ResidentIndex", Weighed(size))

    def kept() -> list[bool]:
        """Read without a use, which would change the order."""
        return [vault in slots._slots for vault in vaults]

    for vault in vaults[:4]:
        grow(vault, 25)
    assert (kept(), slots.bytes_used) == ([True] * 4 + [False], 100)
    grow(vaults[1], 40)
    assert (kept(), slots.bytes_used) == ([False, True, True, True, False], 90)
    grow(vaults[4], 70)
    assert (kept(), slots.bytes_used) == ([False, False, False, False, True], 70)
    # Alone it may be larger than the limit: a vault that fits nowhere is searched all the same.
    grow(vaults[4], 300)
    assert (kept()[4], slots.bytes_used) == (True, 300)
    grow(vaults[0], 10)
    assert (kept(), slots.bytes_used) == ([True, False, False, False, False], 10)


def test_threads_never_hold_two_locks_of_one_vault() -> None:
    slots, vaults = Slots(limit_bytes=0, limit=1), names(4)
    inside = dict.fromkeys(vaults, 0)
    clashes: list[VaultRef] = []

    def work(seed: int) -> None:
        drawn = random.Random(seed)
        for _ in range(1_500):
            vault = drawn.choice(vaults)
            with slots.held(vault):
                inside[vault] += 1
                if inside[vault] != 1:
                    clashes.append(vault)
                inside[vault] -= 1

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clashes == []
    assert len(slots) <= 1
