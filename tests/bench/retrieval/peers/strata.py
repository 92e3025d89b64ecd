"""This project: the embedded back end as the local server runs it, on disk and synced, without HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shared.bootstrap.embedded import Embedded
from shared.domain.keys import SCOPES
from shared.ports.directory import KeyRecord
from shared.ports.embedder import Embedder
from shared.settings import Settings
from shared.usecases.indexing import catch_up, fill_vectors
from shared.usecases.ingest import NewMessage, ingest
from shared.usecases.search import search
from shared.usecases.services import Caller
from tests.bench.retrieval.corpus import Line

PACKAGES = ()
VECTORS_AT_ONCE = 100


@dataclass(frozen=True)
class Then:
    """A clock that stands still: "last March" means the one before the question."""

    ms: int

    def now_ms(self) -> int:
        return self.ms


class StrataVaults:
    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self._backend = Embedded(Settings(data=folder), {embedder.name: embedder})
        self._keys: dict[str, KeyRecord] = {}
        self._ids: dict[str, str] = {}

    def add(self, vault: str, rows: Sequence[Line]) -> None:
        services = self._backend.services
        caller = self._caller(vault, rows[0].session)
        stored = ingest(services, caller, [NewMessage(row.role, row.text, row.date_ms) for row in rows], None)
        catch_up(services, caller.vault)
        while fill_vectors(services, caller.vault, VECTORS_AT_ONCE):
            pass
        ids = stored["ids"]
        assert isinstance(ids, list)
        self._ids.update(zip(ids, (row.id for row in rows), strict=True))

    def search(self, vault: str, question: str, asked_ms: int, limit: int) -> list[str]:
        services = replace(self._backend.services, clock=Then(asked_ms))
        answer = search(services, self._caller(vault), question, limit, None, None)
        memories = answer["memories"]
        assert isinstance(memories, list)
        return [self._ids[row["id"]] for row in memories]

    def _caller(self, vault: str, session: str | None = None) -> Caller:
        """Read for each request, as the endpoint does; the first request opens the vault."""
        directory = self._backend.directory
        if vault not in self._keys:
            vault_id = self._backend.services.ids.vault_id()
            key = KeyRecord(f"key-{vault_id}", vault_id, vault_id, vault, SCOPES, 0)
            directory.add(key)
            self._keys[vault] = key
        key = self._keys[vault]
        return Caller(key, directory.vault(key.vault_id), SCOPES, "mk_…", session_id=session)

    def close(self) -> None:
        self._backend.close()


def opened(folder: Path, embedder: Embedder) -> StrataVaults:
    return StrataVaults(folder, embedder)
