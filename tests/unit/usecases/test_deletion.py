"""Forgetting single rows, a session, a vault."""

from collections.abc import Callable
from typing import Any

import pytest

from shared.domain.errors import Conflict, InvalidRequest, NotFound, StaleEpoch, Unavailable
from shared.usecases import consolidate
from shared.usecases.deletion import delete_ids, delete_vault
from shared.usecases.ingest import NewMessage, ingest
from shared.usecases.search import search
from tests.unit.usecases.world import World

UNKNOWN = "9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22"


def test_deletion_counts_what_it_did(world: World) -> None:
    ids = world.tell("one", "two two")
    (foreign,) = world.tell("three", key="mk_two")
    answer = delete_ids(world.services, world.caller(), [ids[0].upper(), ids[1], UNKNOWN, foreign])
    assert answer == {
        "requested": 4,
        "deleted": 2,
        "do_deleted": 2,
        "not_found": 2,
        "legacy_fallback_used": 0,
        "failed": [],
    }
    assert delete_ids(world.services, world.caller(), ids)["not_found"] == 2
    assert world.meter.tokens("delete_ids") == [3, 0]
    assert set(world.store.get(world.caller("mk_two").vault, [foreign])) == {foreign}
    found: Any = search(world.services, world.caller(), "two", 10, None, None)
    assert found["memories"] == []


@pytest.mark.parametrize(
    ("ids", "field"),
    [
        ([], "ids"),
        ([f"{number:08x}-0000-4000-8000-000000000000" for number in range(501)], "ids"),
        ([UNKNOWN, "x"], "ids.1"),
        ([UNKNOWN, UNKNOWN.upper()], "ids"),
    ],
)
def test_bad_ids_delete_nothing(world: World, ids: list[str], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        delete_ids(world.services, world.caller(), ids)
    assert [problem.field for problem in refused.value.details] == [field]


def test_an_emptied_vault_holds_nothing_and_its_leases_are_gone(world: World) -> None:
    world.tell("one")
    batch: Any = consolidate.checkout(world.services, world.caller(), 1, None)
    writer = world.caller()
    answer = delete_vault(world.services, world.caller("mk_one"), reset=False)
    assert answer == {
        "key": "mk_…",
        "deleted": True,
        "reset": False,
        "sessionCleared": True,
        "d1Synced": True,
        "message": "Everything in this vault is deleted.",
    }
    found: Any = search(world.services, world.caller(), "one", 10, None, None)
    assert found["memories"] == []
    assert found["reflection"]["unconsolidated"]["raw"]["units"] == 0
    with pytest.raises(NotFound):
        consolidate.commit(world.services, world.caller(), batch["batch_id"], [("x", 5)])
    with pytest.raises(StaleEpoch):
        ingest(world.services, writer, [NewMessage("user", "late")], None)
    assert world.caller().record.model == "small"


def test_a_reset_unbinds_the_model(world: World) -> None:
    world.tell("one")
    assert delete_vault(world.services, world.caller(), reset=True)["reset"] is True
    assert world.caller().record.model is None
    ingest(world.services, world.caller(model="large"), [NewMessage("user", "x")], None)


@pytest.mark.parametrize("part", ["store", "index"])
def test_what_cannot_be_removed_now_is_invisible_all_the_same(
    part: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tell("one")

    def full(vault_id: str, below_epoch: int) -> None:
        raise Unavailable("It does not answer.", code="storage_unavailable")

    monkeypatch.setattr(getattr(world, part), "purge", full)
    answer = delete_vault(world.services, world.caller(), reset=False)
    assert (answer["deleted"], answer["d1Synced"]) == (True, False)
    assert sum(world.store.totals(world.caller().vault).memories.values()) == 0


def test_a_session_is_deleted_alone(world: World) -> None:
    world.tell(*["mine"] * 501, session="s1")
    (other,) = world.tell("other", session="s2")
    (none,) = world.tell("none")
    answer = delete_vault(world.services, world.caller(session="s1"), reset=True)
    assert (answer["sessionCleared"], answer["reset"]) == (True, False)
    assert answer["message"] == "Deleted 501 memories of this session."
    totals = world.store.totals(world.caller().vault)
    assert totals.memories[1] == 2
    assert set(world.store.get(world.caller().vault, [other, none])) == {other, none}
    assert world.caller().record.model == "small"


def test_a_long_deletion_says_call_again(world: World) -> None:
    world.tell(*["mine"] * 500, session="s1")
    world.tell("mine", session="s1")
    world.clock.step_ms = 10_001
    first = delete_vault(world.services, world.caller(session="s1"), reset=False)
    assert first["sessionCleared"] is False
    assert first["message"] == "Deleted 500 memories of this session. There are more: call again."
    again = delete_vault(world.services, world.caller(session="s1"), reset=False)
    assert again["message"] == "Deleted 1 memories of this session."
    assert again["sessionCleared"] is True


def test_reflections_outlive_their_session(world: World) -> None:
    world.tell("mine", session="s1")
    world.consolidate(("about it", 5))
    delete_vault(world.services, world.caller(session="s1"), reset=False)
    assert world.store.totals(world.caller().vault).memories == {1: 0, 2: 1, 3: 0}


def test_an_open_import_keeps_other_writers_out(world: World) -> None:
    world.directory.open_import(world.caller().vault)
    calls: list[Callable[[], object]] = [
        lambda: ingest(world.services, world.caller(), [], None),
        lambda: consolidate.checkout(world.services, world.caller(), 1, None),
        lambda: consolidate.commit(world.services, world.caller(), "cb_1", [("x", 5)]),
        lambda: consolidate.release(world.services, world.caller(), "cb_1"),
        lambda: consolidate.renew(world.services, world.caller(), "cb_1"),
        lambda: consolidate.reopen(world.services, world.caller(), "cb_1"),
        lambda: delete_ids(world.services, world.caller(), [UNKNOWN]),
        lambda: delete_vault(world.services, world.caller(session="s1"), reset=False),
    ]
    for call in calls:
        with pytest.raises(Conflict) as refused:
            call()
        assert refused.value.code == "import_open"
    delete_vault(world.services, world.caller(), reset=False)
    assert world.tell("free again")
