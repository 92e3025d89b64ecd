"""DynamoDB in memory, with DynamoDB's rules: stands in for the low-level ``boto3.client("dynamodb")``.

No clock and no chance: nothing expires, throttles or conflicts by itself. A simulation calls `expire`, `fail` and
`forget_tokens`, and pauses or ends a worker in `before` and `after`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any

from tests.dynamodb.errors import Exceptions, Refused, Unsupported, operation_name
from tests.dynamodb.faults import Fault, When, fault
from tests.dynamodb.log import Request
from tests.dynamodb.operations import PARAMETERS, Operations, Tokens
from tests.dynamodb.schema import Index, Table, table_from
from tests.dynamodb.streams import Stream, StreamsClient, arn
from tests.dynamodb.values import Item, copied_item

Hook = Callable[[str, Mapping[str, Any]], None]
FIVE_YEARS_S = 5 * 365 * 86_400


class MemoryTable:
    """One account's tables. `ttl` names the attribute that `expire` looks at.

    `before` is called with the operation's name (``put_item`` …) and its parameters before the request takes effect,
    `after` when it has, refused ones included, before the caller learns of it. Both run outside the lock; what they
    raise reaches the caller, and the effect stays. `log` holds what every request cost.
    """

    def __init__(self, ttl: str = "ttl") -> None:
        self.ttl = ttl
        self.before: Hook | None = None
        self.after: Hook | None = None
        self.log: list[Request] = []
        self.exceptions = Exceptions()
        self._lock = RLock()
        self._tables: dict[str, Table] = {}
        self._streams: dict[str, Stream] = {}
        self._faults: list[Fault] = []
        self._tokens: Tokens = {}
        self._operations = Operations(self._table, self._tokens, self._apply)

    def create_table(self, **params: Any) -> dict[str, Any]:
        with self._lock:
            table = table_from(params)
            if table.name in self._tables:
                raise Refused("ResourceInUseException", f"Table already exists: {table.name}").client_error(
                    "CreateTable"
                )
            self._tables[table.name] = table
            if table.streamed:
                self._streams[table.name] = Stream(table.name)
        return {"TableDescription": self.describe_table(TableName=table.name)["Table"]}

    def describe_table(self, **params: Any) -> dict[str, Any]:
        try:
            table = self._table(params["TableName"])
        except Refused as refused:
            raise refused.client_error("DescribeTable") from None
        stream = {"LatestStreamArn": arn(table.name)} if table.streamed else {}
        return {"Table": {"TableName": table.name, "TableStatus": "ACTIVE", **stream}}

    def update_time_to_live(self, **params: Any) -> dict[str, Any]:
        given = params["TimeToLiveSpecification"]
        if given["Enabled"]:
            self.ttl = given["AttributeName"]
        return {"TimeToLiveSpecification": dict(given)}

    def get_item(self, **params: Any) -> dict[str, Any]:
        return self._call("get_item", params)

    def batch_get_item(self, **params: Any) -> dict[str, Any]:
        return self._call("batch_get_item", params)

    def query(self, **params: Any) -> dict[str, Any]:
        return self._call("query", params)

    def put_item(self, **params: Any) -> dict[str, Any]:
        return self._call("put_item", params)

    def update_item(self, **params: Any) -> dict[str, Any]:
        return self._call("update_item", params)

    def delete_item(self, **params: Any) -> dict[str, Any]:
        return self._call("delete_item", params)

    def batch_write_item(self, **params: Any) -> dict[str, Any]:
        return self._call("batch_write_item", params)

    def transact_write_items(self, **params: Any) -> dict[str, Any]:
        return self._call("transact_write_items", params)

    def transact_get_items(self, **params: Any) -> dict[str, Any]:
        return self._call("transact_get_items", params)

    def streams(self) -> StreamsClient:
        """Stands in for ``boto3.client("dynamodbstreams")``."""
        return StreamsClient(self._streams, self._lock)

    def fail(self, kind: str, op: str | None = None, when: When | None = None, times: int = 1) -> Fault:
        """The next `times` requests of this operation, or those that `when` picks, fail as `faults` says of `kind`."""
        return self._add(fault(kind, _chosen(op, when), times))

    def leave_unprocessed(self, count: int, op: str | None = None, when: When | None = None, times: int = 1) -> Fault:
        """The next batches leave their last `count` items undone, at least one is done."""
        return self._add(Fault(_chosen(op, when, "batch_"), times, unprocessed=count))

    def clear_faults(self) -> None:
        self._faults.clear()

    def forget_tokens(self) -> None:
        """What ten minutes do to client request tokens."""
        self._tokens.clear()

    def expire(self, now_s: float, only: Callable[[Item], bool] | None = None) -> int:
        """Removes items whose time to live ended at `now_s`, in Unix seconds; says how many.

        DynamoDB does it hours or days late and in no order: `only` picks those it has come to.
        """
        removed = 0
        with self._lock:
            for table in self._tables.values():
                for item in list(table.items()):
                    ends = item.get(self.ttl, {}).get("N")
                    if ends is None or not now_s - FIVE_YEARS_S < float(ends) < now_s:
                        continue
                    if only is None or only(copied_item(item)):
                        key = {name: item[name] for name in table.keys}
                        self._apply(table, key, item, None, 0, by_ttl=True)
                        removed += 1
        return removed

    def snapshot(self, table: str) -> list[Item]:
        """Copies of all items, by partition and sort key; costs nothing and is in no log."""
        with self._lock:
            return [copied_item(item) for item in self._table(table).items()]

    def indexes(self, table: str) -> list[Index]:
        return list(self._table(table).indexes.values())

    def _call(self, op: str, params: dict[str, Any]) -> dict[str, Any]:
        unknown = params.keys() - PARAMETERS[op]
        if unknown:
            raise Unsupported(f"parameters of {op}: {', '.join(sorted(unknown))}")
        if self.before is not None:
            self.before(op, params)
        answer: dict[str, Any] = {}
        error: Exception | None = None
        with self._lock:
            try:
                answer = self._perform(op, params)
            except Refused as refused:
                error = refused.client_error(operation_name(op))
            except (Unsupported, LookupError, TypeError):
                raise
            except Exception as failure:
                error = failure
        if self.after is not None:
            self.after(op, params)
        if error is not None:
            raise error
        answer["ResponseMetadata"] = {"HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0, "RequestId": ""}
        return answer

    def _perform(self, op: str, params: Mapping[str, Any]) -> dict[str, Any]:
        request = Request(op)
        self.log.append(request)
        struck = next((each for each in self._faults if each.strikes(op, params)), None)
        try:
            if struck is not None and struck.error is not None and not struck.after:
                raise struck.error(op, params)
            answer = self._operations.run(op, params, request, struck.unprocessed if struck else 0)
        except Refused as refused:
            request.error = refused.code
            raise
        if struck is not None and struck.error is not None:
            raise struck.error(op, params)
        return answer

    def _add(self, new: Fault) -> Fault:
        with self._lock:
            self._faults.append(new)
        return new

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            raise Refused("ResourceNotFoundException", "Requested resource not found")
        return self._tables[name]

    def _apply(
        self, table: Table, key: Item, old: Item | None, new: Item | None, size: int, by_ttl: bool = False
    ) -> None:
        if old == new:
            return
        table.replace(key, new, size)
        if table.streamed:
            self._streams[table.name].add(key, old, new, by_ttl)


def _chosen(op: str | None, when: When | None, prefix: str = "") -> When:
    def chosen(name: str, params: Mapping[str, Any]) -> bool:
        return name.startswith(prefix) and op in (None, name) and (when is None or when(name, params))

    return chosen
