"""Append: all rows or none, once per idempotency key, counted in the same breath."""

from dataclasses import replace

import pytest

from shared.domain.debt import Debt
from shared.domain.errors import Conflict, StrataError
from shared.domain.memory import VaultRef
from shared.ports.store import Idempotency, MemoryStore
from tests.contract.conftest import Rig, at_volume
from tests.contract.model import recount
from tests.contract.rows import MINUTE, NOW, Maker, everything, ids_of, take

DAY = 86_400_000


def once(key: str = "k", body: str = "b", expires_ms: int = NOW + DAY) -> Idempotency:
    return Idempotency(key, body, expires_ms)


def test_rows_come_back_as_they_were_given(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = [
        make.raw("first  \n\t"),
        make.raw("\U0001f9e0 zażółć \u202e\u0301 \ufeff", session="Sitzung ß"),
        replace(make.raw("x"), role="Dr. Ünal", date_ms=-62_135_596_800_000),
        replace(make.raw("'; DROP TABLE memory; --"), date_ms=253_402_300_799_999),
    ]
    answer = store.append(vault, rows, None, NOW)
    assert answer.ids == tuple(ids_of(rows))
    assert not answer.replayed
    assert store.get(vault, ids_of(rows)) == {row.id: row for row in rows}


def test_the_answer_carries_the_new_debt(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    assert store.debt(vault) == Debt()
    first = store.append(vault, [make.raw(tokens=7), make.raw(tokens=5)], None, NOW)
    assert first.debt == Debt(raw_units=2, raw_tokens=12)
    assert store.append(vault, [make.raw(tokens=1)], None, NOW).debt == Debt(raw_units=3, raw_tokens=13)
    assert store.debt(vault) == recount(everything(store, vault))


def test_no_rows_are_a_fine_append(store: MemoryStore, vault: VaultRef) -> None:
    answer = store.append(vault, [], None, NOW)
    assert (answer.ids, answer.debt) == ((), Debt())


def test_a_row_that_cannot_be_stored_takes_the_others_with_it(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    stored = make.raw()
    store.append(vault, [stored], None, NOW)
    broken = replace(make.raw(), text="\ud800")
    with pytest.raises((StrataError, ValueError)):
        store.append(vault, [make.raw(), broken, make.raw()], once(), NOW)
    assert ids_of(everything(store, vault)) == [stored.id]
    assert store.debt(vault).raw_units == 1
    assert not store.append(vault, [make.raw()], once(), NOW).replayed


def test_a_repeated_request_gets_the_first_ids(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    first = store.append(vault, make.raws(3), once(), NOW)
    again = store.append(vault, make.raws(3), once(), NOW + MINUTE)
    assert again.ids == first.ids
    assert again.replayed
    assert again.debt == first.debt
    assert len(everything(store, vault)) == 3


def test_a_replay_shows_the_debt_of_now(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, [make.raw(tokens=2)], once(), NOW)
    store.append(vault, [make.raw(tokens=3)], None, NOW)
    assert store.append(vault, [make.raw()], once(), NOW).debt == Debt(raw_units=2, raw_tokens=5)


def test_the_ids_of_deleted_rows_are_replayed_too(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(2)
    store.append(vault, rows, once(), NOW)
    store.delete(vault, [rows[0].id], NOW)
    assert store.append(vault, make.raws(2), once(), NOW).ids == tuple(ids_of(rows))
    assert ids_of(everything(store, vault)) == [rows[1].id]


def test_one_key_with_two_bodies_is_a_conflict(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(1)
    store.append(vault, rows, once(), NOW)
    with pytest.raises(Conflict) as refusal:
        store.append(vault, make.raws(1), once(body="other"), NOW)
    assert refusal.value.code == "idempotency_mismatch"
    assert everything(store, vault) == rows


def test_other_keys_are_other_requests(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    store.append(vault, make.raws(1), once("k1"), NOW)
    assert not store.append(vault, make.raws(1), once("k2"), NOW).replayed
    assert store.debt(vault).raw_units == 2


@pytest.mark.parametrize("body", ["b", "other"])
def test_an_expired_record_counts_as_absent(store: MemoryStore, vault: VaultRef, make: Maker, body: str) -> None:
    store.append(vault, make.raws(1), once(expires_ms=NOW + MINUTE), NOW)
    assert store.append(vault, make.raws(1), once(expires_ms=NOW + MINUTE), NOW + MINUTE - 1).replayed
    rows = make.raws(1)
    fresh = store.append(vault, rows, once(body=body, expires_ms=NOW + DAY), NOW + MINUTE)
    assert not fresh.replayed
    assert fresh.ids == (rows[0].id,)
    later = store.append(vault, make.raws(1), once(body=body, expires_ms=NOW + DAY), NOW + 2 * MINUTE)
    assert later.ids == fresh.ids
    assert store.debt(vault).raw_units == 2


def test_a_key_belongs_to_its_vault(store: MemoryStore, rig: Rig, vault: VaultRef, make: Maker) -> None:
    other = rig.new_vault()
    store.append(vault, make.raws(1), once(), NOW)
    assert not store.append(other, make.raws(1), once(body="other"), NOW).replayed


@at_volume
def test_an_append_of_many_thousand_rows(store: MemoryStore, vault: VaultRef, make: Maker) -> None:
    rows = make.raws(12_000)
    answer = store.append(vault, rows, once(), NOW)
    assert len(answer.ids) == 12_000
    assert answer.debt == recount(rows)
    assert store.append(vault, rows, once(), NOW).ids == tuple(ids_of(rows))
    assert len(store.get(vault, ids_of(rows))) == 12_000
    assert len(take(store, vault, make).memories) == 10_000
