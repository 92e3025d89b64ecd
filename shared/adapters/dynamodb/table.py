"""Requests to the table: sent again while that can help, and answered by our own errors when it cannot."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from shared.adapters.dynamodb.refusals import BUSY, busy, failed_conditions, refusal, undone, unreachable
from shared.adapters.dynamodb.values import Item, Key, Wire, from_item, key_of, named, valued

MAX_OPERATIONS = 100
MAX_KEYS = 100
MAX_DELETES = 25
MAX_SORT_KEY_BYTES = 1024
REQUEST_SECONDS, VERB_SECONDS = 5.0, 14.0
"""How long one request, and one verb that lost a race, is tried again. Together they end within 20 s."""
FIRST_PAUSE, LONGEST_PAUSE = 0.025, 1.0
FIRST_TRIES, LONGEST_TRIES, UTMOST_PAUSE = 4, 8, 12.0
"""What a slow try makes of them: so many times as long, up to the utmost."""


class Client(Protocol):
    """The requests of boto3's low-level ``dynamodb`` client that this adapter makes."""

    def get_item(self, **request: Any) -> Wire: ...
    def batch_get_item(self, **request: Any) -> Wire: ...
    def query(self, **request: Any) -> Wire: ...
    def put_item(self, **request: Any) -> Wire: ...
    def update_item(self, **request: Any) -> Wire: ...
    def batch_write_item(self, **request: Any) -> Wire: ...
    def transact_write_items(self, **request: Any) -> Wire: ...


class ConditionFailed(Exception):
    """A write found the table otherwise than it demanded, and nothing was changed.

    `places` are the operations that failed, `items` what a failed put found in its place.
    """

    def __init__(self, places: Sequence[int], items: dict[int, Item]) -> None:
        super().__init__(f"conditions {list(places)} failed")
        self.places = frozenset(places)
        self.items = items


@dataclass(frozen=True, slots=True)
class Patience:
    """Pauses between tries, of growing random length, as long as a further try would end within `seconds`."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random

    took: Callable[[], float] = lambda: 0.0

    def pauses(self) -> Iterator[None]:
        """`took` tells how long the slowest try took: many who wait for each other slow each other down."""
        end, growth = self.clock() + self.seconds, 1
        while True:
            slow = self.took()
            longest = max(LONGEST_PAUSE, min(LONGEST_TRIES * slow, UTMOST_PAUSE))
            pause = self.draw() * min(growth * max(FIRST_PAUSE, FIRST_TRIES * slow), longest)
            if self.clock() + pause + slow > end:
                return
            self.sleep(pause)
            yield
            growth *= 2


def _token() -> str:
    return uuid.uuid4().hex


class Table:
    """One table. Reads are consistent. Every method raises `Unavailable` (``busy``, ``storage_unavailable``)."""

    def __init__(
        self,
        client: Client,
        name: str,
        requests: Patience | None = None,
        rounds: Patience | None = None,
        token: Callable[[], str] = _token,
    ) -> None:
        """`requests` bounds the tries of one request, `rounds` those of a verb; `token` draws transactions' names."""
        self.name = name
        self._client = client
        self._requests = requests or Patience(REQUEST_SECONDS)
        self._rounds = rounds or Patience(VERB_SECONDS)
        self._token = token
        self._verb = threading.local()

    def rounds(self) -> Iterator[int]:
        """Tries of a verb that may lose a race: the first at once, others after pauses. Raises ``busy`` at the end.

        What a verb does within a round, rounds of its own included, ends when the verb's time does.
        """
        outer, clock = self._ends(), self._rounds.clock
        began, slowest = clock(), 0.0
        self._verb.ends = began + self._rounds.seconds if outer is None else outer

        def took() -> float:
            nonlocal slowest
            slowest = max(slowest, clock() - began)
            return slowest

        try:
            yield 0
            for number, _ in enumerate(replace(self._patience(BUSY), took=took).pauses(), 1):
                began = clock()
                yield number
        finally:
            self._verb.ends = outer
        raise busy()

    def _ends(self) -> float | None:
        """When the verb that the calling thread is in has to end."""
        ends: float | None = getattr(self._verb, "ends", None)
        return ends

    def get(self, key: Key) -> Item | None:
        if not _can_be(key):
            return None
        item = self._send("get_item", Key=key_of(key), ConsistentRead=True).get("Item")
        return None if item is None else from_item(item)

    def get_all(self, keys: Sequence[Key], attributes: Sequence[str] = ()) -> dict[str, Item]:
        """The items of one partition that exist, by sort key; only `attributes` of them, if any are named."""
        found: dict[str, Item] = {}
        wanted = [key_of(key) for key in dict.fromkeys(keys) if _can_be(key)]
        projection: Wire = {}
        if attributes:
            expression = ", ".join(f"#{name}" for name in ("sk", *attributes))
            projection = {"ProjectionExpression": expression, **named({}, expression)}
        pauses: Iterator[None] | None = None
        while wanted:
            asked, wanted = wanted[:MAX_KEYS], wanted[MAX_KEYS:]
            answer = self._call(
                "batch_get_item", RequestItems={self.name: {"Keys": asked, "ConsistentRead": True, **projection}}
            )
            for item in answer["Responses"].get(self.name, ()):
                found[item["sk"]["S"]] = from_item(item)
            left = answer.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
            if left:
                # Part of an answer means "too much at once", not "slow down", unless nothing came at all.
                pauses = self._pause(pauses) if len(left) == len(asked) else None
                wanted = left + wanted
        return found

    def query(
        self,
        partition: str,
        index: str | None = None,
        *,
        low: str = "",
        high: str = "",
        forward: bool = True,
        limit: int | None = None,
        attributes: Sequence[str] = (),
        only: str = "",
        **values: object,
    ) -> Iterator[Item]:
        """Items of a partition in the order of the index, with a sort key from `low` to `high`, both included.

        `limit` is the size of a page, not of the answer; `only` is a filter with its `values`.
        """
        sort = index_key(index)
        condition = f"#pk = :pk AND #{sort} BETWEEN :low AND :high"
        projected = ", ".join(f"#{name}" for name in attributes)
        request: Wire = {
            "KeyConditionExpression": condition,
            "ConsistentRead": True,
            "ScanIndexForward": forward,
            **named({}, condition, projected, only),
            **valued({"pk": partition, "low": low or "\x00", "high": high or "\U0010ffff", **values}),
        }
        request |= {"IndexName": index} if index else {}
        request |= {"ProjectionExpression": projected} if projected else {}
        request |= {"FilterExpression": only} if only else {}
        request |= {"Limit": limit} if limit else {}
        while True:
            answer = self._send("query", **request)
            yield from map(from_item, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def transact(self, operations: Sequence[Wire], *, insist: bool = True) -> None:
        """Do all of it or nothing. A lost answer is asked for again under the same name, so nothing is done twice.

        Who meets another transaction tries again; without `insist`, that counts as a failed condition.
        """
        assert len(operations) <= MAX_OPERATIONS, "a transaction holds at most 100 operations"
        items = [{kind: {"TableName": self.name, **request}} for each in operations for kind, request in each.items()]
        self._call("transact_write_items", insist, TransactItems=items, ClientRequestToken=self._token())

    def write(self, operation: Wire) -> Item | None:
        """A single write of its own; returns the item as it then is. Must be safe to repeat."""
        ((kind, request),) = operation.items()
        if kind == "Put":
            self._send("put_item", **request)
            return None
        answer = self._send("update_item", **request, ReturnValues="ALL_NEW")
        return from_item(answer.get("Attributes", {}))

    def add(self, operation: Wire, *, returned: bool = False) -> Item:
        """A single update that is not safe to repeat: done at most once, even where this raises.

        Returns the item as it then is where that is to be `returned`.
        """
        request = {**operation["Update"], **({"ReturnValues": "ALL_NEW"} if returned else {})}
        answer = self._call("update_item", at_most_once=True, TableName=self.name, **request)
        return from_item(answer.get("Attributes", {}))

    def delete_all(self, keys: Sequence[Key]) -> None:
        """Remove items without conditions; those that are gone already are no failure."""
        iterator = iter(keys)
        while chunk := list(islice(iterator, MAX_DELETES)):
            pauses: Iterator[None] | None = None
            wanted = [{"DeleteRequest": {"Key": key_of(key)}} for key in chunk]
            while wanted:
                answer = self._call("batch_write_item", RequestItems={self.name: wanted})
                wanted = answer.get("UnprocessedItems", {}).get(self.name, [])
                if wanted:
                    pauses = self._pause(pauses)

    def _pause(self, pauses: Iterator[None] | None) -> Iterator[None]:
        running = self._requests.pauses() if pauses is None else pauses
        if next(running, running) is running:
            raise busy()
        return running

    def _send(self, operation: str, **request: Any) -> Wire:
        return self._call(operation, TableName=self.name, **request)

    def _call(self, operation: str, insist: bool = True, at_most_once: bool = False, **request: Any) -> Wire:
        pauses: dict[str, Iterator[None]] = {}
        while True:
            try:
                answer: Wire = getattr(self._client, operation)(**request)
                return answer
            except ClientError as error:
                failed = failed_conditions(error, insist)
                if failed is not None:
                    raise ConditionFailed(*failed) from error
                failure, certain = refusal(error), undone(error)
            except BotoCoreError as error:
                failure, certain = unreachable(error), undone(error)
            if at_most_once and not certain:
                raise failure
            # It may have been carried out: all other writes are named or safe to repeat.
            running = pauses.setdefault(failure.code, self._patience(failure.code).pauses())
            if next(running, failure) is failure:
                raise failure

    def _patience(self, code: str) -> Patience:
        """Who is only in the way of others goes on for as long as the verb may take."""
        ends = self._ends() if code == BUSY else None
        return self._requests if ends is None else replace(self._rounds, seconds=ends - self._rounds.clock())


def _can_be(key: Key) -> bool:
    """Whether an item can have the key: a client may ask for any name."""
    return len(key[1].encode("utf-8", "surrogatepass")) <= MAX_SORT_KEY_BYTES


def index_key(index: str | None) -> str:
    """The sort key's attribute; an index and its key have one name, but for the table's own."""
    return index or "sk"
