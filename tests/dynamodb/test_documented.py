"""Documented behaviour of DynamoDB that ministack does not have; `test_conformance` lists the differences."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb.errors import Unsupported
from tests.dynamodb.rig import Rig, code, n, names, s, values
from tests.dynamodb.table import MemoryTable

VALIDATION = "ValidationException"
MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("expression", "given"),
    [
        ("REMOVE none1.a", {}),
        ("REMOVE x.a", {}),
        ("SET x = :a REMOVE x", {"a": 1}),
        ("SET m = :a, m.a = :a", {"a": 1}),
        ("SET m.a = :a, m.a = :b", {"a": 1, "b": 2}),
        ("SET #x = :a, x = :b", {"a": 1, "b": 2}),
        ("SET x = :a SET y = :a", {"a": 1}),
        ("SET x = x + :a + :a", {"a": 1}),
        ("SET x = x + :a", {"a": "1"}),
        ("SET x = list_append(x, :a)", {"a": {"L": []}}),
        ("SET x :a", {"a": 1}),
        ("DELETE x", {}),
    ],
)
def test_updates_that_are_refused(memory: Rig, expression: str, given: dict[str, Any]) -> None:
    before = {"x": n(5), "m": {"M": {"a": n(1)}}}
    memory.put("a", **before)
    more: dict[str, Any] = {"ExpressionAttributeValues": values(**given)} if given else {}
    if "#x" in expression:
        more["ExpressionAttributeNames"] = names("x")
    assert code(lambda: memory.update("a", expression, **more)) == VALIDATION
    assert memory.get("a") == {"pk": s("V"), "sk": s("a"), **before}


def test_places_of_a_list_are_those_before_the_update(memory: Rig) -> None:
    memory.put("a", x={"L": [n(0), n(1), n(2), n(3)]})
    memory.update("a", "REMOVE x[0], x[2]")
    assert (memory.get("a") or {})["x"] == {"L": [n(1), n(3)]}


def test_a_choice_has_at_most_a_hundred_operands(memory: Rig) -> None:
    def check(choices: int) -> str:
        given = values(**{f"v{number}": number for number in range(choices)})
        more = {"ConditionExpression": f"x IN ({', '.join(given)})", "ExpressionAttributeValues": given}
        return code(lambda: memory.update("a", "REMOVE z", **more))

    memory.put("a", x=n(0))
    assert check(100) == ""
    assert check(101) == VALIDATION


@pytest.mark.parametrize("condition", ["pk = :pk OR sk = :a", "pk = :pk AND sk <> :a", "pk = :pk AND NOT sk = :a"])
def test_key_conditions_are_simple(memory: Rig, condition: str) -> None:
    def query() -> Any:
        given = values(pk="V", a="a")
        return memory.client.query(
            TableName=memory.name, KeyConditionExpression=condition, ExpressionAttributeValues=given
        )

    assert code(query) == VALIDATION


def test_a_filter_names_no_key_of_what_is_queried(memory: Rig) -> None:
    assert code(lambda: memory.query(FilterExpression="sk = :a", given=values(a="a"))) == VALIDATION
    more = {"ExpressionAttributeNames": names("pool"), "given": values(a="a")}
    assert code(lambda: memory.query(FilterExpression="#pool = :a", IndexName="pool", **more)) == VALIDATION
    assert code(lambda: memory.query(FilterExpression="#pool = :a", **more)) == ""


def test_a_starting_key_lies_in_the_range(memory: Rig) -> None:
    start: dict[str, Any] = {"ExclusiveStartKey": {"pk": s("V"), "sk": s("a")}}
    more = {"condition": "sk > :a", "given": values(a="b")}
    assert code(lambda: memory.query(**more, **start)) == VALIDATION


def test_an_indexs_key_has_a_limit(memory: Rig) -> None:
    memory.put("a", pool=s("x" * 1024))
    assert code(lambda: memory.put("b", pool=s("x" * 1025))) == VALIDATION
    more = {"ExpressionAttributeNames": names("pool"), "ExpressionAttributeValues": values(p="x" * 1025)}
    assert code(lambda: memory.update("a", "SET #pool = :p", **more)) == VALIDATION


def test_a_transaction_needs_whole_keys(memory: Rig) -> None:
    put = {"Put": {"TableName": memory.name, "Item": {"pk": s("V")}}}
    assert code(lambda: memory.transact(put)) == VALIDATION


def test_a_transactions_size_is_its_items(memory: Rig) -> None:
    actions = [memory.putting(f"{number}", b={"B": b"x" * 400_000}) for number in range(11)]
    memory.transact(*actions[:10])
    assert code(lambda: memory.transact(*actions)) == VALIDATION
    # What an update or a check touches counts as it is.
    touching = [memory.updating(f"{number}", "REMOVE b") for number in range(10)]
    assert code(lambda: memory.transact(*touching, memory.putting("x", b={"B": b"x" * 300_000}))) == VALIDATION
    memory.transact(*touching)


def test_an_index_fetches_what_it_does_not_hold(memory: Rig, table: MemoryTable) -> None:
    memory.put("a", pool=s("1"), k=n(1), t=s("x" * 9000))
    memory.put("b", t=s("not in the pool"))
    table.log.clear()
    assert memory.query(IndexName="pool", ProjectionExpression="t, k")["Items"] == [{"t": s("x" * 9000), "k": n(1)}]
    (item,) = memory.query(IndexName="pool", Select="ALL_ATTRIBUTES")["Items"]
    assert item == memory.get("a")
    # One unit for the entry, and three for the item.
    assert [request.read_units for request in table.log] == [4, 4, 3]
    with pytest.raises(Unsupported):
        memory.query(IndexName="pool", FilterExpression="t = :t", given=values(t="x"))


def test_a_batch_answers_at_most_sixteen_mebibytes(memory: Rig) -> None:
    keys = [{"pk": s(f"V{number}"), "sk": s("a")} for number in range(50)]
    for key in keys:
        memory.client.put_item(TableName=memory.name, Item={**key, "t": s("x" * 400_000)})
    asked = {"Keys": keys, "ConsistentRead": True}
    answer = memory.client.batch_get_item(RequestItems={memory.name: asked})
    found = len(answer["Responses"][memory.name])
    assert found == 16 * MEBIBYTE // 400_009
    assert answer["UnprocessedKeys"] == {memory.name: {"Keys": keys[found:], "ConsistentRead": True}}


def test_a_batch_answers_at_most_a_mebibyte_of_a_partition(memory: Rig) -> None:
    for number in range(4):
        memory.put(f"{number}", t=s("x" * 390_000))
    left = {memory.name: {"Keys": [{"pk": s("V"), "sk": s(f"{number}")} for number in range(4)]}}
    rounds = []
    while left:
        answer = memory.client.batch_get_item(RequestItems=left)
        rounds.append([item["sk"]["S"] for item in answer["Responses"][memory.name]])
        left = answer["UnprocessedKeys"]
    assert rounds == [["0", "1"], ["2", "3"]]


def test_time_to_live(memory: Rig, table: MemoryTable) -> None:
    now = 1_800_000_000
    memory.put("past", ttl=n(now - 1))
    memory.put("future", ttl=n(now + 1))
    memory.put("ancient", ttl=n(now - 6 * 365 * 86_400))
    memory.put("text", ttl=s(str(now - 1)))
    memory.put("none")
    memory.put("late", ttl=n(now - 1))
    assert table.expire(now, only=lambda item: item["sk"] != s("late")) == 1
    assert [item["sk"]["S"] for item in table.snapshot(memory.name)] == ["ancient", "future", "late", "none", "text"]
    record = memory.records()[-1]
    assert (record["eventName"], record["dynamodb"]["Keys"]["sk"]) == ("REMOVE", s("past"))
    assert record["userIdentity"] == {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
    assert table.expire(now) == 1


def test_streams_tell_sizes(memory: Rig) -> None:
    memory.put("a", t=s("x" * 100))
    # Keys twice, 2 + 1 + 2 + 1 bytes, and t with its name.
    assert memory.records()[0]["dynamodb"]["SizeBytes"] == 2 * 6 + 101
