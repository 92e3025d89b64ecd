"""The deployed functions in one process, on a table and a search store in memory: what each request costs is counted.

Handlers, shell, use cases and adapters are the deployed ones. Clock, names and slices are fixed, so that two runs count
the same; item sizes depend on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from functions.indexer.handler import handler as indexer
from infra.local.gateway import Gateway
from shared import bootstrap
from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.dynamodb.usage import DynamoUsage
from shared.adapters.opensearch.index import OpenSearchIndex
from shared.adapters.opensearch.transport import Transport
from shared.domain import keys
from shared.ports.directory import KeyRecord
from shared.ports.embedder import Vectors
from shared.settings import AWS, BEDROCK_MODELS, Settings
from shared.usecases.services import Services
from tests.bench.search_stand_in import SearchStandIn
from tests.contract.rows import uuid7
from tests.dynamodb.log import total
from tests.dynamodb.table import MemoryTable

TABLE = "strata"
KEY = "mk_0123456789abcdef0123456789abcdef"
START_MS = 1_770_123_456_789
STREAM_BATCH = 100
"""Records that one call of the indexer takes at most."""
BYTES_A_TOKEN = 4


def delivered(record: Mapping[str, Any]) -> bool:
    """Whether the indexer is called for a record of the stream: rows that come or go, batches, large writes, vaults."""
    sort, kind = str(record["dynamodb"]["Keys"]["sk"]["S"]), str(record["eventName"])
    if sort.startswith("M#"):
        return kind != "MODIFY"
    return kind != "REMOVE" and (sort == "V" or sort.startswith(("B#", "A#")))


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = START_MS

    def now_ms(self) -> int:
        return self.now


class Names:
    """Names as long as the deployed ones, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._numbers = clock, count(1)

    def memory_ids(self, count: int) -> list[str]:
        now = self._clock.now
        return [f"{now >> 16:08x}-{now & 0xFFFF:04x}-7{uuid7(next(self._numbers))[15:]}" for _ in range(count)]

    def batch_id(self) -> str:
        return f"cb_{next(self._numbers):032x}"

    def vault_id(self) -> str:
        return uuid7(next(self._numbers))

    def key(self) -> str:
        return f"mk_{next(self._numbers):032x}"


class CountingEmbedder:
    """Counts what a model would be asked; vectors are short, which no request to the table notices."""

    name = BEDROCK_MODELS[0]
    dimension = 8
    noise = 0.3
    nearness = 0.5

    def __init__(self) -> None:
        self.texts = 0
        self.tokens = 0

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        self.texts += 1
        self.tokens += -(-len(text.encode()) // BYTES_A_TOKEN)
        vector = np.ones(self.dimension, np.float32)
        vector[self.texts % self.dimension] = 2.0
        unit: npt.NDArray[np.float32] = vector / np.linalg.norm(vector)
        return unit

    def ready(self) -> bool:
        return True

    def load(self) -> None:
        return


@dataclass(frozen=True)
class Count:
    """What a request, or the indexing that followed it, asked of every service."""

    calls: int
    table_requests: int
    read_units: float
    write_units: int
    items_written: int
    searches: int
    search_reads: int
    search_writes: int
    documents: int
    embedded_texts: int
    embedded_tokens: int
    request_bytes: int = 0
    answer_bytes: int = 0


class Deployed:
    """One vault, its owner's key, and everything that serves it."""

    def __init__(
        self,
        client: Callable[[MemoryTable], Any] = lambda memory: memory,
        transport: Callable[[SearchStandIn], Transport] = lambda store: store,
        embedder: CountingEmbedder | None = None,
        service: str | None = None,
    ) -> None:
        """`client` makes what asks the table, `transport` what asks the search store; with a `service` the functions
        log as they do under that name.
        """
        self.memory = MemoryTable()
        self.memory.create_table(TableName=TABLE, **SCHEMA)
        self.search = SearchStandIn()
        self.embedder = embedder or CountingEmbedder()
        self.clock = Clock()
        settings = Settings(
            backend=AWS,
            table=TABLE,
            search_url="https://search",
            embedder=self.embedder.name,
            auto_provision_keys=False,
            service=service,
        )
        asked = client(self.memory)
        backend = bootstrap.Aws(settings, connect=lambda name: asked, embedders={self.embedder.name: self.embedder})
        slices = cycle(place / 8 for place in range(8))
        self.services: Services = replace(
            backend.services,
            index=OpenSearchIndex(
                transport(self.search), backend.store, backend.model, self.clock.now_ms, refresh=False
            ),
            clock=self.clock,
            ids=Names(self.clock),
            usage=DynamoUsage(backend.table, lambda: next(slices)),
        )
        vault_id = self.services.ids.vault_id()
        self.services.directory.add(
            KeyRecord(
                self.services.ids.vault_id(), keys.hash_key(KEY), vault_id, "agent", keys.SCOPES, START_MS,
                last_used_ms=START_MS,
            )
        )  # fmt: skip
        self._gateway = Gateway(self.services)
        self._streams = self.memory.streams()
        (stream,) = self._streams.list_streams(TableName=TABLE)["Streams"]
        (shard,) = self._streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
        self._iterator = self._streams.get_shard_iterator(
            StreamArn=stream["StreamArn"], ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]

    def close(self) -> None:
        pass

    def call(self, method: str, path: str, body: object = None, lines: bool = False) -> tuple[Any, Count]:
        """The answer to a request, which must succeed, and what it cost until the answer."""
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "application/x-ndjson" if lines else "application/json"
        before = self._marks()
        path, _, query = path.partition("?")
        response = self._gateway.handle(method, path, query, [("X-Memory-Key", KEY), ("Content-Type", kind)], raw)
        assert response.status < 300, response.body
        counted = replace(self._since(before, 1), request_bytes=len(raw), answer_bytes=len(response.body))
        return json.loads(response.body), counted

    def follow(self) -> Count:
        """Hand to the indexer what the stream holds by now, as the stream would; what that cost."""
        before = self._marks()
        calls = 0
        while records := [each for each in self._records() if delivered(each)]:
            for first in range(0, len(records), STREAM_BATCH):
                calls += 1
                reply = indexer({"Records": records[first : first + STREAM_BATCH]})
                assert reply == {"batchItemFailures": []}, reply
        return self._since(before, calls)

    def _records(self) -> Iterator[Mapping[str, Any]]:
        while True:
            answer = self._streams.get_records(ShardIterator=self._iterator)
            self._iterator = answer["NextShardIterator"]
            if not answer["Records"]:
                return
            yield from answer["Records"]

    def _marks(self) -> dict[str, int]:
        asked = self.search.requests
        return {
            "log": len(self.memory.log),
            "searches": asked["search"],
            "search_reads": asked["read"],
            "search_writes": asked["write"],
            "documents": self.search.written,
            "embedded_texts": self.embedder.texts,
            "embedded_tokens": self.embedder.tokens,
        }

    def _since(self, before: Mapping[str, int], calls: int) -> Count:
        now = self._marks()
        spent = self.memory.log[before["log"] :]
        sums = total(spent)
        return Count(
            calls=calls,
            table_requests=len(spent),
            read_units=sums.read_units,
            write_units=sums.all_write_units,
            items_written=sums.written_items,
            **{name: now[name] - before[name] for name in now if name != "log"},
        )


@contextmanager
def answering(made: Deployed) -> Iterator[Deployed]:
    """The functions answer for it until the end."""
    bootstrap.activate(made)
    try:
        yield made
    finally:
        bootstrap.activate(None)
