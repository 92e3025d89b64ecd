"""Reading the change stream: shards, places that were lost, and records that are no rows."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from shared.adapters.dynamodb.stream import Delivered, StreamFeed
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef
from tests.contract.dynamodb_rig import DynamoRig
from tests.contract.rows import NOW, Maker, consolidate, ids_of, take

VAULT = VaultRef("v1", 1)


def row(number: int, kind: str = "INSERT", memory_id: str | None = None, partition: str = "V#v1#1") -> dict[str, Any]:
    keys = {"pk": {"S": partition}, "sk": {"S": f"M#{memory_id or number}"}}
    return {"eventName": kind, "dynamodb": {"Keys": keys, "SequenceNumber": str(number)}}


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}}, "GetRecords")


class Streams:
    """Shards by name; an iterator is ``<shard>:<place>``. `failures` are raised by the next reads, one each."""

    def __init__(self, **shards: list[dict[str, Any]]) -> None:
        self.shards = shards
        self.closed: set[str] = set()
        self.failures: list[Exception] = []
        self.asked: list[str] = []

    def list_streams(self, **request: Any) -> dict[str, Any]:
        return {"Streams": [{"StreamArn": f"arn:{request['TableName']}"}]}

    def describe_stream(self, **request: Any) -> dict[str, Any]:
        shard, *more = [name for name in self.shards if name > request.get("ExclusiveStartShardId", "")]
        rest = {"LastEvaluatedShardId": shard} if more else {}
        return {"StreamDescription": {"Shards": [{"ShardId": shard}], **rest}}

    def get_shard_iterator(self, **request: Any) -> dict[str, Any]:
        shard, place = request["ShardId"], 0
        if request["ShardIteratorType"] == "AFTER_SEQUENCE_NUMBER":
            numbers = [each["dynamodb"]["SequenceNumber"] for each in self.shards[shard]]
            place = numbers.index(request["SequenceNumber"]) + 1
        return {"ShardIterator": f"{shard}:{place}"}

    def get_records(self, **request: Any) -> dict[str, Any]:
        if self.failures:
            raise self.failures.pop(0)
        self.asked.append(request["ShardIterator"])
        shard, _, place = request["ShardIterator"].partition(":")
        records = self.shards[shard][int(place) : int(place) + 2]
        following = f"{shard}:{int(place) + len(records)}"
        return {"Records": records} | ({} if shard in self.closed and not records else {"NextShardIterator": following})


def seen(feed: StreamFeed, vault: VaultRef = VAULT) -> list[str]:
    return [change.memory_id for change in feed.pending(vault, 100)]


def test_all_shards_are_read_and_closed_ones_once() -> None:
    streams = Streams(a=[row(1), row(2), row(3)], b=[row(4)])
    streams.closed.add("a")
    feed = StreamFeed(streams, "t")
    assert seen(feed) == ["1", "2", "3", "4"]
    streams.shards["b"].append(row(5))
    streams.shards["c"] = [row(6)]
    streams.asked.clear()
    assert seen(feed) == ["1", "2", "3", "4", "5", "6"]
    assert {name.partition(":")[0] for name in streams.asked} == {"b", "c"}


@pytest.mark.parametrize("code", ["ExpiredIteratorException", "TrimmedDataAccessException"])
def test_a_place_that_was_lost_is_found_again(code: str) -> None:
    streams = Streams(a=[row(1), row(2)])
    feed = StreamFeed(streams, "t")
    assert seen(feed) == ["1", "2"]
    feed.acknowledge(VAULT, feed.pending(VAULT, 1))
    if code == "TrimmedDataAccessException":
        del streams.shards["a"][:2]
    streams.shards["a"].append(row(3))
    streams.failures.append(error(code))
    assert seen(feed) == ["2", "3"]


@pytest.mark.parametrize("failure", [error("AccessDeniedException"), EndpointConnectionError(endpoint_url="http://x")])
def test_a_stream_that_does_not_answer_is_unavailable(failure: Exception) -> None:
    streams = Streams(a=[row(1)])
    streams.failures.append(failure)
    feed = StreamFeed(streams, "t")
    with pytest.raises(Unavailable) as raised:
        feed.pending(VAULT, 1)
    assert raised.value.retry_after
    assert seen(feed) == ["1"]


def test_a_row_that_only_changes_is_no_change_for_an_index() -> None:
    feed = StreamFeed(Streams(a=[row(1), row(2, "MODIFY", "1"), row(3, "REMOVE", "1")]), "t")
    assert [(change.seq, change.memory_id) for change in feed.pending(VAULT, 9)] == [(1, "1"), (3, "1")]


def test_items_outside_of_contents_are_passed_over() -> None:
    feed = StreamFeed(Streams(a=[row(1, partition="U#k"), row(2, partition="K#h"), row(3, partition="V#v1")]), "t")
    assert feed.waiting() == ()


def test_a_content_that_was_dropped_has_no_changes_left() -> None:
    rig, make = DynamoRig.in_memory(), Maker()
    vault = rig.new_vault()
    rig.store.append(vault, make.raws(3), None, NOW)
    fresh = rig.dropped(vault)
    rig.store.append(fresh, make.raws(1), None, NOW)
    assert rig.feed.waiting() == (fresh,)
    rig.restart()
    assert rig.feed.waiting() == (fresh,)
    assert rig.feed.pending(vault, 9) == ()


def test_records_that_somebody_has_to_look_at_come_once() -> None:
    rig, make = DynamoRig.in_memory(), Maker()
    vault = rig.new_vault()
    rig.store.append(vault, make.raws(150), None, NOW)
    batch = take(rig.store, vault, make).batch
    rig.store.commit(vault, batch.id, make.entries(5), NOW)
    rig.directory.next_epoch(vault.vault_id, unbind=False)
    sorts = [record["dynamodb"]["Keys"]["sk"]["S"] for record in rig.feed.others()]
    assert {sort[:2] for sort in sorts} == {"A#", "B#", "V"}
    assert f"B#{batch.id}" in sorts
    assert not [sort for sort in sorts if sort.endswith("#S0")]
    assert rig.feed.others() == ()


def test_where_the_stream_calls_the_indexer_nothing_is_drained() -> None:
    feed = Delivered()
    feed.note(VAULT)
    assert feed.touched() == ()
    assert feed.pending(VAULT, 9) == ()
    feed.acknowledge(VAULT, ())


def test_a_feed_of_a_table_without_a_stream_is_empty() -> None:
    class NoStreams(Streams):
        def list_streams(self, **request: Any) -> dict[str, Any]:
            return {"Streams": []}

    assert seen(StreamFeed(NoStreams(), "t")) == []


def test_changes_keep_the_order_of_their_writes() -> None:
    rig, make = DynamoRig.in_memory(), Maker()
    vault = rig.new_vault()
    rows = make.raws(20)
    for each in rows:
        rig.store.append(vault, [each], None, NOW)
    committed = consolidate(rig.store, vault, make)
    assert seen(rig.feed, vault) == [*ids_of(rows), committed.created[0].id]
