"""A vault in a table of its own, as the race tests open it: with clients that conflict, count, or die."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError

from shared.adapters.dynamodb.directory import DynamoDirectory
from shared.adapters.dynamodb.layout import SCHEMA, partition
from shared.adapters.dynamodb.store import DynamoStore
from shared.adapters.dynamodb.stream import Touched
from shared.adapters.dynamodb.table import Patience, Table
from shared.domain.memory import VaultRef

Hook = Callable[[], None]


def create(client: Any, name: str) -> None:
    client.create_table(TableName=name, **SCHEMA)


def opened(client: Any, name: str, requests: Patience | None = None, rounds: Patience | None = None) -> DynamoStore:
    table = Table(client, name, requests, rounds)
    return DynamoStore(table, Touched().note, DynamoDirectory(table).purged)


def healed(store: DynamoStore, vault: VaultRef, batch_ids: Sequence[str]) -> None:
    """What the change stream would do: go on with whatever somebody left unfinished."""
    for batch_id in batch_ids:
        store.heal(vault, batch_id)
    for item in list(store._table.query(partition(vault), low="A#", high="A$", attributes=("sk",))):
        store.finish(vault, item["sk"].removeprefix("A#"))


class Conflicts:
    """Which items are in a transaction right now, for all clients of one process.

    DynamoDB cancels a transaction that meets another one on an item, and refuses a single write of such an item.
    `held` is called while the items are held: a table that answers at once needs time in which to meet.
    """

    def __init__(self, held: Hook | None = None) -> None:
        self._held = held or (lambda: None)
        self._lock = threading.Lock()
        self._busy: set[tuple[str, str]] = set()
        self.counts: Counter[str] = Counter()

    @contextmanager
    def transaction(self, keys: Sequence[tuple[str, str]]) -> Iterator[None]:
        with self._lock:
            met = [key in self._busy for key in keys]
            if not any(met):
                self._busy.update(keys)
        if any(met):
            self.counts["conflicts"] += 1
            raise cancelled(met)
        try:
            self._held()
            yield
        finally:
            with self._lock:
                self._busy.difference_update(keys)

    def check(self, key: tuple[str, str]) -> None:
        """A write that is no transaction."""
        with self._lock:
            met = key in self._busy
        if met:
            self.counts["conflicts"] += 1
            raise ClientError(
                {"Error": {"Code": "TransactionConflictException", "Message": "Transaction is ongoing for the item"}},
                "PutItem",
            )


def cancelled(met: Sequence[bool]) -> ClientError:
    reasons = [
        {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"} if each else {"Code": "None"}
        for each in met
    ]
    response: Any = {
        "Error": {"Code": "TransactionCanceledException", "Message": "Transaction cancelled: see the reasons"},
        "CancellationReasons": reasons,
    }
    return ClientError(response, "TransactWriteItems")


class Client:
    """A low-level client that counts its requests in `counts` and, given `conflicts`, meets others on an item.

    `before` and `after` are called around each request; what they raise reaches the caller, as a death would.
    """

    def __init__(
        self, client: Any, counts: Counter[str], conflicts: Conflicts | None = None, dying: Hook | None = None
    ) -> None:
        self._client, self._counts, self._conflicts = client, counts, conflicts
        self._dying = dying or (lambda: None)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def send(**request: Any) -> Any:
            self._dying()
            self._counts["requests"] += 1
            try:
                answer = self._sent(operation, request)
            except ClientError as error:
                self._counts[_kind(error)] += 1
                raise
            self._dying()
            return answer

        return send

    def _sent(self, operation: str, request: Mapping[str, Any]) -> Any:
        send = getattr(self._client, operation)
        if self._conflicts is None:
            return send(**request)
        if operation == "transact_write_items":
            with self._conflicts.transaction([_key(one) for each in request["TransactItems"] for one in each.values()]):
                return send(**request)
        if operation in ("put_item", "update_item"):
            self._conflicts.check(_key(request))
        return send(**request)


def _key(request: Mapping[str, Any]) -> tuple[str, str]:
    key = request.get("Key") or request["Item"]
    return key["pk"]["S"], key["sk"]["S"]


def _kind(error: ClientError) -> str:
    response: Any = error.response
    codes = {reason.get("Code") for reason in response.get("CancellationReasons", ())} - {"None", None}
    return "cancelled by a condition" if "ConditionalCheckFailed" in codes else "cancelled by a conflict"
