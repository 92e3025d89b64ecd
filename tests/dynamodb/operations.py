"""What each operation does to the tables, under the caller's lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tests.dynamodb import reads
from tests.dynamodb.errors import ConditionFailed, Invalid, Refused, Unsupported, cancelled
from tests.dynamodb.expressions import at, bind, projected
from tests.dynamodb.log import Request
from tests.dynamodb.schema import Table
from tests.dynamodb.sizes import MAX_BATCH_GET, MAX_PAGE, MAX_TRANSACTION, read_units
from tests.dynamodb.updates import targets
from tests.dynamodb.values import Item, copied_item
from tests.dynamodb.writes import Change, Write, evaluate, failed_units, prepare

CONDITION = {"ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues", "TableName"}
ON_FAILURE = CONDITION | {"ReturnValuesOnConditionCheckFailure"}
READ = {"ConsistentRead", "ExpressionAttributeNames", "ProjectionExpression"}
PARAMETERS: Mapping[str, set[str]] = {
    "get_item": READ | {"TableName", "Key"},
    "batch_get_item": {"RequestItems"},
    "query": READ
    | {"TableName", "IndexName", "KeyConditionExpression", "FilterExpression", "ExpressionAttributeValues"}
    | {"Select", "Limit", "ScanIndexForward", "ExclusiveStartKey"},
    "put_item": ON_FAILURE | {"Item", "ReturnValues"},
    "update_item": ON_FAILURE | {"Key", "UpdateExpression", "ReturnValues"},
    "delete_item": ON_FAILURE | {"Key", "ReturnValues"},
    "batch_write_item": {"RequestItems"},
    "transact_write_items": {"TransactItems", "ClientRequestToken"},
    "transact_get_items": {"TransactItems"},
}
ACTIONS: Mapping[str, tuple[str, set[str]]] = {
    "Put": ("put", ON_FAILURE | {"Item"}),
    "Update": ("update", ON_FAILURE | {"Key", "UpdateExpression"}),
    "Delete": ("delete", ON_FAILURE | {"Key"}),
    "ConditionCheck": ("check", ON_FAILURE | {"Key"}),
}
MAX_ACTIONS = 100
MAX_BATCH_READ = 100
MAX_BATCH_WRITE = 25
MAX_TOKEN = 36
DUPLICATES = "Provided list of item keys contains duplicates"
TWICE = "Transaction request cannot include multiple operations on one item"
TOO_LARGE = "Transaction request exceeds the 4MB transaction size limit"

Tokens = dict[str, tuple[Any, tuple[int, ...]]]


class Apply(Protocol):
    def __call__(self, table: Table, key: Item, old: Item | None, new: Item | None, size: int) -> None: ...


class Operations:
    """`tokens` keeps, by client request token, the parameters and the sizes of what was written."""

    def __init__(self, table: Callable[[str], Table], tokens: Tokens, apply: Apply) -> None:
        self._table, self._tokens, self._apply = table, tokens, apply

    def run(self, op: str, params: Mapping[str, Any], request: Request, unprocessed: int) -> dict[str, Any]:
        """`unprocessed` is how many items a batch leaves undone."""
        if op == "get_item":
            item = reads.get(self._table(params["TableName"]), params, request)
            return {} if item is None else {"Item": item}
        if op == "query":
            return reads.query(self._table(params["TableName"]), params, request)
        if op == "batch_get_item":
            return self._batch_get(params["RequestItems"], request, unprocessed)
        if op == "batch_write_item":
            return self._batch_write(params["RequestItems"], request, unprocessed)
        if op == "transact_get_items":
            return self._transact_get(params["TransactItems"], request)
        if op == "transact_write_items":
            return self._transact_write(params, request)
        return self._write(op.removesuffix("_item"), params, request)

    def _write(self, kind: str, params: Mapping[str, Any], request: Request) -> dict[str, Any]:
        write = prepare(kind, self._table(params["TableName"]), params)
        try:
            change = evaluate(write)
        except ConditionFailed:
            request.items += 1
            request.write_units += failed_units(write)
            raise
        self._commit([change], request, factor=1)
        return _returned(change, params.get("ReturnValues", "NONE"))

    def _commit(self, changes: Sequence[Change], request: Request, factor: int) -> None:
        for change in changes:
            change.charge(request, factor)
            if change.write.kind != "check":
                self._apply(change.write.table, change.write.key, change.old, change.new, change.new_size)

    def _transact_write(self, params: Mapping[str, Any], request: Request) -> dict[str, Any]:
        actions, token = params["TransactItems"], params.get("ClientRequestToken")
        if not 1 <= len(actions) <= MAX_ACTIONS:
            raise Invalid(f"TransactItems: Member must have length between 1 and {MAX_ACTIONS}")
        if token is not None and not 1 <= len(token) <= MAX_TOKEN:
            raise Invalid(f"ClientRequestToken: Member must have length between 1 and {MAX_TOKEN}")
        writes = [self._action(action) for action in actions]
        if len({write.place for write in writes}) < len(writes):
            raise Invalid(TWICE)
        asked = _frozen(actions)
        if token in self._tokens:
            known, sizes = self._tokens[token]
            if known != asked:
                raise Refused(
                    "IdempotentParameterMismatchException",
                    "Request token already in use for another request with a different payload",
                )
            request.items = len(sizes)
            request.read_units = sum(2 * read_units(size, consistent=True) for size in sizes)
            return {}
        changes = self._evaluated(writes, request)
        if sum(change.size for change in changes) > MAX_TRANSACTION:
            raise Invalid(TOO_LARGE)
        self._commit(changes, request, factor=2)
        if token is not None:
            self._tokens[token] = (asked, tuple(change.size for change in changes))
        return {}

    def _action(self, action: Mapping[str, Any]) -> Write:
        ((name, params),) = action.items()
        kind, known = ACTIONS[name]
        if params.keys() - known:
            raise Unsupported(f"parameters of {name}: {', '.join(sorted(params.keys() - known))}")
        if kind == "check" and "ConditionExpression" not in params:
            raise Invalid("The ConditionExpression of a ConditionCheck is missing")
        return prepare(kind, self._table(params["TableName"]), params)

    @staticmethod
    def _evaluated(writes: Sequence[Write], request: Request) -> list[Change]:
        """All changes; a cancellation names the reason of every item."""
        changes: list[Change] = []
        reasons: list[dict[str, Any]] = []
        for write in writes:
            try:
                changes.append(evaluate(write))
                reasons.append({"Code": "None"})
            except ConditionFailed as failed:
                item = {"Item": copied_item(failed.more["Item"])} if "Item" in failed.more else {}
                reasons.append({**item, "Code": "ConditionalCheckFailed", "Message": failed.message})
            except Invalid as invalid:
                reasons.append({"Code": "ValidationError", "Message": invalid.message})
        if len(changes) < len(writes):
            request.items += len(writes)
            request.write_units += sum(2 * failed_units(write) for write in writes)
            raise cancelled(reasons)
        return changes

    def _transact_get(self, actions: Sequence[Mapping[str, Any]], request: Request) -> dict[str, Any]:
        if not 1 <= len(actions) <= MAX_ACTIONS:
            raise Invalid(f"TransactItems: Member must have length between 1 and {MAX_ACTIONS}")
        gets = [action["Get"] for action in actions]
        rows = [(table := self._table(each["TableName"]), table.key(each["Key"])) for each in gets]
        if len({(table.name, table.key_of(key)) for table, key in rows}) < len(rows):
            raise Invalid(TWICE)
        found = [table.row(key) for table, key in rows]
        if sum(row.size for row in found if row) > MAX_TRANSACTION:
            raise Invalid(TOO_LARGE)
        items = [reads.get(self._table(each["TableName"]), each, request, factor=2) for each in gets]
        return {"Responses": [{} if item is None else {"Item": item} for item in items]}

    def _batch_get(self, asked: Mapping[str, Any], request: Request, unprocessed: int) -> dict[str, Any]:
        """Stops at 16 MB in all and at 1 MB of one partition key, which the API reference names as a reason too."""
        keys = [(name, key) for name, each in asked.items() for key in each["Keys"]]
        if not 1 <= len(keys) <= MAX_BATCH_READ:
            raise Invalid(f"Too many items requested for the BatchGetItem call, or none: {len(keys)}")
        places = {(name, self._table(name).key_of(self._table(name).key(key))) for name, key in keys}
        if len(places) < len(keys):
            raise Invalid(DUPLICATES)
        responses: dict[str, list[Item]] = {name: [] for name in asked}
        left: dict[str, list[Any]] = {}
        allowed = max(1, len(keys) - unprocessed)
        sent = 0
        sent_of: dict[Any, int] = {}
        for position, (name, key) in enumerate(keys):
            table = self._table(name)
            each = asked[name]
            if each.keys() - READ - {"Keys"}:
                raise Unsupported(f"parameters of batch_get_item: {sorted(each)}")
            bound = bind({slot: text for slot, text in each.items() if slot in READ})
            own_key = table.key(key)
            row = table.row(own_key)
            size = row.size if row else 0
            partition = (name, table.key_of(own_key)[0])
            of_partition = sent_of.get(partition, 0) + size
            if position >= allowed or (position and (sent + size > MAX_BATCH_GET or of_partition > MAX_PAGE)):
                left.setdefault(name, []).append(copied_item(key))
                continue
            sent += size
            sent_of[partition] = of_partition
            request.items += 1
            request.read_units += read_units(size, bool(each.get("ConsistentRead")))
            if row is not None:
                responses[name].append(projected(row.item, bound.paths("ProjectionExpression")))
        again = {name: {**asked[name], "Keys": keys} for name, keys in left.items()}
        return {"Responses": responses, "UnprocessedKeys": again}

    def _batch_write(self, asked: Mapping[str, Any], request: Request, unprocessed: int) -> dict[str, Any]:
        wanted = [(name, each) for name, requests in asked.items() for each in requests]
        if not 1 <= len(wanted) <= MAX_BATCH_WRITE:
            raise Invalid(f"RequestItems: Member must have length between 1 and {MAX_BATCH_WRITE}")
        writes = []
        for name, each in wanted:
            ((kind, params),) = each.items()
            if params.keys() != {"Item" if kind == "PutRequest" else "Key"}:
                raise Unsupported(f"parameters of {kind}: {sorted(params)}")
            writes.append(prepare("put" if kind == "PutRequest" else "delete", self._table(name), params))
        if len({write.place for write in writes}) < len(writes):
            raise Invalid(DUPLICATES)
        done = max(1, len(writes) - unprocessed)
        for write in writes[:done]:
            self._commit([evaluate(write)], request, factor=1)
        left: dict[str, list[Any]] = {}
        for name, each in wanted[done:]:
            left.setdefault(name, []).append(each)
        return {"UnprocessedItems": left}


def _returned(change: Change, what: str) -> dict[str, Any]:
    if what == "NONE":
        return {}
    allowed = ("ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW") if change.write.kind == "update" else ("ALL_OLD",)
    if what not in allowed:
        raise Unsupported(f"ReturnValues {what} of {change.write.kind}")
    item = change.old if what.endswith("OLD") else change.new
    if item is None:
        return {}
    if what.startswith("ALL"):
        return {"Attributes": copied_item(item)}
    paths = tuple(path for path in targets(change.write.bound) if at(item, path) is not None)
    return {"Attributes": projected(item, paths)} if paths else {}


def _frozen(value: Any) -> Any:
    """Hashable, equal for equal parameters, and independent of what the caller does to them afterwards."""
    if isinstance(value, Mapping):
        return tuple(sorted((name, _frozen(each)) for name, each in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(each) for each in value)
    return value
