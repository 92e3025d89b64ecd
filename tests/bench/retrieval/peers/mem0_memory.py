"""mem0ai without inference: texts as they are, its default vector store (Qdrant's local mode) on disk.

Its keyword search asks fastembed for an encoder whose stop words are downloaded at first use. Offline that fails and
the search goes on by vectors alone; the variant `with_keywords` hands it the same encoder with other stop words.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.ports.embedder import Embedder
from tests.bench.retrieval.corpus import Line
from tests.bench.retrieval.peers.worker import said

PACKAGES = ("mem0ai", "qdrant-client", "fastembed")
STOP_WORDS = (
    "a about all am an and any are as at be because been before but by can could did do does for from had has have he"
    " her here hers him his how i if in into is it its just me my no not of on or our out she so some than that the"
    " their them then there these they this those to too up us was we were what when where which who whom whose why"
    " will with would you your yours"
)


class Embeddings:
    """The part of `mem0.embeddings.base.EmbeddingBase` that adding and searching call."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        vector: list[float] = self._embedder.embed_query(text).tolist()
        return vector

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        vectors: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return vectors


class Mem0Memory:
    """A vault is a user id, as the documentation has it."""

    def __init__(self, folder: Path, embedder: Embedder, keywords: bool = False) -> None:
        memory_class = _imported(folder)
        qdrant = {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": embedder.dimension}
        # LM Studio is a provider whose clients can be made offline; they are never called.
        self._memory: Any = memory_class.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": qdrant},
                "llm": {"provider": "lmstudio", "config": {}},
                "embedder": {"provider": "lmstudio", "config": {}},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = Embeddings(embedder)
        # False is what mem0ai itself keeps there after a failure.
        self._memory.vector_store._bm25_encoder = _encoder(folder) if keywords else False
        self._ids: dict[str, str] = {}

    def add(self, vault: str, rows: Sequence[Line]) -> None:
        messages = [{"role": "user", "name": row.role, "content": said(row)} for row in rows]
        stored = self._memory.add(messages, user_id=vault, infer=False)["results"]
        self._ids.update(zip((entry["id"] for entry in stored), (row.id for row in rows), strict=True))

    def search(self, vault: str, question: str, asked_ms: int, limit: int) -> list[str]:
        # Without a threshold: `limit` rows are wanted however far they are.
        answer = self._memory.search(question, filters={"user_id": vault}, top_k=limit, threshold=0.0)
        return [self._ids[entry["id"]] for entry in answer["results"]]

    def close(self) -> None:
        self._memory.close()


class Mem0Apart:
    """A vault is a memory of its own, and so a collection of its own: nothing to filter by user."""

    def __init__(self, folder: Path, embedder: Embedder, keywords: bool) -> None:
        self._folder = folder
        self._embedder = embedder
        self._keywords = keywords
        self._memories: dict[str, Mem0Memory] = {}
        # Here, so that no vault pays for it.
        _imported(folder)

    def add(self, vault: str, rows: Sequence[Line]) -> None:
        if vault not in self._memories:
            folder = self._folder / str(len(self._memories))
            folder.mkdir()
            self._memories[vault] = Mem0Memory(folder, self._embedder, self._keywords)
        self._memories[vault].add(vault, rows)

    def search(self, vault: str, question: str, asked_ms: int, limit: int) -> list[str]:
        return self._memories[vault].search(vault, question, asked_ms, limit)

    def close(self) -> None:
        for memory in self._memories.values():
            memory.close()


def _imported(folder: Path) -> Any:
    # Both are read when the package is imported.
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
    from mem0 import Memory

    return Memory


def _encoder(folder: Path) -> Any:
    from fastembed.sparse.bm25 import Bm25

    return Bm25("Qdrant/bm25", specific_model_path=str(folder), stopwords=set(STOP_WORDS.split()))


def opened(folder: Path, embedder: Embedder) -> Mem0Memory:
    return Mem0Memory(folder, embedder)


def apart(folder: Path, embedder: Embedder) -> Mem0Apart:
    return Mem0Apart(folder, embedder, keywords=False)


def with_keywords(folder: Path, embedder: Embedder) -> Mem0Apart:
    return Mem0Apart(folder, embedder, keywords=True)
