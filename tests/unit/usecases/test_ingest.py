"""Storing: order, sessions, models, repeated requests, metering."""

from typing import Any

import pytest

from shared.domain.errors import Conflict, InvalidRequest
from shared.usecases.ingest import NewMessage, ingest, upload
from tests.unit.usecases.fakes import NOW
from tests.unit.usecases.world import World

DAY = 86_400_000


def test_messages_are_stored_in_their_order(world: World) -> None:
    answer: Any = ingest(
        world.services,
        world.caller(session="s1"),
        [NewMessage("user", " hello\r\n"), NewMessage("tool", "ünï 🙂", 5)],
        None,
    )
    assert answer["status"] == "accepted"
    assert answer["stored"] == 2
    assert answer["ids"] == sorted(answer["ids"])
    assert answer["session_id"] == "s1"
    assert answer["reflection"]["unconsolidated"]["raw"] == {"units": 2, "est_tokens": 5, "importance_equiv": 0}
    rows = world.store.get(world.caller().vault, answer["ids"])
    first, second = (rows[memory_id] for memory_id in answer["ids"])
    assert (first.text, first.role, first.date_ms, first.session_id, first.tokens) == (
        " hello\r\n",
        "user",
        NOW,
        "s1",
        2,
    )
    assert (second.text, second.role, second.date_ms, second.created_ms) == ("ünï 🙂", "tool", 5, NOW)
    assert world.meter.tokens("ingest") == [5]


def test_nothing_to_store_is_accepted(world: World) -> None:
    world.tell("one")
    answer: Any = ingest(world.services, world.caller(), [], ("key", "hash"))
    assert (answer["stored"], answer["ids"], answer["session_id"]) == (0, [], None)
    assert answer["reflection"]["unconsolidated"]["raw"]["units"] == 1
    assert len(world.meter.tokens("ingest")) == 1


def test_a_repeated_request_stores_once_and_is_metered_once(world: World) -> None:
    messages = [NewMessage("user", "hello")]
    once: Any = ingest(world.services, world.caller(), messages, ("k", "body"))
    again: Any = ingest(world.services, world.caller(), messages, ("k", "body"))
    assert again == once
    assert world.meter.tokens("ingest") == [2]
    with pytest.raises(Conflict) as refused:
        ingest(world.services, world.caller(), messages, ("k", "other"))
    assert refused.value.code == "idempotency_mismatch"
    with pytest.raises(Conflict):
        ingest(world.services, world.caller(session="s"), messages, ("k", "body"))
    elsewhere: Any = ingest(world.services, world.caller("mk_two"), messages, ("k", "other"))
    assert elsewhere["stored"] == 1


def test_an_idempotency_key_lives_for_a_day(world: World) -> None:
    messages = [NewMessage("user", "hello")]
    once: Any = ingest(world.services, world.caller(), messages, ("k", "body"))
    world.clock.ms += DAY - 1
    assert ingest(world.services, world.caller(), messages, ("k", "body"))["ids"] == once["ids"]
    world.clock.ms += 1
    assert ingest(world.services, world.caller(), messages, ("k", "body"))["ids"] != once["ids"]


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_idempotency_keys_have_a_length(world: World, key: str) -> None:
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        ingest(world.services, world.caller(), [NewMessage("user", "hello")], (key, "body"))


def test_the_first_write_binds_the_model(world: World) -> None:
    ingest(world.services, world.caller(), [], None)
    assert world.caller().record.model is None
    ingest(world.services, world.caller(model="large"), [NewMessage("user", "a")], None)
    assert world.caller().record.model == "large"
    ingest(world.services, world.caller(), [NewMessage("user", "b")], None)
    with pytest.raises(Conflict) as refused:
        ingest(world.services, world.caller(model="small"), [NewMessage("user", "c")], None)
    assert refused.value.code == "embedding_model_mismatch"
    assert "reset=true" in (refused.value.hint or "")
    with pytest.raises(InvalidRequest) as unknown:
        ingest(world.services, world.caller(model="huge"), [], None)
    assert unknown.value.hint == "Known models: large, small."


def test_two_first_writers_agree_on_a_model(world: World) -> None:
    early, named, unnamed = world.caller(model="large"), world.caller(model="small"), world.caller()
    ingest(world.services, early, [NewMessage("user", "a")], None)
    with pytest.raises(Conflict):
        ingest(world.services, named, [NewMessage("user", "b")], None)
    assert ingest(world.services, unnamed, [NewMessage("user", "c")], None)["stored"] == 1
    assert world.caller().record.model == "large"


def test_an_upload_answers_with_what_clients_read(world: World) -> None:
    lines = [NewMessage("user", "four"), NewMessage("user", "eight...", 9)]
    answer: Any = upload(world.services, world.caller("mk_0123456789abcdef"), lines, 2)
    assert answer == {
        "status": "complete",
        "memoryKey": "mk_…cdef",
        "vault": "core",
        "stats": {
            "inputItems": 2,
            "inputTokens": 3,
            "chunks": 2,
            "stored": 2,
            "failed": 0,
            "total": 2,
            "processed": 2,
            "pending": 0,
        },
        "message": "Stored 2 memories.",
    }
    assert world.meter.tokens("upload") == [3]
    in_session: Any = upload(world.services, world.caller(session="s1"), lines, 2)
    assert (in_session["vault"], in_session["sessionId"]) == ("session", "s1")
