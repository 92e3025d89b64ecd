"""The OpenSearch index beside rows in memory, on a node that many tests share."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Sequence
from uuid import uuid4

from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.opensearch import maintain, mapping
from shared.adapters.opensearch.index import OpenSearchIndex
from shared.adapters.opensearch.transport import Transport
from shared.domain.memory import Memory, VaultRef
from tests.contract.rows import NOW
from tests.opensearch.node import PREFIX

MODEL = HashingEmbedder()
ALIAS = mapping.alias(MODEL.name, MODEL.dimension, PREFIX)


class MemoryRows:
    """A `RowSource` in memory. Every change moves the vault's counter with it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: dict[VaultRef, dict[str, Memory]] = {}
        self._counters: dict[VaultRef, int] = {}
        self._sessions: dict[tuple[VaultRef, str], list[tuple[int, str]]] = {}

    def write(self, vault: VaultRef, rows: Sequence[Memory]) -> None:
        with self._lock:
            held = self._rows.setdefault(vault, {})
            for row in rows:
                if row.id not in held and row.session_id is not None:
                    insort(self._sessions.setdefault((vault, row.session_id), []), (row.date_ms, row.id))
                held[row.id] = row
            self._counters[vault] = self._counters.get(vault, 0) + 1

    def delete(self, vault: VaultRef, ids: Sequence[str]) -> None:
        with self._lock:
            for memory_id in ids:
                row = self._rows.get(vault, {}).pop(memory_id, None)
                if row is not None and row.session_id is not None:
                    self._sessions[vault, row.session_id].remove((row.date_ms, row.id))
            self._counters[vault] = self._counters.get(vault, 0) + 1

    def change_counter(self, vault: VaultRef) -> int:
        with self._lock:
            return self._counters.get(vault, 0)

    def get(self, vault: VaultRef, ids: Sequence[str]) -> dict[str, Memory]:
        with self._lock:
            rows = self._rows.get(vault, {})
            return {memory_id: rows[memory_id] for memory_id in ids if memory_id in rows}

    def all(self, vault: VaultRef) -> list[Memory]:
        with self._lock:
            return list(self._rows.get(vault, {}).values())

    def beside(self, vault: VaultRef, session_id: str, at: tuple[int, str], reach: int) -> tuple[Memory, ...]:
        with self._lock:
            session = self._sessions.get((vault, session_id), [])
            first = bisect_left(session, at)
            after = first + (first < len(session) and session[first] == at)
            names = (*session[max(0, first - reach) : first], *session[after : after + reach])
            return tuple(self._rows[vault][memory_id] for _, memory_id in names)

    def recent(self, vault: VaultRef, since_ms: int, max_bytes: int) -> tuple[Memory, ...]:
        with self._lock:
            rows = [row for row in self._rows.get(vault, {}).values() if row.created_ms >= since_ms]
        kept: list[Memory] = []
        for row in sorted(rows, key=lambda row: (row.created_ms, row.id), reverse=True):
            max_bytes -= len(row.text.encode("utf-8", "surrogatepass"))
            if max_bytes < 0:
                break
            kept.append(row)
        return tuple(kept)


class OpenSearchRig:
    """`now_ms` is an hour after all rows were written, so that nothing is recent; tests of the tail set it back."""

    def __init__(self, url: str, refresh: bool = True) -> None:
        self.url, self._refresh = url, refresh
        self.rows = MemoryRows()
        self.now_ms = NOW + 3_600_000
        self.model = (MODEL.name, MODEL.dimension)
        self._start()
        maintain.create(self.transport, *self.model, prefix=PREFIX)

    def _start(self) -> None:
        self.transport = Transport(self.url, attempts=2)
        self.index = self.indexer(self.transport)

    def indexer(self, transport: Transport) -> OpenSearchIndex:
        return OpenSearchIndex(
            transport, self.rows, lambda vault: self.model, lambda: self.now_ms, self._refresh, PREFIX
        )

    def write(self, vault: VaultRef, rows: Sequence[Memory]) -> None:
        self.rows.write(vault, rows)
        self.index.put_words(vault, rows)

    def delete(self, vault: VaultRef, rows: Sequence[Memory]) -> None:
        self.rows.delete(vault, [row.id for row in rows])
        self.index.remove(vault, [row.id for row in rows])

    def new_vault(self) -> VaultRef:
        return VaultRef(str(uuid4()), 1)

    def restart(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        self.index.close()
