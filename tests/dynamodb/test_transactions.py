"""Transactions and streams, on the table in memory and on ministack."""

from __future__ import annotations

from typing import Any

from tests.dynamodb.rig import Rig, code, n, names, race, refusal, s, values

VALIDATION = "ValidationException"
CANCELLED = "TransactionCanceledException"
NEW = {"ConditionExpression": "attribute_not_exists(pk)"}
OLD_BACK = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def test_all_or_nothing(rig: Rig) -> None:
    rig.put("ledger", open={"M": {"b1": {"M": {"rows": n(3)}}}}, v=n(1))
    taken = rig.updating(
        "ledger",
        "SET v = v + :one REMOVE #open.#id",
        ConditionExpression="v = :v AND attribute_exists(#open.#id)",
        ExpressionAttributeNames={"#open": "open", "#id": "b1"},
        ExpressionAttributeValues=values(one=1, v=1),
        **OLD_BACK,
    )
    gone = {"Delete": rig.place("ledger2")}
    rig.transact(rig.putting("header", condition=NEW), taken, gone)
    after = {"pk": s("V"), "sk": s("ledger"), "open": {"M": {}}, "v": n(2)}
    assert rig.get("ledger") == after
    assert rig.get("header") is not None

    response = refusal(lambda: rig.transact(rig.putting("header2", condition=NEW), taken, gone))
    assert response["Error"]["Code"] == CANCELLED
    none, failed, last = response["CancellationReasons"]
    assert none == {"Code": "None"} == last
    assert (failed["Code"], failed["Item"]) == ("ConditionalCheckFailed", after)
    assert rig.get("header2") is None


def test_every_reason_is_named(rig: Rig) -> None:
    rig.put("a", x=n(1))
    check = {"ConditionCheck": {**rig.place("b"), "ConditionExpression": "attribute_exists(pk)"}}
    put = rig.putting("a", condition={**NEW, **OLD_BACK})
    update = rig.updating("c", "SET none1.x = :x", ExpressionAttributeValues=values(x=1))
    reasons = refusal(lambda: rig.transact(check, put, update, rig.putting("d")))["CancellationReasons"]
    codes = ["ConditionalCheckFailed", "ConditionalCheckFailed", "ValidationError", "None"]
    assert [reason["Code"] for reason in reasons] == codes
    assert "Item" not in reasons[0]
    assert reasons[1]["Item"] == {"pk": s("V"), "sk": s("a"), "x": n(1)}


def test_a_check_writes_nothing(rig: Rig) -> None:
    check = {"ConditionCheck": {**rig.place("a"), "ConditionExpression": "attribute_not_exists(pk)"}}
    rig.transact(check, rig.putting("b"))
    assert rig.get("a") is None
    assert rig.get("b") is not None


def test_one_operation_an_item(rig: Rig) -> None:
    check = {"ConditionCheck": {**rig.place("a"), "ConditionExpression": "attribute_not_exists(pk)"}}
    assert code(lambda: rig.transact(rig.putting("a"), rig.putting("a"))) == VALIDATION
    assert code(lambda: rig.transact(check, rig.putting("a"))) == VALIDATION
    assert code(lambda: rig.transact(rig.putting("a", pk="W"), rig.putting("a"))) == ""


def test_at_most_a_hundred_items(rig: Rig) -> None:
    actions = [rig.putting(f"{number}") for number in range(101)]
    assert code(lambda: rig.transact(*actions)) == VALIDATION
    assert rig.query()["Count"] == 0
    rig.transact(*actions[:100])
    assert rig.query()["Count"] == 100


def test_at_most_four_megabytes(rig: Rig) -> None:
    actions = [rig.putting(f"{number}", t=s("x" * 390_000)) for number in range(11)]
    assert code(lambda: rig.transact(*actions)) == VALIDATION
    assert rig.query(Select="COUNT")["Count"] == 0
    rig.transact(*actions[:10])
    assert sum(page["Count"] for page in rig.pages(Select="COUNT")) == 10


def test_a_token_repeats_the_answer(rig: Rig) -> None:
    def add(amount: int, token: str) -> None:
        given = {"ExpressionAttributeValues": values(amount=amount)}
        rig.transact(rig.updating("a", "ADD x :amount", **given), token=token)

    add(1, f"{rig.name}-one")
    add(1, f"{rig.name}-one")
    assert (rig.get("a") or {})["x"] == n(1)
    assert code(lambda: add(2, f"{rig.name}-one")) == "IdempotentParameterMismatchException"
    add(1, f"{rig.name}-two")
    assert (rig.get("a") or {})["x"] == n(2)
    assert code(lambda: add(1, "t" * 37)) == VALIDATION


def test_a_token_repeats_the_answer_when_the_condition_does_not_hold_any_more(rig: Rig) -> None:
    def put() -> None:
        rig.transact(rig.putting("a", condition=NEW, x=n(1)), token=f"{rig.name}-one")

    put()
    put()
    rig.client.delete_item(**rig.place("a"))
    put()
    assert rig.get("a") is None


def test_the_token_of_a_cancelled_transaction_is_free(rig: Rig) -> None:
    rig.put("a")
    assert code(lambda: rig.transact(rig.putting("a", condition=NEW, x=n(1)), token=f"{rig.name}-one")) == CANCELLED
    rig.client.delete_item(**rig.place("a"))
    rig.transact(rig.putting("a", condition=NEW, x=n(1)), token=f"{rig.name}-one")
    assert (rig.get("a") or {})["x"] == n(1)


def test_one_transaction_wins_and_none_is_half_applied(rig: Rig) -> None:
    def claim(number: int) -> None:
        rig.transact(
            rig.putting(f"mine-{number}"),
            rig.putting("prize", condition=NEW, x=n(number)),
            rig.updating("count", "ADD x :one", ExpressionAttributeValues=values(one=1)),
        )

    outcomes = race(16, claim)
    assert outcomes[""] == 1
    winner = (rig.get("prize") or {})["x"]["N"]
    rows = [item["sk"]["S"] for item in rig.query()["Items"]]
    assert rows == ["count", f"mine-{winner}", "prize"]
    assert (rig.get("count") or {})["x"] == n(1)


def test_one_token_in_many_hands_is_applied_once(rig: Rig) -> None:
    def add(number: int) -> None:
        given = {"ExpressionAttributeValues": values(one=1)}
        rig.transact(rig.updating("a", "ADD x :one", **given), token=f"{rig.name}-same")

    assert race(16, add)[""] >= 1
    assert (rig.get("a") or {})["x"] == n(1)


def test_money_is_neither_made_nor_lost(rig: Rig) -> None:
    for account in range(4):
        rig.put(f"{account}", x=n(10))

    def move(number: int) -> None:
        source, target = number % 4, (number + 1 + number % 3) % 4
        given = {"ExpressionAttributeValues": values(a=3)}
        rig.transact(
            rig.updating(f"{source}", "SET x = x - :a", ConditionExpression="x >= :a", **given),
            rig.updating(f"{target}", "SET x = x + :a", **given),
        )

    race(16, move)
    accounts = [int(item["x"]["N"]) for item in rig.query()["Items"]]
    assert sum(accounts) == 40
    assert min(accounts) >= 0


def test_reads_of_a_transaction(rig: Rig) -> None:
    rig.put("a", x=n(1), y=n(2))
    gets = [{"Get": {**rig.place("a"), "ProjectionExpression": "x"}}, {"Get": rig.place("none")}]
    answer = rig.client.transact_get_items(TransactItems=gets)
    assert answer["Responses"] == [{"Item": {"x": n(1)}}, {}]
    assert code(lambda: rig.client.transact_get_items(TransactItems=[gets[1], gets[1]])) == VALIDATION


def test_the_stream_holds_every_change_in_order(rig: Rig) -> None:
    rig.put("a", b={"B": b"\x00\xff"})
    rig.update("a", "SET x = :x", ExpressionAttributeValues=values(x=1))
    rig.transact(*[rig.putting(name) for name in ("5", "3", "9")], {"Delete": rig.place("a")})
    seen: list[Any] = []
    for record in rig.records():
        change = record["dynamodb"]
        images = [change.get(image, {}).keys() - {"pk", "sk"} for image in ("OldImage", "NewImage")]
        seen.append((record["eventName"], change["Keys"]["sk"]["S"], *map(sorted, images)))
    assert seen == [
        ("INSERT", "a", [], ["b"]),
        ("MODIFY", "a", ["b"], ["b", "x"]),
        ("INSERT", "5", [], []),
        ("INSERT", "3", [], []),
        ("INSERT", "9", [], []),
        ("REMOVE", "a", ["b", "x"], []),
    ]
    first = rig.records()[0]["dynamodb"]
    assert first["NewImage"] == {"pk": s("V"), "sk": s("a"), "b": {"B": b"\x00\xff"}}
    assert "OldImage" not in first
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in rig.records()]
    assert numbers == sorted(set(numbers))
    assert len({record["eventID"] for record in rig.records()}) == 6


def test_what_changes_nothing_is_not_in_the_stream(rig: Rig) -> None:
    rig.put("a", x=n(1))
    rig.put("a", x=n("1.0"))
    rig.update("a", "SET x = :x", ExpressionAttributeValues=values(x=1))
    rig.update("a", "REMOVE y")
    rig.client.delete_item(**rig.place("none"))
    check = {"ConditionCheck": {**rig.place("a"), "ConditionExpression": "attribute_exists(pk)"}}
    rig.transact(check, {"Delete": rig.place("nobody")})
    code(lambda: rig.transact(rig.putting("b"), rig.putting("a", condition=NEW)))
    assert [record["eventName"] for record in rig.records()] == ["INSERT"]


def test_where_a_reader_of_the_stream_begins(rig: Rig) -> None:
    (stream,) = rig.streams.list_streams(TableName=rig.name)["Streams"]
    place = {"StreamArn": stream["StreamArn"]}
    (shard,) = rig.streams.describe_stream(**place)["StreamDescription"]["Shards"]
    place["ShardId"] = shard["ShardId"]

    def read(limit: int = 100, **where: str) -> list[str]:
        iterator = rig.streams.get_shard_iterator(**place, **where)["ShardIterator"]
        records = rig.streams.get_records(ShardIterator=iterator, Limit=limit)["Records"]
        return [record["dynamodb"]["Keys"]["sk"]["S"] for record in records]

    rig.put("a")
    latest = rig.streams.get_shard_iterator(**place, ShardIteratorType="LATEST")["ShardIterator"]
    rig.put("b")
    rig.put("c")
    assert read(ShardIteratorType="TRIM_HORIZON") == ["a", "b", "c"]
    assert read(limit=2, ShardIteratorType="TRIM_HORIZON") == ["a", "b"]
    number = rig.records()[0]["dynamodb"]["SequenceNumber"]
    assert read(ShardIteratorType="AFTER_SEQUENCE_NUMBER", SequenceNumber=number) == ["b", "c"]
    assert read(ShardIteratorType="AT_SEQUENCE_NUMBER", SequenceNumber=number) == ["a", "b", "c"]
    page = rig.streams.get_records(ShardIterator=latest, Limit=1)
    rest = rig.streams.get_records(ShardIterator=page["NextShardIterator"])
    assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in page["Records"] + rest["Records"]] == ["b", "c"]


def test_an_index_follows_a_transaction(rig: Rig) -> None:
    rig.put("a", pool=s("1"))
    more = {"ExpressionAttributeNames": names("pool")}
    rig.transact(rig.updating("a", "REMOVE #pool", **more), rig.putting("b", pool=s("0")))
    assert [item["sk"] for item in rig.query(IndexName="pool")["Items"]] == [s("b")]
