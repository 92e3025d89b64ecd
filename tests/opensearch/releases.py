"""Releases with different layouts of the index, side by side on one table in memory and one real node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from infra.index.commands import COMMANDS, Run
from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.documents import content
from shared.adapters.opensearch.transport import Transport
from shared.api.stream import consume
from shared.bootstrap import Aws
from shared.domain.memory import Memory, VaultRef
from shared.ports.embedder import Embedder
from shared.ports.search import Filters, Query
from shared.settings import Settings
from shared.usecases.keys import authenticate
from tests.contract.rows import NOW
from tests.dynamodb.streams import SHARD
from tests.dynamodb.table import MemoryTable
from tests.opensearch.node import PREFIX

MODEL = HashingEmbedder()
WORDS = ("harbour", "saffron", "meadow", "lantern", "cedar", "violin", "glacier", "orchard")
QUESTIONS = (*WORDS, "a lantern in the meadow", "who said glacier")
_numbers = count(1)


class Scanned(MemoryTable):
    """Can be read through, in one page."""

    def scan(self, **request: Any) -> dict[str, Any]:
        assert request["FilterExpression"] == "#sk = :vault"
        wanted = request["ExpressionAttributeValues"][":vault"]
        return {"Items": [item for item in self.snapshot(request["TableName"]) if item["sk"] == wanted]}


class Release:
    """A back end of one layout. Nothing is indexed before its records are delivered."""

    def __init__(self, backend: Aws, transport: Transport) -> None:
        self.backend, self.services = backend, backend.services
        self._transport = transport
        self.alias = mapping.alias(MODEL.name, MODEL.dimension, backend.indexes, backend.layout)

    def command(self, name: str, newer: bool = False, follow: bool = False) -> int:
        return COMMANDS[name](Run(self.backend, None, self.backend, newer=newer, follow=follow))

    def deliver(self, records: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
        return consume(self.services, {"Records": records})["batchItemFailures"]

    def found(self, vault: VaultRef, query: str, limit: int = 50) -> list[tuple[str, float]]:
        hits = self.services.index.search(vault, Query(query, MODEL.embed_query(query), MODEL.noise), Filters(), limit)
        return [(hit.memory_id, hit.score) for hit in hits]

    def answers(self, vault: VaultRef) -> list[list[tuple[str, float]]]:
        return [self.found(vault, asked) for asked in QUESTIONS]

    def documents(self, vault: VaultRef, index: str | None = None) -> dict[str, str]:
        """Every document of the vault, as JSON without the version that it was written with."""
        index = index or self.alias
        self._transport.refresh(index)
        body = {"size": 5_000, "query": {"bool": {"filter": [{"term": {"content": content(vault)}}]}}}
        hits = self._transport.search(index, vault.vault_id, body)["hits"]["hits"]
        return {hit["_id"]: json.dumps(hit["_source"] | {"seq": 0}, sort_keys=True) for hit in hits}

    def holding(self, vault: VaultRef, word: str, index: str | None = None) -> set[str]:
        """Rows with the word in their own passages."""
        index = index or self.alias
        self._transport.refresh(index)
        clauses = [{"term": {"content": content(vault)}}, {"term": {"own": word}}]
        body = {"size": 5_000, "docvalue_fields": ["memory"], "query": {"bool": {"filter": clauses}}}
        hits = self._transport.search(index, vault.vault_id, body)["hits"]["hits"]
        return {hit["fields"]["memory"][0] for hit in hits}


class Installation:
    """One table, with its stream, and whatever indexes its releases make."""

    def __init__(self, url: str) -> None:
        self.url, self.indexes = url, f"{PREFIX}-upgrade{next(_numbers)}"
        self._memory = Scanned()
        self._memory.create_table(TableName="memories", **SCHEMA)
        self._streams = self._memory.streams()
        self._opened: list[Aws] = []
        self._seen = 0
        self.transport = Transport(url)

    def release(self, layout: int, *others: Embedder, indexes: str | None = None) -> Release:
        backend = Aws(
            Settings(backend="aws", table="memories", search_url=self.url, embedder=MODEL.name),
            connect={"dynamodb": self._memory, "dynamodbstreams": self._streams}.__getitem__,
            embedders={model.name: model for model in (MODEL, *others)},
            follow=True,
            indexes=indexes or self.indexes,
            layout=layout,
        )
        self._opened.append(backend)
        return Release(backend, self.transport)

    def vault(self, release: Release, number: int = 1) -> VaultRef:
        policy = replace(release.services.policy, auto_provision_keys=True)
        return authenticate(replace(release.services, policy=policy), f"mk_number-{number:09}").vault

    def records(self) -> list[dict[str, Any]]:
        """Everything that the stream keeps, as the event source hands it out."""
        arn = self._streams.list_streams(TableName="memories")["Streams"][0]["StreamArn"]
        where = {"StreamArn": arn, "ShardId": SHARD, "ShardIteratorType": "TRIM_HORIZON"}
        iterator, found = self._streams.get_shard_iterator(**where)["ShardIterator"], list[dict[str, Any]]()
        while page := (answer := self._streams.get_records(ShardIterator=iterator))["Records"]:
            found += page
            iterator = answer["NextShardIterator"]
        # The clock of the table in memory stands in the past.
        return [{**each, "dynamodb": {**each["dynamodb"], "ApproximateCreationDateTime": None}} for each in found]

    def fresh(self) -> list[dict[str, Any]]:
        """What came since the last call."""
        every = self.records()
        new, self._seen = every[self._seen :], len(every)
        return new

    def write(self, release: Release, vault: VaultRef, rows: Sequence[Memory]) -> None:
        release.services.store.append(vault, rows, None, NOW)
        assert release.deliver(self.fresh()) == []

    def delete(self, release: Release, vault: VaultRef, rows: Sequence[Memory]) -> None:
        release.services.store.delete(vault, [row.id for row in rows], NOW)
        assert release.deliver(self.fresh()) == []

    def built_anew(self, vault: VaultRef, layout: int) -> tuple[dict[str, str], list[list[tuple[str, float]]]]:
        """What an index holds and answers that was filled from the table alone, with nobody else around."""
        clean = self.release(layout, indexes=f"{self.indexes}clean{next(_numbers)}")
        assert clean.command("rebuild") == 0
        return clean.documents(vault), clean.answers(vault)

    def names(self) -> dict[str, set[str]]:
        """Aliases of every index of this installation, by its name."""
        listed = self.transport.request("GET", f"/{self.indexes}-*/_alias")
        return {name: set(held["aliases"]) for name, held in listed.items()}

    def close(self) -> None:
        self.transport.request("DELETE", f"/{self.indexes}*")
        self.transport.close()
        for backend in self._opened:
            backend.close()


@contextmanager
def installed(url: str) -> Iterator[Installation]:
    made = Installation(url)
    try:
        yield made
    finally:
        made.close()
