"""What each operation costs on DynamoDB, counted: real requests through the handlers to the table in memory.

The search store is left out but for its writer's reads: a stand-in keeps the documents and answers a search with the
newest rows. Nothing here is measured in time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from infra.local.gateway import Gateway
from shared import bootstrap
from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.index import OpenSearchIndex
from shared.adapters.opensearch.reading import TAIL_BYTES, TAIL_MS
from shared.adapters.opensearch.transport import Transport
from shared.adapters.system.clock import RandomIds, SystemClock
from shared.adapters.system.telemetry import Silent
from shared.domain.keys import hash_key
from shared.domain.memory import VaultRef
from shared.ports.dead_letters import Kind, Task
from shared.ports.search import Filters, Hit, Query
from shared.settings import AWS, Settings
from shared.usecases.following import follow
from tests.contract.rows import MINUTE, NOW
from tests.dynamodb.sizes import item_size
from tests.dynamodb.table import MemoryTable
from tests.load import script

KEY_RECORD, VAULT_RECORD, CONTENT, USAGE = "key record", "vault record", "vault content", "usage"
PLACES = (KEY_RECORD, VAULT_RECORD, CONTENT, USAGE)
READS = frozenset(("get_item", "batch_get_item", "query"))
NAME, KEY, MODEL = "counted", "mk_counted", HashingEmbedder()
ROWS, TIMES = 240, 5
INDEXING = "indexing one row"


@dataclass(slots=True)
class Spent:
    """Means of one operation: read and write units by place, reads and transactions one after the other.

    `vault_transactions` of them meet in the counters of the vault, and `rows` and `passages` are what it stored.
    """

    reads: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PLACES, 0.0))
    writes: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PLACES, 0.0))
    read_requests: float = 0.0
    write_requests: float = 0.0
    vault_transactions: float = 0.0
    rows: float = 0.0
    passages: float = 0.0

    def scaled(self, factor: float) -> Spent:
        return Spent(
            {place: units * factor for place, units in self.reads.items()},
            {place: units * factor for place, units in self.writes.items()},
            self.read_requests * factor,
            self.write_requests * factor,
            self.vault_transactions * factor,
            self.rows * factor,
            self.passages * factor,
        )


def place_of(partition: str) -> str:
    """Which of the table's partitions a key belongs to."""
    if partition.startswith("V#"):
        return CONTENT if partition.count("#") == 2 else VAULT_RECORD
    return {"K": KEY_RECORD, "U": USAGE}[partition[0]]


def _partition(op: str, request: Mapping[str, Any]) -> str:
    if op == "query":
        return str(request["ExpressionAttributeValues"][":pk"]["S"])
    if op == "batch_get_item":
        (asked,) = request["RequestItems"].values()
        return str(asked["Keys"][0]["pk"]["S"])
    if op == "transact_write_items":
        ((_, request),) = request["TransactItems"][0].items()
    return str((request.get("Key") or request["Item"])["pk"]["S"])


class Metered:
    """The table's client; adds up what goes through it."""

    def __init__(self, table: MemoryTable) -> None:
        self._table, self.spent = table, Spent()

    def __getattr__(self, op: str) -> Callable[..., Any]:
        send = getattr(self._table, op)

        def metered(**request: Any) -> Any:
            before = len(self._table.log)
            try:
                return send(**request)
            finally:
                self._add(op, request, before)

        return metered

    def _add(self, op: str, request: Mapping[str, Any], before: int) -> None:
        place = place_of(_partition(op, request))
        for entry in self._table.log[before:]:
            self.spent.reads[place] += entry.read_units
            self.spent.writes[place] += entry.all_write_units
        if op in READS:
            self.spent.read_requests += 1
        else:
            self.spent.write_requests += 1
            self.spent.vault_transactions += place == CONTENT and op == "transact_write_items"


class Documents:
    """Stands in for the transport of a node: keeps documents by their names and knows which wait for a vector."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = {}

    def request(self, method: str, path: str) -> dict[str, Any]:
        return {"index": {"mappings": {"_meta": {"strata_layout": mapping.VERSION}}}}

    def refresh(self, index: str) -> None:
        return None

    def mget(self, index: str, routing: str, ids: Sequence[str], source: Sequence[str]) -> list[dict[str, Any]]:
        return [{"_id": name, "_source": self.held[name]} for name in ids if name in self.held]

    def bulk(self, index: str, lines: Sequence[tuple[Any, str | None]], refresh: bool) -> list[dict[str, Any]]:
        for action, source in lines:
            ((_, target),) = action.items()
            if source is None:
                self.held.pop(target["_id"], None)
            else:
                self.held[target["_id"]] = json.loads(source)
        return [{"status": 201}] * len(lines)

    def search(self, index: str, routing: str, body: Mapping[str, Any]) -> dict[str, Any]:
        docs = self.held.items() if {"term": {"waiting": True}} in body["query"]["bool"]["filter"] else ()
        waiting = [(name, doc) for name, doc in docs if doc["waiting"]]
        hits = [{"_id": name, "fields": {"memory": [d["memory"]], "number": [d["number"]]}} for name, d in waiting]
        counts = {"waiting": {"doc_count": len(waiting)}}
        return {"hits": {"hits": hits, "total": {"value": len(self.held)}}, "aggregations": counts}


class Clock(SystemClock):
    def __init__(self) -> None:
        self.ms = NOW

    def now_ms(self) -> int:
        return self.ms


class NewestFirst(OpenSearchIndex):
    """Reads what a search reads of the table, and finds the newest rows."""

    rows: list[str]

    def search(self, vault: VaultRef, query: Query, filters: Filters, limit: int) -> tuple[Hit, ...]:
        self._part(vault)
        self._rows.recent(vault, self._clock_ms() - TAIL_MS, TAIL_BYTES)
        return tuple(Hit(memory_id, 1, 0.5, True) for memory_id in self.rows[-limit:])


class Counting:
    """A vault, and the meter of everything that is done with it."""

    def __init__(self) -> None:
        self._table, self.clock, self.documents = MemoryTable(), Clock(), Documents()
        self._table.create_table(TableName=NAME, **SCHEMA)
        self.meter = Metered(self._table)
        settings = Settings(
            backend=AWS, table=NAME, search_url="http://127.0.0.1:9", embedder=MODEL.name, auto_provision_keys=True
        )
        self.backend = bootstrap.Aws(settings, connect=lambda service: self.meter)
        self.store = self.backend.store
        transport = cast("Transport", self.documents)
        self.index = NewestFirst(transport, self.store, self.backend.model, self.clock.now_ms, refresh=True)
        self.index.rows = []
        self.services = replace(
            self.backend.services,
            index=self.index,
            clock=self.clock,
            ids=RandomIds(self.clock),
            telemetry=Silent(),
        )
        self.gateway, self.draw = Gateway(self.services), random.Random(1)
        self._counted: dict[str, list[Spent]] = {}

    def post(self, path: str, body: object, method: str = "POST") -> Any:
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "text/plain" if isinstance(body, bytes) else "application/json"
        headers = [("Authorization", f"Bearer {KEY}"), ("Content-Type", kind)]
        answer = self.gateway.handle(method, f"/v1/memory/{path}", "", headers, raw)
        assert answer.status < 300, answer.body
        return json.loads(answer.body)

    def count(self, operation: str, path: str, body: object, method: str = "POST", rows: int = 0) -> Any:
        self.clock.ms += 1
        self.meter.spent = Spent(rows=rows)
        before = len(self.documents.held)
        answer = self.post(path, body, method)
        spent, self.meter.spent = self.meter.spent, Spent()
        if rows:
            ids = answer.get("ids") or self._new_ids(rows)
            self.index.rows += ids
            self._indexed(ids)
            spent.passages = len(self.documents.held) - before
        self._counted.setdefault(operation, []).append(spent)
        return answer

    def _new_ids(self, rows: int) -> list[str]:
        recent = self.store.recent(self.vault(), self.clock.ms - 1, TAIL_BYTES)
        return [row.id for row in recent][-rows:]

    def vault(self) -> VaultRef:
        opened = self.services.directory.open(hash_key(KEY))
        assert opened is not None, "its first request opened it"
        return opened[1].ref

    def _indexed(self, ids: Sequence[str]) -> None:
        vault = self.vault()
        self.meter.spent = Spent()
        outcome = follow(self.services, [Task(Kind.INDEX, vault, memory_id) for memory_id in ids], 10_000)
        assert not outcome.failed, outcome
        self._counted.setdefault(INDEXING, []).append(self.meter.spent.scaled(1 / len(ids)))

    def messages(self, number: int) -> list[dict[str, str]]:
        return [{"role": "user", "content": script.text(self.draw, f"w{place}")} for place in range(number)]

    def ingest(self, number: int) -> list[str]:
        body = {"messages": self.messages(number), "session_id": f"s{self.draw.randint(1, 5)}"}
        ids: list[str] = self.count(script.INGEST, "ingest", body, rows=number)["ids"]
        return ids

    def row_bytes(self) -> float:
        sizes = [item_size(item) for item in self._table.snapshot(NAME) if item["sk"]["S"].startswith("M#")]
        return sum(sizes) / len(sizes)

    def means(self) -> dict[str, Spent]:
        return {operation: _mean(spent) for operation, spent in self._counted.items()}


def _mean(spent: Sequence[Spent]) -> Spent:
    total = Spent()
    for each in spent:
        for place in PLACES:
            total.reads[place] += each.reads[place]
            total.writes[place] += each.writes[place]
        total.read_requests += each.read_requests
        total.write_requests += each.write_requests
        total.vault_transactions += each.vault_transactions
        total.rows += each.rows
        total.passages += each.passages
    return total.scaled(1 / len(spent))


@dataclass(frozen=True, slots=True)
class Counted:
    """`spent` by operation, and for indexing one row afterwards; `row_bytes` is what a row weighs in the table."""

    spent: dict[str, Spent]
    row_bytes: float


def count_units(rows: int = ROWS, times: int = TIMES) -> Counted:
    """Means of requests as `tests.load.script` makes them.

    `rows` are in the vault to begin with; every operation is done `times` times.
    """
    counting = Counting()
    bootstrap.activate(cast("bootstrap.Backend", SimpleNamespace(services=counting.services)))
    try:
        # The first request of a key opens its vault, and the first write binds its model.
        counting.post("ingest", {"messages": counting.messages(1)})
        while len(counting.index.rows) < rows:
            counting.ingest(3)
        counting.clock.ms += 60 * MINUTE
        for _ in range(times):
            _one_of_each(counting)
    finally:
        bootstrap.activate(None)
    return Counted(counting.means(), counting.row_bytes())


def _one_of_each(counting: Counting) -> None:
    count = counting.count
    lines = "".join(json.dumps({"content": each["content"]}) + "\n" for each in counting.messages(12))
    count(script.UPLOAD, "upload", lines.encode(), rows=12)
    counting.clock.ms += 2 * MINUTE
    # A process notes the use of a key once a minute, whichever request it comes with.
    counting.post("stats", None, "GET")
    count(script.SEARCH, "search", {"query": script.question(counting.draw), "limit": 10})
    count(script.DATE_SEARCH, "date-search", {"from": "2000-01-01", "max_tokens": 4_000})
    count(script.STATS, "stats", None, "GET")
    taken = count("checkout", "consolidate/checkout", {"tier": 1, "max_tokens": 2_000})
    count("renew", "consolidate/renew", {"batch_id": taken["batch_id"]})
    entries = [{"text": script.text(counting.draw, "r"), "importance": 5}] * 2
    done = count("commit", "consolidate/commit", {"batch_id": taken["batch_id"], "entries": entries})
    count("commit again", "consolidate/commit", {"batch_id": taken["batch_id"], "entries": entries})
    count(script.INSPECT, "inspect", {"memory_id": done["created"][0]["id"]})
    taken = counting.post("consolidate/checkout", {"tier": 1, "max_tokens": 2_000})
    count("release", "consolidate/release", {"batch_id": taken["batch_id"]})
    count(script.DELETE, "delete-ids", {"ids": [counting.index.rows.pop() for _ in range(2)]})
