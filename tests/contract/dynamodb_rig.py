"""The DynamoDB back end on a table of its own: in memory, or on ministack."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

from shared.adapters.dynamodb.directory import DynamoDirectory
from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.dynamodb.store import DynamoStore
from shared.adapters.dynamodb.stream import StreamFeed
from shared.adapters.dynamodb.table import Patience, Table
from shared.adapters.dynamodb.usage import DynamoUsage
from tests.contract.vaults import Vaults
from tests.dynamodb.table import MemoryTable
from tests.emulator.ministack import Ministack

_numbers = count(1)


@cache
def _client(stack: Ministack, service: str) -> Any:
    return stack.client(service)


class DynamoRig(Vaults):
    """`client` and `streams` are boto3's low-level clients, or what stands in for them."""

    directory: DynamoDirectory
    store: DynamoStore

    def __init__(self, client: Any, streams: Any) -> None:
        self.client, self._streams = client, streams
        self.name = f"contract-{next(_numbers)}"
        self._numbers = count(1)
        client.create_table(TableName=self.name, **SCHEMA)
        self._start()

    @classmethod
    def in_memory(cls) -> DynamoRig:
        table = MemoryTable()
        return cls(table, table.streams())

    @classmethod
    def on_ministack(cls, stack: Ministack) -> DynamoRig:
        return cls(_client(stack, "dynamodb"), _client(stack, "dynamodbstreams"))

    def _start(self) -> None:
        self.table = self.table_named(self.name)
        self.directory = DynamoDirectory(self.table)
        self.usage = DynamoUsage(self.table)
        self.feed = StreamFeed(self._streams, self.name)
        self.store = DynamoStore(self.table, self.feed.note, self.directory.purged)

    def table_named(self, name: str) -> Table:
        # A batch of ten thousand rows takes the stand-ins longer than a verb may take on AWS.
        return Table(self.client, name, rounds=Patience(120))

    def restart(self) -> None:
        self._start()

    def close(self) -> None:
        if not isinstance(self.client, MemoryTable):
            self.client.delete_table(TableName=self.name)
