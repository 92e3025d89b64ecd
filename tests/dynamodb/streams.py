"""A table's stream, and the client that reads it: one shard that never closes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any

from tests.dynamodb.errors import Invalid, Refused
from tests.dynamodb.sizes import item_size
from tests.dynamodb.values import Item, copied_item

SHARD = "shardId-00000000000000000000-00000000"
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
MAX_RECORDS = 1000
VIEW = "NEW_AND_OLD_IMAGES"
BY_TTL = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


def arn(table: str) -> str:
    return f"arn:aws:dynamodb:us-east-1:000000000000:table/{table}/stream/{BEGINNING.isoformat()}"


@dataclass
class Stream:
    """Records in the order of their commits; the n-th has the sequence number n, padded to 24 digits."""

    table: str
    records: list[dict[str, Any]] = field(default_factory=list)

    def add(self, key: Item, old: Item | None, new: Item | None, by_ttl: bool) -> None:
        number = len(self.records) + 1
        name = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
        change: dict[str, Any] = {
            "ApproximateCreationDateTime": BEGINNING + timedelta(milliseconds=number),
            "Keys": key,
            "SequenceNumber": f"{number:024}",
            "StreamViewType": VIEW,
        }
        if new is not None:
            change["NewImage"] = new
        if old is not None:
            change["OldImage"] = old
        record: dict[str, Any] = {
            "eventID": f"{number:032x}",
            "eventName": name,
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1",
            "dynamodb": change,
        }
        if by_ttl:
            record["userIdentity"] = BY_TTL
        self.records.append(record)


class StreamsClient:
    """Stands in for ``boto3.client("dynamodbstreams")``."""

    def __init__(self, streams: Mapping[str, Stream], lock: RLock) -> None:
        self._streams, self._lock = streams, lock

    def list_streams(self, **params: Any) -> dict[str, Any]:
        names = [name for name in self._streams if params.get("TableName") in (None, name)]
        label = BEGINNING.isoformat()
        return {"Streams": [{"StreamArn": arn(name), "TableName": name, "StreamLabel": label} for name in names]}

    def describe_stream(self, **params: Any) -> dict[str, Any]:
        stream = self._stream(params["StreamArn"])
        shard = {"ShardId": SHARD, "SequenceNumberRange": {"StartingSequenceNumber": f"{1:024}"}}
        return {
            "StreamDescription": {
                "StreamArn": params["StreamArn"],
                "StreamLabel": BEGINNING.isoformat(),
                "StreamStatus": "ENABLED",
                "StreamViewType": VIEW,
                "TableName": stream.table,
                "Shards": [shard],
            }
        }

    def get_shard_iterator(self, **params: Any) -> dict[str, Any]:
        stream = self._stream(params["StreamArn"])
        if params["ShardId"] != SHARD:
            raise Refused("ResourceNotFoundException", f"no shard {params['ShardId']}").client_error("GetShardIterator")
        kind, number = params["ShardIteratorType"], params.get("SequenceNumber")
        with self._lock:
            if kind == "TRIM_HORIZON":
                position = 0
            elif kind == "LATEST":
                position = len(stream.records)
            elif kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER") and number:
                position = int(number) - (kind == "AT_SEQUENCE_NUMBER")
            else:
                raise Invalid(f"ShardIteratorType {kind}").client_error("GetShardIterator")
        return {"ShardIterator": f"{params['StreamArn']}|{position}"}

    def get_records(self, **params: Any) -> dict[str, Any]:
        name, _, position = params["ShardIterator"].rpartition("|")
        stream = self._stream(name)
        start = int(position)
        with self._lock:
            records = [_copied(record) for record in stream.records[start : start + params.get("Limit", MAX_RECORDS)]]
        return {"Records": records, "NextShardIterator": f"{name}|{start + len(records)}"}

    def _stream(self, name: str) -> Stream:
        for table, stream in self._streams.items():
            if arn(table) == name:
                return stream
        raise Refused("ResourceNotFoundException", f"Requested resource not found: {name}").client_error("Streams")


def _copied(record: Mapping[str, Any]) -> dict[str, Any]:
    change = dict(record["dynamodb"])
    change["SizeBytes"] = 0
    for image in ("Keys", "NewImage", "OldImage"):
        if image in change:
            change[image] = copied_item(change[image])
            change["SizeBytes"] += item_size(change[image])
    return {**record, "dynamodb": change}
