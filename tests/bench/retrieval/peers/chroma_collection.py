"""Chroma's persistent client: a collection for each vault, cosine distance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.ports.embedder import Embedder
from tests.bench.retrieval.corpus import Line
from tests.bench.retrieval.peers.worker import said

PACKAGES = ("chromadb",)


class ChromaCollections:
    def __init__(self, folder: Path, embedder: Embedder) -> None:
        import chromadb

        self._client: Any = chromadb.PersistentClient(folder, chromadb.Settings(anonymized_telemetry=False))
        self._embedder = embedder
        self._collections: dict[str, Any] = {}

    def add(self, vault: str, rows: Sequence[Line]) -> None:
        texts = [said(row) for row in rows]
        vectors = self._embedder.embed_documents(texts)
        self._collection(vault).add(ids=[row.id for row in rows], embeddings=vectors, documents=texts)

    def search(self, vault: str, question: str, asked_ms: int, limit: int) -> list[str]:
        vector = self._embedder.embed_query(question)
        found: list[str] = self._collection(vault).query(query_embeddings=[vector], n_results=limit)["ids"][0]
        return found

    def _collection(self, vault: str) -> Any:
        if vault not in self._collections:
            self._collections[vault] = self._client.create_collection(
                vault, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
            )
        return self._collections[vault]

    def close(self) -> None:
        return


def opened(folder: Path, embedder: Embedder) -> ChromaCollections:
    return ChromaCollections(folder, embedder)
