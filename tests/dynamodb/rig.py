"""One table with three local indexes, seen through the low-level clients, whoever answers them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Barrier, Thread
from typing import Any

from botocore.exceptions import ClientError

from tests.dynamodb.streams import VIEW
from tests.dynamodb.table import MemoryTable
from tests.emulator.ministack import Ministack

Item = dict[str, Any]
KEYS = ("pk", "sk", "pool", "when", "turn")


def s(text: str) -> Any:
    return {"S": text}


def n(number: int | str) -> Any:
    return {"N": str(number)}


def values(**given: Any) -> Any:
    """``values(x=1)`` → ``{":x": {"N": "1"}}``; text becomes S, what is a dict already stays."""
    return {
        f":{name}": each if isinstance(each, dict) else s(each) if isinstance(each, str) else n(each)
        for name, each in given.items()
    }


def names(*attributes: str) -> Any:
    """``names("pool")`` → ``{"#pool": "pool"}``."""
    return {f"#{name}": name for name in attributes}


def _index(name: str, sort: str, attributes: Sequence[str] = ()) -> dict[str, Any]:
    kind = {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(attributes)}
    return {
        "IndexName": name,
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}],
        "Projection": kind if attributes else {"ProjectionType": "KEYS_ONLY"},
    }


def definition(name: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in KEYS],
        "LocalSecondaryIndexes": [
            _index("pool", "pool", ("k", "i")),
            _index("timeline", "when", ("i", "cf")),
            _index("session", "turn"),
        ],
        "BillingMode": "PAY_PER_REQUEST",
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": VIEW},
    }


@dataclass(frozen=True)
class Rig:
    client: Any
    streams: Any
    name: str

    def put(self, sk: str, pk: str = "V", **attributes: Any) -> None:
        self.client.put_item(TableName=self.name, Item={"pk": s(pk), "sk": s(sk), **attributes})

    def get(self, sk: str, pk: str = "V") -> Item | None:
        key = {"pk": s(pk), "sk": s(sk)}
        item: Item | None = self.client.get_item(TableName=self.name, Key=key, ConsistentRead=True).get("Item")
        return item

    def update(self, sk: str, expression: str, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.update_item(**self.place(sk), UpdateExpression=expression, **more)
        return answer

    def query(self, pk: str = "V", condition: str = "", given: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """`condition` is on the sort key, which is called ``#sort`` in an index."""
        both = f"pk = :pk AND {condition}" if condition else "pk = :pk"
        bound = {":pk": s(pk), **(given or {})}
        return self.client.query(
            TableName=self.name,
            KeyConditionExpression=both,
            ExpressionAttributeValues=bound,
            ConsistentRead=True,
            **more,
        )

    def pages(self, **more: Any) -> Iterator[Any]:
        start: dict[str, Any] = {}
        while True:
            page = self.query(**more, **start)
            yield page
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def place(self, sk: str, pk: str = "V") -> dict[str, Any]:
        return {"TableName": self.name, "Key": {"pk": s(pk), "sk": s(sk)}}

    def putting(self, sk: str, pk: str = "V", condition: Mapping[str, Any] | None = None, **attributes: Any) -> Any:
        """An action of a transaction."""
        item = {"pk": s(pk), "sk": s(sk), **attributes}
        return {"Put": {"TableName": self.name, "Item": item, **(condition or {})}}

    def updating(self, sk: str, expression: str, pk: str = "V", **more: Any) -> Any:
        return {"Update": {**self.place(sk, pk), "UpdateExpression": expression, **more}}

    def transact(self, *actions: Any, token: str = "") -> None:
        more = {"ClientRequestToken": token} if token else {}
        self.client.transact_write_items(TransactItems=list(actions), **more)

    def position(self, kind: str = "LATEST") -> str:
        """An iterator of this table's stream."""
        (stream,) = self.streams.list_streams(TableName=self.name)["Streams"]
        arn = stream["StreamArn"]
        (shard,) = self.streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        place = {"StreamArn": arn, "ShardId": shard["ShardId"]}
        iterator: str = self.streams.get_shard_iterator(**place, ShardIteratorType=kind)["ShardIterator"]
        return iterator

    def records(self, position: str = "") -> list[dict[str, Any]]:
        """The stream of this table from there on, or all of it."""
        iterator = position or self.position("TRIM_HORIZON")
        found: list[dict[str, Any]] = []
        while records := (answer := self.streams.get_records(ShardIterator=iterator))["Records"]:
            found += records
            iterator = answer["NextShardIterator"]
        return found


def memory_rig(name: str = "strata") -> Rig:
    table = MemoryTable()
    table.create_table(**definition(name))
    return Rig(table, table.streams(), name)


def ministack_rig(stack: Ministack, name: str) -> Rig:
    client = _client(stack, "dynamodb")
    client.create_table(**definition(name))
    return Rig(client, _client(stack, "dynamodbstreams"), name)


@cache
def _client(stack: Ministack, service: str) -> Any:
    return stack.client(service)


def refusal(call: Callable[[], object]) -> Any:
    """The error response of a call that has to be refused."""
    try:
        call()
    except ClientError as error:
        return error.response
    raise AssertionError("was accepted")


def code(call: Callable[[], object]) -> str:
    """The error code of a call, "" when it is accepted."""
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def race(workers: int, body: Callable[[int], object]) -> Counter[str]:
    """All at once, each in a thread of its own; how often which code was the outcome."""
    outcomes: list[str] = []
    barrier = Barrier(workers)

    def work(number: int) -> None:
        barrier.wait()
        outcomes.append(code(lambda: body(number)))

    threads = [Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(outcomes)
