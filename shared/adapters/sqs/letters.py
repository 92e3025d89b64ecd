"""Dead letters in an SQS queue."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef
from shared.ports.dead_letters import DeadLetter, Kind, Received, Task

MESSAGE_BYTES = 200_000
"""A message may have 256 KB."""
MAX_REASON = 1_000
RECEIVED_AT_ONCE = 10
HIDDEN_S = 120


class Client(Protocol):
    """What is used of the low-level ``sqs`` client."""

    def send_message(self, **request: Any) -> Any: ...
    def receive_message(self, **request: Any) -> Any: ...
    def delete_message(self, **request: Any) -> Any: ...


class SqsLetters:
    """`shared.ports.dead_letters.DeadLetters`. The messages hold ids and reasons, never texts."""

    def __init__(self, client: Client, queue_url: str) -> None:
        self._client = client
        self._queue = queue_url

    def send(self, letters: Sequence[DeadLetter]) -> None:
        for body in _bodies(letters):
            self._call("send_message", MessageBody=body)

    def receive(self) -> tuple[Received, ...]:
        answer = self._call(
            "receive_message", MaxNumberOfMessages=RECEIVED_AT_ONCE, VisibilityTimeout=HIDDEN_S, WaitTimeSeconds=1
        )
        return tuple(_received(message) for message in answer.get("Messages", ()))

    def discard(self, receipt: str) -> None:
        self._call("delete_message", ReceiptHandle=receipt)

    def _call(self, operation: str, **request: Any) -> Any:
        try:
            return getattr(self._client, operation)(QueueUrl=self._queue, **request)
        except (BotoCoreError, ClientError) as error:
            raise Unavailable(
                "The queue of dead letters does not answer.", code="storage_unavailable", retry_after=5
            ) from error


def _bodies(letters: Sequence[DeadLetter]) -> Iterator[str]:
    lines: list[dict[str, object]] = []
    size = 0
    for letter in letters:
        line = _line(letter)
        length = len(json.dumps(line)) + 2
        if lines and size + length > MESSAGE_BYTES:
            yield json.dumps({"letters": lines})
            lines, size = [], 0
        lines.append(line)
        size += length
    if lines:
        yield json.dumps({"letters": lines})


def _line(letter: DeadLetter) -> dict[str, object]:
    task = letter.task
    return {
        "kind": task.kind.value,
        "vault": task.vault.vault_id,
        "epoch": task.vault.epoch,
        "name": task.name,
        "reason": letter.reason[:MAX_REASON],
    }


def _received(message: dict[str, Any]) -> Received:
    receipt, body = str(message["ReceiptHandle"]), str(message["Body"])
    try:
        letters = tuple(_letter(line) for line in json.loads(body)["letters"])
    except (ValueError, LookupError, TypeError):
        return Received(receipt, (), body)
    return Received(receipt, letters, body)


def _letter(line: dict[str, Any]) -> DeadLetter:
    task = Task(Kind(line["kind"]), VaultRef(str(line["vault"]), int(line["epoch"])), str(line["name"]))
    return DeadLetter(task, str(line["reason"]))
