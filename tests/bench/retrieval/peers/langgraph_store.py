"""LangGraph's `InMemoryStore` with an index: numpy, in memory only, a namespace for each vault."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.ports.embedder import Embedder
from tests.bench.retrieval.corpus import Line
from tests.bench.retrieval.peers.worker import said

PACKAGES = ("langgraph-checkpoint",)


class LangGraphStore:
    def __init__(self, embedder: Embedder) -> None:
        from langgraph.store.base import PutOp
        from langgraph.store.memory import InMemoryStore

        def embed(texts: Sequence[str]) -> list[list[float]]:
            vectors: list[list[float]] = embedder.embed_documents(texts).tolist()
            return vectors

        self._put: Any = PutOp
        self._store: Any = InMemoryStore(index={"dims": embedder.dimension, "embed": embed, "fields": ["text"]})

    def add(self, vault: str, rows: Sequence[Line]) -> None:
        self._store.batch([self._put((vault,), row.id, {"text": said(row)}) for row in rows])

    def search(self, vault: str, question: str, asked_ms: int, limit: int) -> list[str]:
        return [str(item.key) for item in self._store.search((vault,), query=question, limit=limit)]

    def close(self) -> None:
        return


def opened(folder: Path, embedder: Embedder) -> LangGraphStore:
    return LangGraphStore(embedder)
