"""The consolidation transaction as clients see it. The store's own promises are tested at the store."""

from typing import Any

import pytest

from shared.domain import contract
from shared.domain.errors import Conflict, InvalidRequest, NotFound
from shared.usecases import consolidate
from shared.usecases.inspect import inspect_memory
from tests.unit.usecases.fakes import NOW
from tests.unit.usecases.world import World

DAY = 86_400_000


def taken(world: World, tier: int = 1, max_tokens: float | None = None) -> Any:
    return consolidate.checkout(world.services, world.caller(), tier, max_tokens)


def committed(world: World, batch_id: str, *entries: tuple[str, int]) -> Any:
    return consolidate.commit(world.services, world.caller(), batch_id, entries or [("about it", 5)])


def test_a_batch_holds_texts_and_dates_in_the_order_of_its_sources(world: World) -> None:
    (later,) = world.tell("second", date_ms=DAY)
    (earlier,) = world.tell("first", date_ms=0)
    batch = taken(world)
    assert batch["batch_id"].startswith("cb_")
    assert (batch["tier"], batch["count"], batch["est_tokens"]) == (1, 2, 4)
    assert batch["covers"] == {"from": "1970-01-01T00:00:00.000Z", "to": "1970-01-02T00:00:00.000Z"}
    assert batch["lease_expires_at"] == "2026-02-02T02:55:00.000Z"
    assert batch["memories"] == [
        {"text": "first", "date": "1970-01-01T00:00:00.000Z"},
        {"text": "second", "date": "1970-01-02T00:00:00.000Z"},
    ]
    assert batch["source_ids"] == [earlier, later]
    assert batch["reflection_contract"] == contract.reflection_contract(1)
    assert batch["tier_definitions"] == contract.tier_definitions(1)
    assert world.meter.tokens("checkout") == [4]


def test_an_empty_checkout_is_no_error_and_costs_nothing(world: World) -> None:
    nothing = {"batch_id": None, "count": 0, "message": "nothing unconsolidated", "tier": 1}
    assert taken(world) == {**nothing, "leased": 0, "next_expiry": None}
    world.tell("one", "two")
    taken(world)
    assert taken(world) == {**nothing, "leased": 2, "next_expiry": "2026-02-02T02:55:00.000Z"}
    assert len(world.meter.tokens("checkout")) == 1


def test_the_token_cap_is_the_callers(world: World) -> None:
    world.tell("x" * 3_000, "y" * 3_000)
    assert taken(world, max_tokens=1)["count"] == 1


def test_a_commit_writes_once_and_answers_the_same_for_ever(world: World) -> None:
    world.tell("one", "two")
    batch_id = taken(world)["batch_id"]
    done = committed(world, batch_id, ("They met.", 8), ("It rained.", 2))
    assert (done["committed"], done["already_committed"], done["tier"]) == (True, False, 2)
    assert [created["importance"] for created in done["created"]] == [8, 2]
    assert done["sources_consolidated"] == 2
    unconsolidated = done["reflection"]["unconsolidated"]
    assert unconsolidated["raw"]["units"] == 0
    assert unconsolidated["tier2"] == {"count": 2, "importance": 10, "est_tokens": 6}
    world.clock.ms += 30 * DAY
    again = committed(world, batch_id, ("Something else.", 1))
    assert again == {**done, "already_committed": True}
    assert world.meter.tokens("commit") == [6]


def test_entries_are_checked_before_the_batch_is_looked_up(world: World) -> None:
    with pytest.raises(InvalidRequest, match="importance"):
        consolidate.commit(world.services, world.caller(), "cb_unknown", [("x", 0)])
    with pytest.raises(NotFound):
        committed(world, "cb_unknown")


def test_other_vaults_batches_do_not_exist(world: World) -> None:
    world.tell("one")
    batch_id = taken(world)["batch_id"]
    stranger = world.caller("mk_two")
    for call in (consolidate.release, consolidate.renew, consolidate.reopen):
        with pytest.raises(NotFound):
            call(world.services, stranger, batch_id)
    with pytest.raises(NotFound):
        consolidate.commit(world.services, stranger, batch_id, [("x", 5)])


def test_an_expired_lease_takes_no_commit(world: World) -> None:
    world.tell("one")
    batch_id = taken(world)["batch_id"]
    world.clock.ms += 900_000
    with pytest.raises(Conflict) as refused:
        committed(world, batch_id)
    assert refused.value.code == "lease_expired"
    assert world.meter.tokens("commit") == []
    assert taken(world)["count"] == 1


def test_a_lease_is_given_back_or_renewed(world: World) -> None:
    world.tell("one")
    batch_id = taken(world)["batch_id"]
    world.clock.ms += 60_000
    renewed: Any = consolidate.renew(world.services, world.caller(), batch_id)
    assert (renewed["batch_id"], renewed["state"]) == (batch_id, "leased")
    assert renewed["lease_expires_at"] == "2026-02-02T02:56:00.000Z"
    released: Any = consolidate.release(world.services, world.caller(), batch_id)
    assert (released["batch_id"], released["state"], released["returned"]) == (batch_id, "released", 1)
    assert released["reflection"] == renewed["reflection"]
    again: Any = consolidate.release(world.services, world.caller(), batch_id)
    assert (again["state"], again["returned"]) == ("released", 0)
    with pytest.raises(Conflict):
        committed(world, batch_id)


def test_a_consolidation_can_be_undone(world: World) -> None:
    world.tell("one", "two")
    batch_id, _ = world.consolidate(("about it", 5))
    undone: Any = consolidate.reopen(world.services, world.caller(), batch_id)
    assert undone["state"] == "reopened"
    assert (undone["batch_id"], undone["reflections_removed"], undone["sources_returned"]) == (batch_id, 1, 2)
    assert undone["reflection"]["unconsolidated"]["raw"]["units"] == 2
    assert undone["reflection"]["unconsolidated"]["tier2"]["count"] == 0
    assert consolidate.reopen(world.services, world.caller(), batch_id) == undone
    with pytest.raises(Conflict) as refused:
        committed(world, batch_id)
    assert refused.value.code == "reopened"


def inspected(world: World, memory_id: str, offset: int = 0) -> Any:
    return inspect_memory(world.services, world.caller(), memory_id, offset)


def test_lineage_goes_down_and_up(world: World) -> None:
    (raw,) = world.tell("one", session="s1", date_ms=0)
    before = inspected(world, raw)
    assert before == {
        "memory_id": raw,
        "tier": 1,
        "content": "one",
        "role": "user",
        "date": "1970-01-01T00:00:00.000Z",
        "created_at": "2026-02-02T02:40:00.000Z",
        "session_id": "s1",
        "consolidated_into": [],
    }
    batch_id, (reflection,) = world.consolidate(("about one", 7))
    covers = {"from": "1970-01-01T00:00:00.000Z", "to": "1970-01-01T00:00:00.000Z"}
    parent = {"id": reflection, "tier": 2, "importance": 7, "date": "1970-01-01T00:00:00.000Z", "covers": covers}
    assert inspected(world, raw)["consolidated_into"] == [parent]
    below = inspected(world, reflection.upper())
    assert "consolidated_into" not in below
    assert (below["tier"], below["batch_id"], below["covers"]) == (2, batch_id, covers)
    assert (below["content"], below["importance"], below["role"]) == ("about one", 7, "assistant")
    assert below["sources"] == [
        {
            "id": raw,
            "tier": 1,
            "content": "one",
            "role": "user",
            "importance": None,
            "date": "1970-01-01T00:00:00.000Z",
        }
    ]
    assert (below["sources_total"], below["sources_deleted"]) == (1, 0)
    assert (below["truncated"], below["next_offset"]) == (False, None)
    _, (high,) = world.consolidate(("what it means", 9), tier=2)
    assert [each["id"] for each in inspected(world, reflection)["consolidated_into"]] == [high]
    assert inspected(world, high)["sources"][0]["importance"] == 7
    assert world.meter.tokens("inspect") == [0, 0, 1, 1, 3]


def test_deleted_sources_are_counted_and_keep_their_place(world: World) -> None:
    ids = world.tell("one", "two", "three")
    _, (reflection,) = world.consolidate(("about it", 7))
    world.store.delete(world.caller().vault, ids[1:2], NOW)
    below = inspected(world, reflection)
    assert [source["id"] for source in below["sources"]] == [ids[0], ids[2]]
    assert (below["sources_total"], below["sources_deleted"], below["truncated"]) == (3, 1, False)
    assert [source["id"] for source in inspected(world, reflection, 1)["sources"]] == [ids[2]]
    assert inspected(world, reflection, 3)["sources"] == []


def test_long_batches_come_in_pages(world: World) -> None:
    ids = world.tell(*[f"{number}" for number in range(501)])
    _, (reflection,) = world.consolidate(("about it", 7))
    first = inspected(world, reflection)
    assert [source["id"] for source in first["sources"]] == ids[:500]
    assert (first["truncated"], first["next_offset"]) == (True, 500)
    rest = inspected(world, reflection, 500)
    assert [source["id"] for source in rest["sources"]] == ids[500:]
    assert (rest["truncated"], rest["next_offset"]) == (False, None)


def test_large_sources_come_in_pages_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = world.tell(*["x" * 1_000] * 5)
    world.store.delete(world.caller().vault, ids[2:3], NOW)
    _, (reflection,) = world.consolidate(("about it", 7))
    monkeypatch.setattr("shared.usecases.inspect.ROWS_BYTES", 3_000)
    first = inspected(world, reflection)
    assert [source["id"] for source in first["sources"]] == [ids[0], ids[1]]
    assert (first["truncated"], first["next_offset"]) == (True, 2)
    rest = inspected(world, reflection, 2)
    assert [source["id"] for source in rest["sources"]] == ids[3:]
    assert (rest["truncated"], rest["next_offset"]) == (False, None)


@pytest.mark.parametrize(("memory_id", "offset"), [("nonsense", 0), ("9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22", -1)])
def test_inspect_refuses_what_is_no_id_or_offset(world: World, memory_id: str, offset: int) -> None:
    with pytest.raises(InvalidRequest):
        inspected(world, memory_id, offset)


def test_other_vaults_memories_do_not_exist(world: World) -> None:
    (foreign,) = world.tell("one", key="mk_two")
    for unknown in (foreign, "9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22"):
        with pytest.raises(NotFound) as refused:
            inspected(world, unknown)
        assert unknown not in refused.value.message
