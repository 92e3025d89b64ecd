"""Ports with behaviour but without technology. The store under the use cases is the embedded one, in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from shared.domain.errors import Unavailable
from shared.domain.memory import Memory, VaultRef
from shared.ports.search import Filters, Hit, IndexStatus, Passage, Query, Vector
from shared.ports.store import MemoryStore
from shared.ports.usage import UsageRow

NOW = 1_770_000_000_000


class SteppingClock:
    """Stands still until a test moves it; `step_ms` is what every reading adds."""

    def __init__(self) -> None:
        self.ms = NOW
        self.step_ms = 0

    def now_ms(self) -> int:
        self.ms += self.step_ms
        return self.ms


class CountingIds:
    def __init__(self) -> None:
        self._numbers = count(1)

    def memory_ids(self, number: int) -> list[str]:
        return [f"01900000-0000-7000-8000-{next(self._numbers):012x}" for _ in range(number)]

    def batch_id(self) -> str:
        return f"cb_{next(self._numbers):032x}"

    def vault_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._numbers):012x}"

    def key(self) -> str:
        return f"mk_{next(self._numbers):032d}"


class Meter:
    """Keeps every record."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str, str, int]] = []
        self.calls: dict[tuple[str, int], int] = {}

    def record(self, key_id: str, day: str, operation: str, tokens: int, requests: int) -> None:
        self.records += [(key_id, day, operation, tokens)] * requests

    def read(self, key_id: str, first_day: str, last_day: str) -> Sequence[UsageRow]:
        sums: dict[tuple[str, str], list[int]] = {}
        for key, day, operation, tokens in self.records:
            if key == key_id and first_day <= day <= last_day:
                row = sums.setdefault((day, operation), [0, 0])
                row[0] += 1
                row[1] += tokens
        return [UsageRow(day, operation, *row) for (day, operation), row in sorted(sums.items())]

    def call(self, key_id: str, minute: int) -> int:
        self.calls[key_id, minute] = self.calls.get((key_id, minute), 0) + 1
        return self.calls[key_id, minute]

    def tokens(self, operation: str) -> list[int]:
        return [tokens for _, _, name, tokens in self.records if name == operation]


class WordIndex:
    """Scores a row by the share of the query's words that it holds; newest rows first among equals.

    With `later_score` set, every answer after the first puts it on all hits, as a row written meanwhile might have.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.rows: dict[VaultRef, dict[str, Memory]] = {}
        self.vectorless: dict[VaultRef, list[Passage]] = {}
        self.asked: list[int] = []
        self.vectors: list[Vector | None] = []
        self.later_score: float | None = None
        self.lag_ms = 1_001

    def put_words(self, vault: VaultRef, memories: Sequence[Memory]) -> None:
        for memory in self._store.get(vault, [memory.id for memory in memories]).values():
            self.rows.setdefault(vault, {})[memory.id] = memory
            self.vectorless.setdefault(vault, []).append(Passage(memory.id, 0, memory.text))

    def remove(self, vault: VaultRef, ids: Sequence[str]) -> None:
        for memory_id in ids:
            self.rows.get(vault, {}).pop(memory_id, None)
        self.vectorless[vault] = [each for each in self.vectorless.get(vault, []) if each.memory_id not in ids]

    def without_vectors(self, vault: VaultRef, limit: int) -> tuple[Passage, ...]:
        return tuple(self.vectorless.get(vault, [])[:limit])

    def put_vectors(self, vault: VaultRef, passages: Sequence[Passage], vectors: Vector) -> None:
        assert vectors.shape[0] == len(passages)
        self.vectorless[vault] = [each for each in self.vectorless[vault] if each not in passages]

    def search(self, vault: VaultRef, query: Query, filters: Filters, limit: int) -> tuple[Hit, ...]:
        self.asked.append(limit)
        self.vectors.append(query.vector)
        words = query.text.lower().split()
        hits = []
        for memory in self.rows.get(vault, {}).values():
            if _visible(memory, filters):
                score = sum(word in memory.text.lower().split() for word in words) / len(words)
                hits.append((Hit(memory.id, memory.tier, score, score > 0), memory))
        hits.sort(key=lambda pair: (-pair[0].score, -pair[1].date_ms, pair[0].memory_id))
        found = [hit for hit, _ in hits[:limit]]
        if self.later_score is not None and len(self.asked) > 1:
            found = [Hit(hit.memory_id, hit.tier, self.later_score, hit.matched) for hit in found]
        return tuple(found)

    def status(self, vault: VaultRef) -> IndexStatus:
        return IndexStatus(len(self.rows.get(vault, {})), len(self.vectorless.get(vault, [])), self.lag_ms)

    def waiting(self, limit: int) -> tuple[VaultRef, ...]:
        return tuple(vault for vault, passages in self.vectorless.items() if passages)[:limit]

    def purge(self, vault_id: str, below_epoch: int) -> None:
        for vault in [each for each in self.rows if each.vault_id == vault_id and each.epoch < below_epoch]:
            del self.rows[vault]
            self.vectorless.pop(vault, None)


def _visible(memory: Memory, filters: Filters) -> bool:
    start = memory.covers.from_ms if memory.covers else memory.date_ms
    return (
        memory.tier in filters.tiers
        and (filters.min_importance is None or (memory.importance or 0) >= filters.min_importance)
        and (filters.session_id is None or memory.session_id in (None, filters.session_id))
        and (filters.from_ms is None or memory.date_ms >= filters.from_ms)
        and (filters.to_ms is None or start < filters.to_ms)
    )


class SmallModel:
    """`loads` says whether loading succeeds; a model that is `broken` is loaded but cannot answer."""

    noise = 0.4
    nearness = 0.5
    dimension = 3

    def __init__(self, name: str, *, loaded: bool = True, loads: bool = True, broken: bool = False) -> None:
        self.name = name
        self.loaded = loaded
        self._loads = loads
        self._broken = broken

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.full((len(texts), 3), 3**-0.5, np.float32)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        if self._broken:
            raise Unavailable("The model does not answer.", code="embedding_unavailable")
        return np.full(3, 3**-0.5, np.float32)

    def ready(self) -> bool:
        return self.loaded

    def load(self) -> None:
        if not self._loads:
            raise Unavailable("The model's files are missing.", code="embedding_unavailable")
        self.loaded = True
