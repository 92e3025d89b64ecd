"""The change stream's records: what each asks for, which come again, which are given up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from infra.local.worker import Worker
from shared.api.stream import RESERVE_MS, consume, record, task_of
from shared.bootstrap import Aws, Embedded
from shared.domain.errors import Unavailable
from shared.domain.memory import Memory, VaultRef
from shared.ports.dead_letters import DeadLetter, Kind, Received, Task
from shared.ports.store import Change
from shared.usecases.services import Services
from tests.api.client import Client

VAULT = VaultRef("0b0f9c3e-4f6e-4b1c-9f6f-2a55a1a50c11", 3)
CONTENT = f"V#{VAULT.vault_id}#3"


def raw(pk: str, sk: str, kind: str = "INSERT", image: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    change: dict[str, Any] = {"Keys": {"pk": {"S": pk}, "sk": {"S": sk}}, "SequenceNumber": "7", **more}
    if image is not None:
        change["NewImage"] = image
    return {"eventID": "e", "eventName": kind, "dynamodb": change}


@pytest.mark.parametrize(
    ("record", "task"),
    [
        (raw(CONTENT, "M#a"), Task(Kind.INDEX, VAULT, "a")),
        (raw(CONTENT, "M#a", "REMOVE"), Task(Kind.INDEX, VAULT, "a")),
        (raw(CONTENT, "M#a", "MODIFY"), None),
        (raw(CONTENT, "B#cb_1", "MODIFY", {"state": {"S": "committed"}}), Task(Kind.SETTLE, VAULT, "cb_1")),
        (
            raw(CONTENT, "B#cb_1", "MODIFY", {"state": {"S": "reopened"}, "undoing": {"N": "0"}}),
            Task(Kind.SETTLE, VAULT, "cb_1"),
        ),
        (raw(CONTENT, "B#cb_1", "INSERT", {"state": {"S": "leased"}}), None),
        (raw(CONTENT, "B#cb_1", "MODIFY", {"state": {"S": "settled"}}), None),
        (raw(CONTENT, "B#cb_1", "REMOVE"), None),
        (raw(CONTENT, "B#cb_1#S0", "INSERT", {"ids": {"B": b""}}), None),
        (raw(CONTENT, "A#x", "INSERT", {"count": {"N": "300"}}), Task(Kind.PUBLISH, VAULT, "x")),
        (raw(CONTENT, "A#x", "REMOVE"), None),
        (raw(CONTENT, "D", "MODIFY", {"seq": {"N": "1"}}), None),
        (raw(CONTENT, "T#x#000", "INSERT", {}), None),
        (raw(CONTENT, "I#x", "INSERT", {}), None),
        (
            raw(f"V#{VAULT.vault_id}", "V", "MODIFY", {"epoch": {"N": "4"}, "purge": {"N": "4"}}),
            Task(Kind.PURGE, replace(VAULT, epoch=4)),
        ),
        (raw(f"V#{VAULT.vault_id}", "V", "MODIFY", {"epoch": {"N": "4"}}), None),
        (raw(f"V#{VAULT.vault_id}", "K#key", "INSERT", {}), None),
        (raw("K#hash", "K#hash", "INSERT", {}), None),
        (raw("U#key", "2026-01-01#search#1", "INSERT", {}), None),
    ],
)
def test_what_a_record_asks_for(record: dict[str, Any], task: Task | None) -> None:
    assert task_of(record) == task


class Letters:
    """Keeps what it is sent, unless it is `down`."""

    def __init__(self) -> None:
        self.kept: list[DeadLetter] = []
        self.down = False

    def send(self, letters: Sequence[DeadLetter]) -> None:
        if self.down and letters:
            raise Unavailable("The queue does not answer.", code="storage_unavailable", retry_after=5)
        self.kept += letters

    def receive(self) -> tuple[Received, ...]:
        return ()

    def discard(self, receipt: str) -> None:
        return None


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def services(client: Client, letters: Letters) -> Services:
    client.ingest("one", "two", "three")
    return replace(client.services, dead_letters=letters)


@pytest.fixture
def records(client: Client, backend: Embedded | Aws, services: Services) -> list[dict[str, Any]]:
    """Of the three rows, with the sequence numbers 1 to 3."""
    (vault,) = backend.stored()
    return [record(vault, Change(place, row["id"])) for place, row in enumerate(client.export(), 1)]


def failing(services: Services, monkeypatch: pytest.MonkeyPatch, bad: str, error: Exception) -> None:
    kind = type(services.index)
    put = kind.put_words

    def put_some(self: Any, vault: VaultRef, memories: Sequence[Memory]) -> None:
        if bad in [memory.id for memory in memories]:
            raise error
        put(self, vault, memories)

    monkeypatch.setattr(kind, "put_words", put_some)


def test_one_bad_record_is_given_up_and_the_others_are_indexed(
    services: Services, records: list[dict[str, Any]], letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = task_of(records[1])
    assert bad is not None
    failing(services, monkeypatch, bad.name, ValueError("somebody's words"))
    assert consume(services, {"Records": records}) == {"batchItemFailures": []}
    assert letters.kept == [DeadLetter(bad, "ValueError")]
    letters.down = True
    # Without a place to put it, it has to come again.
    assert consume(services, {"Records": records}) == {"batchItemFailures": [{"itemIdentifier": "2"}]}


def test_what_may_succeed_later_comes_again_until_it_is_too_old(
    services: Services, records: list[dict[str, Any]], letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(records[0])
    assert task is not None
    failing(services, monkeypatch, task.name, Unavailable("down", code="search_unavailable", retry_after=1))
    now_s = services.clock.now_ms() / 1000
    records[0]["dynamodb"]["ApproximateCreationDateTime"] = now_s - 3_600
    again = {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert consume(services, {"Records": records[:1]}) == again
    # A client of the stream hands out dates.
    records[0]["dynamodb"]["ApproximateCreationDateTime"] = datetime.fromtimestamp(now_s - 60, UTC)
    assert consume(services, {"Records": records[:1]}) == again
    assert letters.kept == []
    records[0]["dynamodb"]["ApproximateCreationDateTime"] = now_s - 21 * 3_600
    assert consume(services, {"Records": records[:1]}) == {"batchItemFailures": []}
    ((letter),) = letters.kept
    assert letter.task == task
    assert letter.reason.startswith("failed for 756")


def test_records_that_are_none_are_passed_over(services: Services, records: list[dict[str, Any]]) -> None:
    strange: list[Any] = [{}, {"dynamodb": {"Keys": {"pk": {"S": "V#a#b"}, "sk": {"S": "M#1"}}}}, {"eventID": 5}]
    assert consume(services, {"Records": [*strange, *records]}) == {"batchItemFailures": []}


def test_an_event_without_records_fills_in_vectors(client: Client, services: Services) -> None:
    client.ingest(*(f"row {number}" for number in range(100)))
    assert client.get("/v1/memory/stats").json["waiting_vectors"] == 100
    short = SimpleNamespace(get_remaining_time_in_millis=lambda: RESERVE_MS)
    assert consume(services, {"source": "aws.events"}, short) == {"batchItemFailures": []}
    assert client.get("/v1/memory/stats").json["waiting_vectors"] == 100
    long = SimpleNamespace(get_remaining_time_in_millis=lambda: RESERVE_MS + 1)
    consume(services, {"source": "aws.events"}, long)
    assert client.get("/v1/memory/stats").json["waiting_vectors"] == 0


@pytest.mark.slow
@pytest.mark.loopback
@pytest.mark.parametrize("backend", ["aws"], indirect=True)
def test_the_local_process_finishes_what_was_left_half_done(
    client: Client, backend: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit whose settling died right after its commit point heals without anybody's call."""
    monkeypatch.setattr("infra.local.worker.TIDY_S", 0.05)
    client.ingest("one", "two")
    batch = client.post("/v1/memory/consolidate/checkout", {"tier": 1}).json["batch_id"]

    def died(*_: object) -> None:
        raise Unavailable("The table does not answer.", code="storage_unavailable", retry_after=2)

    with monkeypatch.context() as patched:
        patched.setattr(type(backend.store), "heal", died)
        entries = [{"text": "Both were counted.", "importance": 5}]
        answer = client.post("/v1/memory/consolidate/commit", {"batch_id": batch, "entries": entries})
        assert (answer.status, answer.code) == (503, "storage_unavailable")
    assert client.get("/v1/memory/stats").json["tiers"] == {"1": 2, "2": 0, "3": 0}
    worker = Worker(backend.services, others=backend.others)
    worker.start()
    try:
        deadline = time.monotonic() + 30
        while client.get("/v1/memory/stats").json["tiers"]["2"] != 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        worker.stop()
    assert client.get("/v1/memory/stats").json["reflection"]["unconsolidated"]["raw"]["units"] == 0
