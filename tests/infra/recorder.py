"""What each function asks of AWS, as IAM names it: botocore's requests, and those to the search domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.dynamodb.errors import operation_name
from tests.dynamodb.table import MemoryTable

ES_ACTIONS = {
    "GET": "ESHttpGet",
    "POST": "ESHttpPost",
    "PUT": "ESHttpPut",
    "DELETE": "ESHttpDelete",
    "HEAD": "ESHttpHead",
}
IN_TRANSACTIONS = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
"""A transaction has no action of its own: each part is allowed, or not, as the request it stands for."""
PREFIXES = {
    "dynamodb": "dynamodb",
    "sqs": "sqs",
    "secretsmanager": "secretsmanager",
    # InvokeModel of the service bedrock-runtime is an action of bedrock.
    "bedrock-runtime": "bedrock",
}


class Died(BaseException):
    """The function's process ended here: nothing in it gets the chance to handle that."""


@dataclass(frozen=True, slots=True, order=True)
class Needed:
    """One action on one thing: ``table``, ``index/<name>``, a path of the domain, a model's id, a secret, a queue."""

    action: str
    on: str


class Recorder:
    """Watches clients, one thread at a time, and attributes what they ask to the function that is running.

    What is asked while no function runs belongs to the test.
    """

    def __init__(self) -> None:
        self.seen: dict[str, set[Needed]] = {}
        self._running = ""
        self._transactions_left: int | None = None

    @contextmanager
    def inside(self, function: str) -> Iterator[None]:
        before, self._running = self._running, function
        self.seen.setdefault(function, set())
        try:
            yield
        finally:
            self._running = before

    @contextmanager
    def dying(self, after: int) -> Iterator[None]:
        """The process of whoever runs inside ends at its transaction number `after`, counted from 0."""
        self._transactions_left = after
        try:
            yield
        except Died:
            return
        finally:
            self._transactions_left = None
        raise AssertionError("there was no such transaction")

    def watch(self, client: Any) -> Any:
        """The client, whose requests are seen from now on: one of botocore's, or the table in memory."""
        if isinstance(client, MemoryTable):
            client.before = lambda name, params: self._asked("dynamodb", operation_name(name), params)
        else:
            client.meta.events.register("provide-client-params", self._provided)
        return client

    def wrapped(self, function: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with self.inside(function):
                return handler(*arguments)

        return call

    def requested(self, method: str, path: str) -> None:
        """A request to the search domain. Policies know nothing of its query."""
        self._note(Needed(f"es:{ES_ACTIONS[method]}", path.partition("?")[0]))

    def _provided(self, params: Mapping[str, Any], model: Any, **_: object) -> None:
        self._asked(model.service_model.service_name, model.name, params)

    def _asked(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        if operation == "TransactWriteItems" and self._running and self._transactions_left is not None:
            if self._transactions_left == 0:
                raise Died
            self._transactions_left -= 1
        for needed in actions(service, operation, params):
            self._note(needed)

    def _note(self, needed: Needed) -> None:
        if self._running:
            self.seen[self._running].add(needed)


def actions(service: str, operation: str, params: Mapping[str, Any]) -> Iterator[Needed]:
    """What a policy has to allow for a request. Raises `KeyError` for one whose resource is not known here."""
    prefix = PREFIXES[service]
    if operation in ("TransactWriteItems", "TransactGetItems"):
        for part in params["TransactItems"]:
            for kind in part:
                yield Needed(f"{prefix}:{IN_TRANSACTIONS[kind]}", "table")
        return
    if service == "dynamodb":
        on = f"index/{params['IndexName']}" if "IndexName" in params else "table"
    elif service == "sqs":
        on = params["QueueUrl"].rpartition("/")[2]
    elif service == "secretsmanager":
        on = params["SecretId"]
    else:
        on = params["modelId"]
    yield Needed(f"{prefix}:{operation}", on)
