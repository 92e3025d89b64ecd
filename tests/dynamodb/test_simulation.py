"""What a simulation uses: hooks, injected faults and the costs of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ConnectTimeoutError, ReadTimeoutError

from tests.dynamodb.errors import Unsupported
from tests.dynamodb.log import Request, total
from tests.dynamodb.rig import Rig, code, n, names, refusal, s, values
from tests.dynamodb.table import MemoryTable


class Crash(BaseException):
    pass


def test_a_worker_ends_before_the_effect_or_after_it(memory: Rig, table: MemoryTable) -> None:
    seen: list[Any] = []

    def crash(op: str, params: Mapping[str, Any]) -> None:
        seen.append((op, params["Item"]["sk"]))
        raise Crash

    table.before = crash
    with pytest.raises(Crash):
        memory.put("a")
    table.before, table.after = None, crash
    with pytest.raises(Crash):
        memory.put("b")
    table.after = None
    assert seen == [("put_item", s("a")), ("put_item", s("b"))]
    assert [item["sk"] for item in table.snapshot(memory.name)] == [s("b")]


def test_a_refusal_may_be_lost_as_well(memory: Rig, table: MemoryTable) -> None:
    memory.put("a")
    seen: list[str] = []
    table.after = lambda op, params: seen.append(op)
    check = {"ConditionExpression": "attribute_not_exists(pk)"}
    assert code(lambda: memory.update("a", "REMOVE x", **check)) == "ConditionalCheckFailedException"
    assert seen == ["update_item"]


def test_another_worker_comes_first(memory: Rig, table: MemoryTable) -> None:
    def other(op: str, params: Mapping[str, Any]) -> None:
        table.before = None
        memory.put("a", x=n(1))

    table.before = other
    memory.update("a", "ADD x :one", ExpressionAttributeValues=values(one=1))
    assert (memory.get("a") or {})["x"] == n(2)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("throttled", "ProvisionedThroughputExceededException"),
        ("slow_down", "ThrottlingException"),
        ("server_error", "InternalServerError"),
        ("in_progress", "TransactionInProgressException"),
        ("conflict", "TransactionConflictException"),
        ("throttled_item", "ThrottlingException"),
        ("collection_full", "ItemCollectionSizeLimitExceededException"),
    ],
)
def test_injected_refusals(memory: Rig, table: MemoryTable, kind: str, expected: str) -> None:
    fault = table.fail(kind, op="put_item", when=lambda op, params: params["Item"]["sk"] == s("a"), times=2)
    memory.put("b")
    assert [code(lambda: memory.put("a")) for _ in range(3)] == [expected, expected, ""]
    assert fault.hits == 2
    assert [request.error for request in table.log] == ["", expected, expected, ""]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("conflict", "TransactionConflict"),
        ("throttled_item", "ThrottlingError"),
        ("collection_full", "ItemCollectionSizeLimitExceeded"),
    ],
)
def test_injected_reasons(memory: Rig, table: MemoryTable, kind: str, reason: str) -> None:
    table.fail(kind)
    response = refusal(lambda: memory.transact(memory.putting("a"), memory.putting("b"), token="one"))
    assert response["Error"]["Code"] == "TransactionCanceledException"
    assert [each["Code"] for each in response["CancellationReasons"]] == [reason, "None"]
    assert table.snapshot(memory.name) == []
    memory.transact(memory.putting("a"), memory.putting("b"), token="one")
    assert len(table.snapshot(memory.name)) == 2


@pytest.mark.parametrize(
    ("kind", "error", "applied"),
    [
        ("unreachable", ConnectTimeoutError, False),
        ("request_lost", ReadTimeoutError, False),
        ("reply_lost", ReadTimeoutError, True),
        ("connection_closed", ConnectionClosedError, True),
    ],
)
def test_a_bad_network(memory: Rig, table: MemoryTable, kind: str, error: type[Exception], applied: bool) -> None:
    def add() -> None:
        memory.transact(memory.updating("a", "ADD x :one", ExpressionAttributeValues=values(one=1)), token="one")

    table.fail(kind)
    with pytest.raises(error):
        add()
    assert (memory.get("a") is not None) == applied
    add()
    assert (memory.get("a") or {})["x"] == n(1)
    table.forget_tokens()
    add()
    assert (memory.get("a") or {})["x"] == n(2)


def test_unprocessed_items(memory: Rig, table: MemoryTable) -> None:
    keys = [{"pk": s("V"), "sk": s(f"{number}")} for number in range(5)]
    table.leave_unprocessed(3, op="batch_write_item")
    puts = {memory.name: [{"PutRequest": {"Item": key}} for key in keys]}
    left = memory.client.batch_write_item(RequestItems=puts)["UnprocessedItems"]
    assert left == {memory.name: puts[memory.name][2:]}
    assert len(table.snapshot(memory.name)) == 2
    memory.client.batch_write_item(RequestItems=left)
    table.leave_unprocessed(9)
    answer = memory.client.batch_get_item(RequestItems={memory.name: {"Keys": keys}})
    assert answer["Responses"][memory.name] == keys[:1]
    assert answer["UnprocessedKeys"] == {memory.name: {"Keys": keys[1:]}}


def test_faults_can_be_called_off(memory: Rig, table: MemoryTable) -> None:
    table.fail("throttled", times=9)
    assert code(lambda: memory.put("a")) != ""
    table.clear_faults()
    assert code(lambda: memory.put("a")) == ""


def test_errors_have_classes_of_their_own(memory: Rig, table: MemoryTable) -> None:
    memory.put("a")
    with pytest.raises(table.exceptions.ConditionalCheckFailedException) as caught:
        memory.update("a", "REMOVE x", ConditionExpression="attribute_not_exists(pk)")
    assert isinstance(caught.value, ClientError)
    assert str(caught.value) == (
        "An error occurred (ConditionalCheckFailedException) when calling the UpdateItem operation:"
        " The conditional request failed"
    )


def test_unknown_parameters_are_no_dynamodb(memory: Rig, table: MemoryTable) -> None:
    with pytest.raises(Unsupported):
        table.get_item(TableName=memory.name, Key={"pk": s("V"), "sk": s("a")}, Consistent=True)
    with pytest.raises(Unsupported):
        memory.put("a", x={"SS": ["a"]})


def _cost(table: MemoryTable) -> tuple[int, dict[str, int], float, int]:
    """Write units, index units, read units and changed items of the requests since the last look."""
    sum_of_all = total(table.log)
    table.log.clear()
    return sum_of_all.write_units, sum_of_all.index_units, sum_of_all.read_units, sum_of_all.written_items


def test_write_units(memory: Rig, table: MemoryTable) -> None:
    pool = {"ExpressionAttributeNames": names("pool")}
    # 3,000 bytes of text are three units; two indexes hold the item, k and i in their entries.
    memory.put("a", t=s("x" * 3000), pool=s("1"), when=s("1"), k=n(1))
    assert _cost(table) == (3, {"pool": 1, "timeline": 1}, 0, 1)
    # The same again changes nothing, and is paid.
    memory.put("a", t=s("x" * 3000), pool=s("1"), when=s("1"), k=n(1))
    assert _cost(table) == (3, {}, 0, 0)
    # An attribute that no index holds.
    memory.update("a", "SET u = :u", ExpressionAttributeValues=values(u=1))
    assert _cost(table) == (3, {}, 0, 1)
    # A projected attribute rewrites the entry; another place of an index deletes and puts it.
    memory.update("a", "SET k = :k", ExpressionAttributeValues=values(k=2))
    assert _cost(table) == (3, {"pool": 1}, 0, 1)
    memory.update("a", "SET #pool = :p", ExpressionAttributeValues=values(p="2"), **pool)
    assert _cost(table) == (3, {"pool": 2}, 0, 1)
    memory.update("a", "REMOVE #pool", **pool)
    assert _cost(table) == (3, {"pool": 1}, 0, 1)
    # The larger of both sizes is paid, also for a failed condition and a deletion.
    memory.update("a", "REMOVE t")
    assert _cost(table) == (3, {}, 0, 1)
    memory.put("b", t=s("x" * 5000))
    assert _cost(table) == (5, {}, 0, 1)
    assert code(lambda: memory.update("b", "REMOVE t", ConditionExpression="attribute_not_exists(pk)")) != ""
    assert _cost(table) == (5, {}, 0, 0)
    memory.client.delete_item(**memory.place("b"))
    memory.client.delete_item(**memory.place("none"))
    assert _cost(table) == (5 + 1, {}, 0, 1)


def test_transactions_cost_twice(memory: Rig, table: MemoryTable) -> None:
    check = {"ConditionCheck": {**memory.place("c"), "ConditionExpression": "attribute_not_exists(pk)"}}
    put = memory.putting("a", t=s("x" * 1500), pool=s("1"))
    memory.transact(put, check, token="one")
    assert table.log == [
        Request("transact_write_items", items=2, written_items=1, write_units=2 * 2 + 2, index_units={"pool": 1})
    ]
    table.log.clear()
    # A repeated token is a transactional read.
    memory.transact(put, check, token="one")
    assert _cost(table) == (0, {}, 4, 0)
    memory.client.transact_get_items(TransactItems=[{"Get": memory.place("a")}, {"Get": memory.place("c")}])
    assert _cost(table) == (0, {}, 4, 0)


def test_read_units(memory: Rig, table: MemoryTable) -> None:
    for name in "abc":
        memory.put(name, t=s("x" * 4090), pool=s("1"))
    table.log.clear()
    memory.get("a")
    assert _cost(table) == (0, {}, 2, 0)
    memory.client.get_item(**memory.place("a"))
    assert _cost(table) == (0, {}, 1, 0)
    memory.get("none")
    assert _cost(table) == (0, {}, 1, 0)
    # A query adds the sizes before it rounds, three times 4,105 bytes; an index counts its entries.
    memory.query()
    assert _cost(table) == (0, {}, 4, 0)
    memory.query(IndexName="pool")
    assert _cost(table) == (0, {}, 1, 0)
    memory.query(FilterExpression="t = :t", given=values(t=""))
    assert _cost(table) == (0, {}, 4, 0)
    keys = [{"pk": s("V"), "sk": s(name)} for name in "ab"]
    memory.client.batch_get_item(RequestItems={memory.name: {"Keys": keys, "ConsistentRead": True}})
    assert _cost(table) == (0, {}, 4, 0)
