"""Dead letters, in memory and in a queue: nothing is lost before it is discarded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shared.adapters.sqs.letters import SqsLetters
from shared.adapters.system.letters import KeptBack, MemoryLetters
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef
from shared.ports.dead_letters import DeadLetter, DeadLetters, Kind, Received, Task
from tests.contract.rows import uuid7
from tests.emulator.ministack import Ministack

VAULT = VaultRef("0b0f9c3e-4f6e-4b1c-9f6f-2a55a1a50c11", 3)


def letters(number: int, reason: str = "ValueError") -> list[DeadLetter]:
    return [DeadLetter(Task(Kind.INDEX, VAULT, uuid7(place)), reason) for place in range(number)]


@pytest.fixture(params=["memory", pytest.param("sqs", marks=[pytest.mark.slow, pytest.mark.loopback])])
def queue(request: pytest.FixtureRequest) -> Iterator[DeadLetters]:
    if request.param == "memory":
        yield MemoryLetters()
        return
    stack: Ministack = request.getfixturevalue("ministack")
    client = stack.client("sqs")
    url = client.create_queue(QueueName=f"letters-{id(request)}")["QueueUrl"]
    yield SqsLetters(client, url)
    client.delete_queue(QueueUrl=url)


def drained(queue: DeadLetters) -> list[Received]:
    found: list[Received] = []
    while messages := queue.receive():
        found += messages
    return found


def test_letters_come_back_as_they_were_until_they_are_discarded(queue: DeadLetters) -> None:
    sent = [*letters(2), DeadLetter(Task(Kind.PURGE, VAULT), "failed for 72001 seconds")]
    queue.send(sent[:1])
    queue.send([])
    queue.send(sent[1:])
    found = drained(queue)
    assert sorted((each.letters for each in found), key=len) == [tuple(sent[:1]), tuple(sent[1:])]
    for each in found:
        queue.discard(each.receipt)
    assert drained(queue) == []


def test_any_number_of_letters_is_kept(queue: DeadLetters) -> None:
    sent = letters(2_500, "x" * 200)
    queue.send(sent)
    kept = [letter for each in drained(queue) for letter in each.letters]
    assert sorted(kept, key=lambda letter: letter.task.name) == sent


class Queue:
    """Answers as the service does; keeps what it is sent."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def send_message(self, **request: Any) -> Any:
        self.bodies.append(request["MessageBody"])

    def receive_message(self, **request: Any) -> Any:
        return {"Messages": [{"ReceiptHandle": str(n), "Body": body} for n, body in enumerate(self.bodies)]}

    def delete_message(self, **request: Any) -> Any:
        return None


def test_a_message_holds_no_more_than_the_service_takes() -> None:
    client = Queue()
    SqsLetters(client, "http://127.0.0.1/queue").send(letters(1_000, "é" * 2_000))
    assert len(client.bodies) > 1
    assert all(len(body.encode()) <= 262_144 for body in client.bodies)


@pytest.mark.parametrize("body", ["", "{}", "[]", '{"letters": 5}', '{"letters": [{"kind": "other"}]}', "not json"])
def test_a_message_of_somebody_else_is_shown_as_it_is(body: str) -> None:
    client = Queue()
    client.bodies.append(body)
    assert SqsLetters(client, "http://127.0.0.1/queue").receive() == (Received("0", (), body),)


@pytest.mark.slow
@pytest.mark.loopback
def test_a_queue_that_is_missing_says_so(ministack: Ministack) -> None:
    missing = SqsLetters(ministack.client("sqs"), f"{ministack.url}/000000000000/nobody-made-it")
    with pytest.raises(Unavailable) as refused:
        missing.send(letters(1))
    assert refused.value.retry_after is not None


def test_where_changes_wait_in_an_outbox_no_letter_is_taken() -> None:
    kept = KeptBack()
    kept.send([])
    with pytest.raises(Unavailable):
        kept.send(letters(1))
    assert kept.receive() == ()


def test_memory_keeps_the_latest_messages() -> None:
    queue = MemoryLetters()
    for letter in letters(1_005):
        queue.send([letter])
    names = [each.letters[0].task.name for each in queue.receive()]
    assert names == [letter.task.name for letter in letters(1_005)[5:]]
