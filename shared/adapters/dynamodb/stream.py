"""The table's change stream as a change feed.

On AWS the stream calls the indexer itself, and nothing is drained: `Delivered`. Where no such thing runs, `StreamFeed`
reads the stream and hands the changes out vault by vault.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from shared.adapters.dynamodb.counters import DROPPED
from shared.adapters.dynamodb.values import Wire
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef
from shared.ports.store import Change

EXPIRED, TRIMMED = "ExpiredIteratorException", "TrimmedDataAccessException"
MAX_OTHERS = 10_000


class StreamsClient(Protocol):
    """The requests of boto3's low-level ``dynamodbstreams`` client that the feed makes."""

    def list_streams(self, **request: Any) -> Wire: ...
    def describe_stream(self, **request: Any) -> Wire: ...
    def get_shard_iterator(self, **request: Any) -> Wire: ...
    def get_records(self, **request: Any) -> Wire: ...


class Touched:
    """Contents that a thread changed since it last asked."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def note(self, vault: VaultRef) -> None:
        self._thread.__dict__.setdefault("touched", {})[vault] = None

    def touched(self) -> tuple[VaultRef, ...]:
        touched: dict[VaultRef, None] = self._thread.__dict__.pop("touched", {})
        return tuple(touched)


class Delivered:
    """`shared.ports.store.ChangeFeed` where the stream itself calls the indexer: there is nothing to drain."""

    def note(self, vault: VaultRef) -> None:
        pass

    def pending(self, vault: VaultRef, limit: int) -> tuple[Change, ...]:
        return ()

    def acknowledge(self, vault: VaultRef, changes: Sequence[Change]) -> None:
        pass

    def touched(self) -> tuple[VaultRef, ...]:
        return ()


class StreamFeed(Touched):
    """`shared.ports.store.ChangeFeed` for a single process: reads the stream from its beginning and keeps its place.

    What was not acknowledged is handed out again, after a restart everything that the stream still holds.
    """

    def __init__(self, client: StreamsClient, table_name: str) -> None:
        super().__init__()
        self._client = client
        self._table_name = table_name
        self._lock = threading.Lock()
        self._arn = ""
        # By shard: the next iterator (None at the shard's end), and the number of the last record read.
        self._iterators: dict[str, str | None] = {}
        self._read: dict[str, str] = {}
        self._changes: dict[VaultRef, dict[int, Change]] = {}
        self._dropped: set[VaultRef] = set()
        self._others: deque[Wire] = deque(maxlen=MAX_OTHERS)

    def pending(self, vault: VaultRef, limit: int) -> tuple[Change, ...]:
        with self._lock:
            self._pump()
            return tuple(sorted(self._changes.get(vault, {}).values(), key=lambda change: change.seq)[:limit])

    def acknowledge(self, vault: VaultRef, changes: Sequence[Change]) -> None:
        with self._lock:
            waiting = self._changes.get(vault, {})
            for change in changes:
                waiting.pop(change.seq, None)
            if not waiting:
                self._changes.pop(vault, None)

    def waiting(self) -> tuple[VaultRef, ...]:
        """Contents with changes that nobody acknowledged."""
        with self._lock:
            self._pump()
            return tuple(self._changes)

    def others(self) -> tuple[Wire, ...]:
        """Records of the stream, since the last call, of items that are no memories and that somebody has to look at:
        headers, large writes, vaults."""
        with self._lock:
            self._pump()
            records = tuple(self._others)
            self._others.clear()
        return records

    def _pump(self) -> None:
        """Take in what the stream holds now."""
        try:
            for record in self._records():
                self._take(record)
        except (BotoCoreError, ClientError) as error:
            raise Unavailable(
                "The change stream of the table does not answer.",
                code="storage_unavailable",
                hint="Send the request again.",
                retry_after=2,
            ) from error

    def _take(self, record: Wire) -> None:
        change, kind = record["dynamodb"], record["eventName"]
        partition, sort = change["Keys"]["pk"]["S"], change["Keys"]["sk"]["S"]
        vault_id, _, epoch = partition.removeprefix("V#").rpartition("#")
        if not partition.startswith("V#"):
            return
        if sort == "V" or (sort[:2] in ("A#", "B#") and not sort.endswith("#S0")):
            if kind != "REMOVE":
                self._others.append(record)
            return
        if not vault_id:
            return
        vault = VaultRef(vault_id, int(epoch))
        if sort.startswith("M#") and kind != "MODIFY" and vault not in self._dropped:
            number = int(change["SequenceNumber"])
            self._changes.setdefault(vault, {})[number] = Change(number, sort.removeprefix("M#"))
        elif sort == "D" and change.get("NewImage", {}).get("sealed") == {"N": str(DROPPED)}:
            # Nobody asks for the index of a content that is gone.
            self._dropped.add(vault)
            self._changes.pop(vault, None)

    def _records(self) -> Iterator[Wire]:
        for shard in self._shards():
            if shard not in self._iterators:
                self._iterators[shard] = self._begin(shard)
            while (iterator := self._iterators[shard]) is not None:
                try:
                    answer = self._client.get_records(ShardIterator=iterator)
                except ClientError as error:
                    code = error.response.get("Error", {}).get("Code")
                    if code not in (EXPIRED, TRIMMED):
                        raise
                    if code == TRIMMED:
                        self._read.pop(shard, None)
                    self._iterators[shard] = self._begin(shard)
                    continue
                for record in answer["Records"]:
                    self._read[shard] = record["dynamodb"]["SequenceNumber"]
                    yield record
                self._iterators[shard] = answer.get("NextShardIterator")
                if not answer["Records"]:
                    break

    def _shards(self) -> list[str]:
        """Ids of all shards, parents before their children."""
        if not self._arn:
            streams = self._client.list_streams(TableName=self._table_name)["Streams"]
            if not streams:
                return []
            self._arn = streams[-1]["StreamArn"]
        shards: list[str] = []
        request: Wire = {"StreamArn": self._arn}
        while True:
            description = self._client.describe_stream(**request)["StreamDescription"]
            shards += [shard["ShardId"] for shard in description["Shards"]]
            if "LastEvaluatedShardId" not in description:
                return shards
            request["ExclusiveStartShardId"] = description["LastEvaluatedShardId"]

    def _begin(self, shard: str) -> str:
        """An iterator behind the last record read, or at the shard's beginning."""
        request: Wire = {"StreamArn": self._arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        if shard in self._read:
            request |= {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._read[shard]}
        return str(self._client.get_shard_iterator(**request)["ShardIterator"])
