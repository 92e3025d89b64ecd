"""The search index on OpenSearch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.documents import Key, Numbers, content, document_id, stored_vector
from shared.adapters.opensearch.layouts import OtherLayouts
from shared.adapters.opensearch.maintain import forget, listed, usable, waiting_for_vectors
from shared.adapters.opensearch.reading import Reader
from shared.adapters.opensearch.transport import Json, Transport
from shared.adapters.opensearch.writing import Writer
from shared.domain.memory import Memory, VaultRef
from shared.ports.search import Filters, Hit, IndexStatus, Passage, Query, Repaired, RowSource, Vector
from shared.retrieval.chunks import chunks, embedded_text

LAG_WINDOW_MS = 3_600_000
LAG_BYTES = 256_000
"""How far back, and through how much, a status looks for rows that are not indexed yet."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What serves the vaults of one model."""

    name: str
    dimension: int
    reader: Reader
    writer: Writer


class OpenSearchIndex:
    """`shared.ports.search.SearchIndex` on a domain that many vaults share.

    `model` tells the (name, dimension) that a vault is bound to. With `refresh` every write is seen by the next search;
    without it the index's own interval decides, and the rows of the last minute are found by their words all the same.
    `prefix` keeps several installations on one domain apart, `version` the layouts of several releases. With `building`
    it is the index that is to take over.
    """

    def __init__(
        self,
        transport: Transport,
        rows: RowSource,
        model: Callable[[VaultRef], tuple[str, int]],
        clock_ms: Callable[[], int],
        refresh: bool,
        prefix: str = mapping.PREFIX,
        version: int = mapping.VERSION,
        building: bool = False,
    ) -> None:
        self._transport, self._rows, self._model = transport, rows, model
        self._clock_ms, self._refresh, self._prefix = clock_ms, refresh, prefix
        self._version, self._building = version, building
        self._parts: dict[str, _Part] = {}

    def put_words(self, vault: VaultRef, memories: Sequence[Memory]) -> None:
        """Raises `RowsRefused` naming the rows that the index does not take, after all others were written."""
        if memories:
            self._part(vault).writer.update(vault, [memory.id for memory in memories])

    def remove(self, vault: VaultRef, ids: Sequence[str]) -> None:
        """The same as `put_words`: the store decides whether a row is there."""
        if ids:
            self._part(vault).writer.update(vault, ids)

    def without_vectors(self, vault: VaultRef, limit: int) -> tuple[Passage, ...]:
        part = self._part(vault)
        part.writer.make_visible()
        body: Json = {
            "size": min(limit, mapping.MAX_RESULTS),
            "_source": False,
            "docvalue_fields": ["memory", "number"],
            "query": {"bool": {"filter": [{"term": {"content": content(vault)}}, {"term": {"waiting": True}}]}},
            "sort": ["seq", "memory", "number"],
        }
        hits = self._transport.search(part.name, vault.vault_id, body)["hits"]["hits"]
        waiting = [(str(hit["fields"]["memory"][0]), int(hit["fields"]["number"][0])) for hit in hits]
        rows = self._rows.get(vault, list(dict.fromkeys(memory_id for memory_id, _ in waiting))) if waiting else {}
        gone = dict.fromkeys(memory_id for memory_id, _ in waiting if memory_id not in rows)
        if gone:
            # Their place is wanted by passages that still exist.
            self.remove(vault, list(gone))
        cut = {memory_id: chunks(row.text) for memory_id, row in rows.items()}
        return tuple(
            Passage(
                memory_id, number, embedded_text(rows[memory_id].role, rows[memory_id].date_ms, cut[memory_id][number])
            )
            for memory_id, number in waiting
            if memory_id in rows and number < len(cut[memory_id])
        )

    def put_vectors(self, vault: VaultRef, passages: Sequence[Passage], vectors: Vector) -> None:
        part = self._part(vault)
        if not passages or vectors.shape[1] != part.dimension:
            # The vault was bound to another model meanwhile; its passages wait in that model's index.
            return
        brought: dict[Key, Numbers] = {
            (passage.memory_id, passage.number): stored_vector(vector)
            for passage, vector in zip(passages, vectors, strict=True)
        }
        part.writer.update(vault, [memory_id for memory_id, _ in brought], brought)

    def search(self, vault: VaultRef, query: Query, filters: Filters, limit: int) -> tuple[Hit, ...]:
        part = self._part(vault)
        if query.vector is not None and len(query.vector) != part.dimension:
            query = replace(query, vector=None)
        return part.reader.search(vault, query, filters, limit, self._clock_ms())

    def status(self, vault: VaultRef) -> IndexStatus:
        part = self._part(vault)
        part.writer.make_visible()
        body: Json = {
            "size": 0,
            "track_total_hits": True,
            "query": {"bool": {"filter": [{"term": {"content": content(vault)}}]}},
            "aggs": {"waiting": {"filter": {"term": {"waiting": True}}}},
        }
        answer = self._transport.search(part.name, vault.vault_id, body)
        return IndexStatus(
            int(answer["hits"]["total"]["value"]),
            int(answer["aggregations"]["waiting"]["doc_count"]),
            self._lag_ms(vault, part),
        )

    def _lag_ms(self, vault: VaultRef, part: _Part) -> int:
        now_ms = self._clock_ms()
        recent = {
            document_id(vault, row.id, 0): row.created_ms
            for row in self._rows.recent(vault, now_ms - LAG_WINDOW_MS, LAG_BYTES)
        }
        held = {doc["_id"] for doc in self._transport.mget(part.name, vault.vault_id, list(recent), ["seq"])}
        unseen = [created_ms for name, created_ms in recent.items() if name not in held]
        return max(0, now_ms - min(unseen)) if unseen else 0

    def waiting(self, limit: int) -> tuple[VaultRef, ...]:
        return waiting_for_vectors(self._transport, self._prefix, self._version, limit)

    def listed(self, vault: VaultRef) -> Iterator[str]:
        return (row.memory_id for row in listed(self._transport, self._part(vault).name, vault))

    def repair(self, vault: VaultRef, memories: Sequence[Memory]) -> Repaired:
        return self._part(vault).writer.update(vault, [memory.id for memory in memories])

    def purge(self, vault_id: str, below_epoch: int) -> None:
        forget(self._transport, self._prefix, vault_id, below_epoch)

    def close(self) -> None:
        self._transport.close()

    def _part(self, vault: VaultRef) -> _Part:
        """Raises `Unavailable` when the model's index is missing or of another layout."""
        model, dimension = self._model(vault)
        name = mapping.alias(model, dimension, self._prefix, self._version)
        if self._building:
            name = mapping.building(name)
        part = self._parts.get(name)
        if part is None:
            usable(self._transport, name, self._version)
            others = OtherLayouts(self._transport, model, dimension, self._prefix, self._version)
            part = _Part(
                name,
                dimension,
                Reader(self._transport, self._rows, name),
                Writer(self._transport, self._rows, name, self._refresh, others),
            )
            self._parts[name] = part
        return part
