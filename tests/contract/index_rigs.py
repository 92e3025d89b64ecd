"""Search indexes beside the stores that hold their rows, for tests of every adapter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.sqlite.index import SqliteIndex
from shared.domain.memory import Memory, VaultRef
from shared.domain.window import Window
from shared.ports.search import Filters, Hit, Query, SearchIndex
from tests.contract.opensearch_rig import OpenSearchRig
from tests.contract.rows import NOW
from tests.contract.sqlite_rig import SqliteRig

MODEL = HashingEmbedder()


class IndexRig(Protocol):
    """An index beside the store that holds its rows."""

    @property
    def index(self) -> SearchIndex: ...

    def write(self, vault: VaultRef, rows: Sequence[Memory]) -> None: ...

    def delete(self, vault: VaultRef, rows: Sequence[Memory]) -> None: ...

    def new_vault(self) -> VaultRef: ...

    def restart(self) -> None: ...

    def close(self) -> None: ...


class SqliteIndexRig:
    def __init__(self, folder: Path) -> None:
        self._rig = SqliteRig(folder)
        self._start()

    def _start(self) -> None:
        self.index = SqliteIndex(self._rig.files, lambda vault: MODEL.dimension, 1 << 28)

    def write(self, vault: VaultRef, rows: Sequence[Memory]) -> None:
        raws = [row for row in rows if row.tier == 1]
        if raws:
            self._rig.store.append(vault, raws, None, NOW)
        reflections = [row for row in rows if row.tier > 1]
        if reflections:
            self._rig.store.restore(vault, reflections, [], NOW)
        self.index.put_words(vault, rows)

    def delete(self, vault: VaultRef, rows: Sequence[Memory]) -> None:
        self._rig.store.delete(vault, [row.id for row in rows], NOW)
        self.index.remove(vault, [row.id for row in rows])

    def new_vault(self) -> VaultRef:
        return self._rig.new_vault()

    def restart(self) -> None:
        self._rig.restart()
        self._start()

    def close(self) -> None:
        self._rig.close()


def opensearch_rig(request: pytest.FixtureRequest) -> IndexRig:
    return OpenSearchRig(request.getfixturevalue("opensearch_url"))


def sqlite_rig(request: pytest.FixtureRequest) -> IndexRig:
    return SqliteIndexRig(request.getfixturevalue("tmp_path"))


SQLITE = pytest.param(sqlite_rig, id="sqlite")
OPENSEARCH = pytest.param(opensearch_rig, id="opensearch", marks=[pytest.mark.slow, pytest.mark.loopback])


def embed(rig: IndexRig, vault: VaultRef) -> int:
    """Give every waiting passage its vector; returns how many waited."""
    waiting = rig.index.without_vectors(vault, 10_000)
    if waiting:
        rig.index.put_vectors(vault, waiting, MODEL.embed_documents([passage.text for passage in waiting]))
    return len(waiting)


def find(
    rig: IndexRig,
    vault: VaultRef,
    query: str,
    limit: int = 10,
    filters: Filters | None = None,
    vectors: bool = True,
    periods: tuple[Window, ...] = (),
) -> tuple[Hit, ...]:
    vector = MODEL.embed_query(query) if vectors else None
    return rig.index.search(vault, Query(query, vector, MODEL.noise, periods=periods), filters or Filters(), limit)
