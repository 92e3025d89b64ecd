"""What the table in memory and ministack both do as DynamoDB's documents say; queries have a file of their own.

Where ministack (1.5.33, measured) differs, the documented behaviour is asked of the table in memory only, in
``test_documented.py``:

====================================================== =============================== =============================
what                                                   DynamoDB                        ministack
====================================================== =============================== =============================
attributes that a local index does not project         fetched from the table          left out
``REMOVE a.b`` without ``a``                           refused                         accepted
two paths of one update overlap                        refused                         accepted, or another error
``SET`` twice in one update, ``a + b + c``             refused                         accepted
operands of a wrong type in an update, ``SET x :a``    refused                         accepted
``REMOVE l[0], l[1]``                                  removes both                    removes one
an item without its sort key in a transaction          refused                         accepted
``IN`` with more than 100 operands                     refused                         accepted
``OR`` in a key condition, filters on key attributes   refused                         accepted
sort key of a local index above 1,024 bytes            refused                         accepted
BatchGetItem above 16 MB, or 1 MB of one partition     UnprocessedKeys                 all answered
a transaction's 4 MB                                   size of the items               size of the request's JSON
TTL                                                    REMOVE record by the service    no record
capacity units of reads, sizes in stream records       from the sizes                  constant
throttling, conflicts, unprocessed items               under load                      never
====================================================== =============================== =============================
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb.rig import Rig, code, n, names, race, refusal, s, values

VALIDATION = "ValidationException"
FAILED = "ConditionalCheckFailedException"
CANCELLED = "TransactionCanceledException"
NEW = {"ConditionExpression": "attribute_not_exists(pk)"}
OLD_BACK = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
ITEM_LIMIT = 400 * 1024


def test_values_of_every_type_come_back(rig: Rig) -> None:
    given: dict[str, Any] = {
        "text": s("Zoë 𝄞 \x00"),
        "empty": s(""),
        "binary": {"B": bytes(range(256))},
        "yes": {"BOOL": True},
        "nothing": {"NULL": True},
        "list": {"L": [s("a"), n(1), {"L": []}]},
        "map": {"M": {"a": {"M": {"b": {"B": b"\x00"}}}}},
    }
    rig.put("a", **given)
    assert rig.get("a") == {"pk": s("V"), "sk": s("a"), **given}


@pytest.mark.parametrize(
    ("given", "kept"),
    [("1.0", "1"), ("1e3", "1000"), ("-0.0", "0"), ("0012.500", "12.5"), ("1E-3", "0.001"), ("9" * 38, "9" * 38)],
)
def test_numbers_have_one_text(rig: Rig, given: str, kept: str) -> None:
    rig.put("a", x=n(given))
    assert (rig.get("a") or {})["x"] == n(kept)


@pytest.mark.parametrize("wrong", ["", "one", "NaN", "Infinity", "1" * 39, "1e126", "1e-131"])
def test_what_is_no_number_is_refused(rig: Rig, wrong: str) -> None:
    assert code(lambda: rig.put("a", x=n(wrong))) == VALIDATION


def test_an_answer_shares_nothing_with_the_table(rig: Rig) -> None:
    given = {"M": {"x": n(1)}}
    rig.put("a", m=given)
    given["M"]["x"] = n(2)
    item = rig.get("a")
    assert item is not None
    item["m"]["M"]["x"] = n(3)
    assert (rig.get("a") or {})["m"] == {"M": {"x": n(1)}}


def test_a_failed_condition_changes_nothing_and_returns_the_old_item_when_asked(rig: Rig) -> None:
    rig.put("a", x=n(1))
    item = {"pk": s("V"), "sk": s("a"), "x": n(2)}
    plain = refusal(lambda: rig.client.put_item(TableName=rig.name, Item=item, **NEW))
    assert plain["Error"]["Code"] == FAILED
    assert "Item" not in plain
    asked = refusal(lambda: rig.client.put_item(TableName=rig.name, Item=item, **NEW, **OLD_BACK))
    assert asked["Item"] == {"pk": s("V"), "sk": s("a"), "x": n(1)} == rig.get("a")


def test_a_failed_condition_on_nothing_returns_no_item(rig: Rig) -> None:
    response = refusal(
        lambda: rig.client.delete_item(**rig.place("none"), ConditionExpression="attribute_exists(pk)", **OLD_BACK)
    )
    assert response["Error"]["Code"] == FAILED
    assert "Item" not in response


@pytest.mark.parametrize(
    ("condition", "given", "holds"),
    [
        ("n1 > :x", {"x": n("4.5")}, True),
        ("n1 > :x", {"x": s("4.5")}, False),
        ("n1 <> :x", {"x": s("5")}, True),
        ("n1 = :x", {"x": n("5.00")}, True),
        ("n1 BETWEEN :x AND :y", {"x": 1, "y": 5}, True),
        ("n1 BETWEEN :x AND :y", {"x": 6, "y": 9}, False),
        ("n1 IN (:x, :y)", {"x": s("5"), "y": n(5)}, True),
        ("n1 IN (:x)", {"x": 6}, False),
        ("none1 < :x", {"x": 1}, False),
        ("NOT none1 < :x", {"x": 1}, True),
        ("none1 <> :x", {"x": 1}, True),
        ("none1 = :x", {"x": 1}, False),
        ("m = :x", {"x": {"M": {"a": n("1.0")}}}, True),
        ("m.a = :x", {"x": 1}, True),
        ("m.b.c = :x", {"x": 1}, False),
        ("l[0] = :x AND l[1].a = :y", {"x": "first", "y": 2}, True),
        ("l[2] = :x", {"x": "first"}, False),
        ("attribute_exists(m.a) AND attribute_not_exists(m.b) AND attribute_not_exists(none1.b)", {}, True),
        ("attribute_exists(l[1]) AND attribute_not_exists(l[2])", {}, True),
        ("begins_with(t, :x)", {"x": "some"}, True),
        ("begins_with(t, :x)", {"x": "text"}, False),
        ("begins_with(none1, :x)", {"x": "text"}, False),
        ("contains(t, :x)", {"x": "me te"}, True),
        ("contains(l, :x)", {"x": "first"}, True),
        ("contains(l, :x)", {"x": "fir"}, False),
        ("contains(none1, :x)", {"x": "fir"}, False),
        ("size(t) = :x", {"x": 9}, True),
        ("size(m) = :x AND size(l) = :y", {"x": 1, "y": 2}, True),
        ("size(none1) = :x", {"x": 0}, False),
        ("attribute_type(n1, :x)", {"x": "N"}, True),
        ("n1 = :x OR n1 = :y AND t = :x", {"x": 5, "y": 6}, True),
        ("(n1 = :x OR n1 = :y) AND t = :x", {"x": 5, "y": 6}, False),
        ("NOT n1 = :x OR n1 = :x", {"x": 5}, True),
        ("NOT (n1 = :x OR n1 = :y)", {"x": 5, "y": 6}, False),
        ("b1 < :x", {"x": {"B": b"\x02"}}, True),
        ("n1 = n1 AND n1 <> t", {}, True),
        ("yes1 = :x", {"x": {"BOOL": True}}, True),
    ],
)
def test_conditions(rig: Rig, condition: str, given: dict[str, Any], holds: bool) -> None:
    attributes = {
        "n1": n(5),
        "t": s("some text"),
        "m": {"M": {"a": n(1)}},
        "l": {"L": [s("first"), {"M": {"a": n(2)}}]},
        "b1": {"B": b"\x01\xff"},
        "yes1": {"BOOL": True},
    }
    rig.put("a", **attributes)
    more = {"ExpressionAttributeValues": values(**given)} if given else {}
    assert code(lambda: rig.update("a", "REMOVE z", ConditionExpression=condition, **more)) == ("" if holds else FAILED)


@pytest.mark.parametrize(
    "condition",
    ["", "  ", "n1 =", "n1", "n1 = :x AND", "((n1 = :x))", "n1 == :x", "exists(n1)", "begins_with(n1)", "n1 = :x)"],
)
def test_malformed_conditions_are_refused(rig: Rig, condition: str) -> None:
    more = {"ExpressionAttributeValues": values(x=1)} if ":x" in condition else {}
    assert code(lambda: rig.update("a", "REMOVE z", ConditionExpression=condition, **more)) == VALIDATION


def test_an_expression_has_at_most_four_kilobytes(rig: Rig) -> None:
    assert code(lambda: rig.update("a", f"REMOVE {'z' * 4089}")) == ""
    assert code(lambda: rig.update("a", f"REMOVE {'z' * 4090}")) == VALIDATION


@pytest.mark.parametrize(
    "more",
    [
        {"ExpressionAttributeValues": values(x=1, unused=2)},
        {"ExpressionAttributeValues": values(x=1), "ExpressionAttributeNames": {"#unused": "y"}},
        {"ExpressionAttributeValues": values(other=1)},
        {},
    ],
)
def test_placeholders_are_defined_and_used(rig: Rig, more: dict[str, Any]) -> None:
    assert code(lambda: rig.update("a", "SET x = :x", **more)) == VALIDATION
    assert rig.get("a") is None


def test_an_undefined_name_is_refused(rig: Rig) -> None:
    assert code(lambda: rig.update("a", "SET #x = :x", ExpressionAttributeValues=values(x=1))) == VALIDATION


@pytest.mark.parametrize("word", ["pool", "when", "text", "ttl", "Date", "open", "state", "role"])
def test_reserved_words_need_a_placeholder(rig: Rig, word: str) -> None:
    given = {"ExpressionAttributeValues": values(x="v")}
    assert code(lambda: rig.update("a", f"SET {word} = :x", **given)) == VALIDATION
    rig.update("a", "SET #w = :x", ExpressionAttributeNames={"#w": word}, **given)
    assert (rig.get("a") or {})[word] == s("v")


@pytest.mark.parametrize(
    ("expression", "given", "changed"),
    [
        ("SET x = :a", {"a": 7}, {"x": n(7)}),
        ("SET x = x + :a, y = x", {"a": 7}, {"x": n(12), "y": n(5)}),
        ("SET x = x - :a", {"a": n("0.1")}, {"x": n("4.9")}),
        ("SET x = if_not_exists(x, :a)", {"a": 1}, {}),
        ("SET y = if_not_exists(y, :a) + :b", {"a": 0, "b": 2}, {"y": n(2)}),
        ("SET l = list_append(l, :a)", {"a": {"L": [s("c")]}}, {"l": {"L": [s("a"), s("b"), s("c")]}}),
        ("SET y = list_append(if_not_exists(y, :a), :b)", {"a": {"L": []}, "b": {"L": [n(1)]}}, {"y": {"L": [n(1)]}}),
        ("SET m.b = :a", {"a": 1}, {"m": {"M": {"a": n(1), "b": n(1)}}}),
        ("SET m.a = m.a + :a", {"a": 1}, {"m": {"M": {"a": n(2)}}}),
        ("SET l[1] = :a", {"a": "z"}, {"l": {"L": [s("a"), s("z")]}}),
        ("SET l[9] = :a", {"a": "z"}, {"l": {"L": [s("a"), s("b"), s("z")]}}),
        ("REMOVE m.a", {}, {"m": {"M": {}}}),
        ("REMOVE m.none1", {}, {}),
        ("REMOVE l[0]", {}, {"l": {"L": [s("b")]}}),
        ("REMOVE none1", {}, {}),
        ("ADD x :a", {"a": n("-5")}, {"x": n(0)}),
        ("ADD y :a", {"a": 3}, {"y": n(3)}),
        ("set x = :a remove m add y :a", {"a": 3}, {"x": n(3), "m": None, "y": n(3)}),
    ],
)
def test_updates(rig: Rig, expression: str, given: dict[str, Any], changed: dict[str, Any]) -> None:
    before = {"x": n(5), "l": {"L": [s("a"), s("b")]}, "m": {"M": {"a": n(1)}}}
    rig.put("a", **before)
    more = {"ExpressionAttributeValues": values(**given)} if given else {}
    rig.update("a", expression, **more)
    after = {name: value for name, value in {**before, **changed}.items() if value is not None}
    assert rig.get("a") == {"pk": s("V"), "sk": s("a"), **after}


@pytest.mark.parametrize(
    ("expression", "given"),
    [
        ("SET none1.a = :a", {"a": 1}),
        ("SET x.a = :a", {"a": 1}),
        ("SET m.none1.a = :a", {"a": 1}),
        ("SET y = none1 + :a", {"a": 1}),
        ("SET y = none1", {}),
        ("ADD x :a", {"a": "1"}),
        ("SET sk = :a", {"a": "other"}),
        ("REMOVE pk", {}),
        ("SET #pool = :a", {"a": 1}),
        ("SET #pool = :a", {"a": ""}),
        ("SET x = size(x)", {}),
    ],
)
def test_updates_that_do_not_fit_are_refused(rig: Rig, expression: str, given: dict[str, Any]) -> None:
    rig.put("a", x=n(5), m={"M": {}})
    more: dict[str, Any] = {"ExpressionAttributeValues": values(**given)} if given else {}
    if "#pool" in expression:
        more["ExpressionAttributeNames"] = names("pool")
    assert code(lambda: rig.update("a", expression, **more)) == VALIDATION
    assert rig.get("a") == {"pk": s("V"), "sk": s("a"), "x": n(5), "m": {"M": {}}}


def test_the_condition_comes_before_the_update(rig: Rig) -> None:
    more = {"ExpressionAttributeValues": values(a=1), "ConditionExpression": "attribute_exists(pk)"}
    assert code(lambda: rig.update("a", "SET none1.a = :a", **more)) == FAILED


def test_an_update_makes_the_item(rig: Rig) -> None:
    rig.client.update_item(**rig.place("a"))
    assert rig.get("a") == {"pk": s("V"), "sk": s("a")}


def test_what_writes_return(rig: Rig) -> None:
    rig.put("a", x=n(1), y=n(1))
    more = {"ExpressionAttributeValues": values(x=2)}
    whole = {"pk": s("V"), "sk": s("a"), "y": n(1)}
    assert rig.update("a", "SET x = :x", ReturnValues="UPDATED_OLD", **more)["Attributes"] == {"x": n(1)}
    assert rig.update("a", "SET x = :x", ReturnValues="UPDATED_NEW", **more)["Attributes"] == {"x": n(2)}
    more = {"ExpressionAttributeValues": values(x=3)}
    assert rig.update("a", "SET x = :x", ReturnValues="ALL_OLD", **more)["Attributes"] == {**whole, "x": n(2)}
    assert rig.update("a", "SET x = :x", ReturnValues="ALL_NEW", **more)["Attributes"] == {**whole, "x": n(3)}
    assert rig.client.delete_item(**rig.place("a"), ReturnValues="ALL_OLD")["Attributes"] == {**whole, "x": n(3)}
    assert "Attributes" not in rig.client.delete_item(**rig.place("a"), ReturnValues="ALL_OLD")


@pytest.mark.parametrize(
    "item",
    [
        {"pk": s("V")},
        {"pk": s("V"), "sk": s("")},
        {"pk": s(""), "sk": s("a")},
        {"pk": s("V"), "sk": n(1)},
        {"pk": s("V"), "sk": s("a" * 1025)},
        {"pk": s("V"), "sk": s("é" * 513)},
        {"pk": s("a" * 2049), "sk": s("a")},
        {"pk": s("V"), "sk": s("a"), "pool": n(1)},
        {"pk": s("V"), "sk": s("a"), "pool": s("")},
    ],
)
def test_keys_that_do_not_fit_are_refused(rig: Rig, item: dict[str, Any]) -> None:
    assert code(lambda: rig.client.put_item(TableName=rig.name, Item=item)) == VALIDATION
    if "sk" in item:
        assert code(lambda: rig.transact(rig.putting("b"), {"Put": {"TableName": rig.name, "Item": item}})) != ""
        assert rig.get("b") is None


def test_the_longest_keys_fit(rig: Rig) -> None:
    rig.put("a" * 1024, pk="b" * 2048)
    assert rig.get("a" * 1024, pk="b" * 2048) is not None


def test_a_key_has_no_other_attributes(rig: Rig) -> None:
    key = {"pk": s("V"), "sk": s("a"), "x": n(1)}
    assert code(lambda: rig.client.get_item(TableName=rig.name, Key=key)) == VALIDATION


def test_the_size_of_an_item(rig: Rig) -> None:
    # pk 2 + V 1, sk 2 + a 1, t 1, and a map m 1 with 3 of its own, 1 for its entry: key k 1, number 12 is 2.
    room = ITEM_LIMIT - (2 + 1 + 2 + 1 + 1 + 1 + 3 + 1 + 1 + 2)
    more: dict[str, Any] = {"m": {"M": {"k": n(12)}}}
    rig.put("a", t=s("x" * room), **more)
    assert code(lambda: rig.put("a", t=s("x" * (room + 1)), **more)) == VALIDATION
    assert code(lambda: rig.put("a", t=s("é" * (room // 2)), **more)) == ""
    assert code(lambda: rig.put("a", t=s("é" * (room // 2 + 1)), **more)) == VALIDATION
    assert code(lambda: rig.transact(rig.putting("a", t=s("x" * (room + 1)), **more))) == VALIDATION


def test_an_update_cannot_grow_an_item_beyond_its_limit(rig: Rig) -> None:
    rig.put("a", t=s("x" * 300_000))
    more = {"ExpressionAttributeValues": values(u="x" * 110_000)}
    assert code(lambda: rig.update("a", "SET u = :u", **more)) == VALIDATION
    assert code(lambda: rig.transact(rig.updating("a", "SET u = :u", **more))) == CANCELLED
    assert set(rig.get("a") or {}) == {"pk", "sk", "t"}


def test_a_table_that_does_not_exist(rig: Rig) -> None:
    key = {"pk": s("V"), "sk": s("a")}
    assert code(lambda: rig.client.get_item(TableName="nobody", Key=key)) == "ResourceNotFoundException"


def test_batches_read(rig: Rig) -> None:
    for number in range(5):
        rig.put(f"{number}", x=n(number), y=n(1))
    keys = [{"pk": s("V"), "sk": s(f"{number}")} for number in (3, 1, 7)]
    asked = {"Keys": keys, "ConsistentRead": True, "ProjectionExpression": "sk, x"}
    answer = rig.client.batch_get_item(RequestItems={rig.name: asked})
    found = sorted(answer["Responses"][rig.name], key=lambda item: item["sk"]["S"])
    assert found == [{"sk": s("1"), "x": n(1)}, {"sk": s("3"), "x": n(3)}]
    assert answer["UnprocessedKeys"] == {}


def test_limits_of_batches(rig: Rig) -> None:
    def read(keys: list[Any]) -> Any:
        return rig.client.batch_get_item(RequestItems={rig.name: {"Keys": keys}})

    def write(requests: list[Any]) -> Any:
        return rig.client.batch_write_item(RequestItems={rig.name: requests})

    keys = [{"pk": s("V"), "sk": s(f"{number}")} for number in range(101)]
    puts = [{"PutRequest": {"Item": key}} for key in keys]
    assert code(lambda: read(keys[:100])) == ""
    assert code(lambda: read(keys)) == VALIDATION
    assert code(lambda: read([keys[0], keys[0]])) == VALIDATION
    assert code(lambda: write(puts[:26])) == VALIDATION
    assert code(lambda: write([puts[0], {"DeleteRequest": {"Key": keys[0]}}])) == VALIDATION
    assert rig.query()["Count"] == 0
    assert write(puts[:25])["UnprocessedItems"] == {}
    assert write([{"DeleteRequest": {"Key": keys[0]}}, puts[30]])["UnprocessedItems"] == {}
    assert rig.query()["Count"] == 25


def test_one_winner_of_a_conditional_write(rig: Rig) -> None:
    def put(number: int) -> None:
        item = {"pk": s("V"), "sk": s("a"), "x": n(number)}
        rig.client.put_item(TableName=rig.name, Item=item, **NEW)

    assert race(16, put) == {"": 1, FAILED: 15}


def test_no_increment_is_lost(rig: Rig) -> None:
    more = {"ExpressionAttributeValues": values(one=1)}
    assert race(16, lambda number: rig.update("a", "ADD x :one", **more)) == {"": 16}
    assert (rig.get("a") or {})["x"] == n(16)
