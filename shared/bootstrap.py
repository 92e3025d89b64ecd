"""Puts the parts together: the only place that knows which adapter stands behind which port."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from shared.adapters.local_embedder.static import StaticEmbedder
from shared.adapters.sqlite.directory import SqliteDirectory, SqliteUsage
from shared.adapters.sqlite.files import FolderOwner, VaultFiles
from shared.adapters.sqlite.index import SqliteIndex
from shared.adapters.sqlite.outbox import Outbox
from shared.adapters.sqlite.store import SqliteStore
from shared.adapters.system.clock import RandomIds, SystemClock
from shared.domain.errors import NotFound
from shared.domain.memory import VaultRef
from shared.ports.embedder import Embedder
from shared.settings import Settings, load
from shared.usecases.services import Policy, Services

MEBIBYTE = 1 << 20


def local_embedders() -> dict[str, Embedder]:
    """Every model that ships in a package, by its public name. None is loaded before it is asked."""
    models: tuple[Embedder, ...] = (MiniLmEmbedder(), StaticEmbedder(), HashingEmbedder())
    return {model.name: model for model in models}


class Embedded:
    """The embedded back end on one data folder, owned until `close`.

    Raises `Unavailable` when another process owns the folder, or when a file in it cannot be used.
    """

    def __init__(self, settings: Settings, embedders: Mapping[str, Embedder] | None = None) -> None:
        folder = Path(settings.data)
        with ExitStack() as undo:
            self._owner = undo.enter_context(FolderOwner(folder))
            self.directory = SqliteDirectory(folder)
            undo.callback(self.directory.database.close)
            self._usage = SqliteUsage(folder)
            undo.callback(self._usage.close)
            self._files = VaultFiles(folder, self.directory)
            self._assemble(settings, dict(embedders or local_embedders()))
            self.finish_purges()
            undo.pop_all()

    def _assemble(self, settings: Settings, embedders: dict[str, Embedder]) -> None:
        self._embedders = embedders
        self._default = settings.embedder
        outbox = Outbox(self._files)
        clock = SystemClock()
        self.index = SqliteIndex(self._files, self._dimension, settings.index_memory_mb * MEBIBYTE)
        self.services = Services(
            store=SqliteStore(self._files, outbox, self.directory.purged),
            directory=self.directory,
            index=self.index,
            embedders=self._embedders,
            feed=outbox,
            usage=self._usage,
            clock=clock,
            ids=RandomIds(clock),
            policy=Policy(
                default_model=settings.embedder,
                lease_ms=settings.lease_seconds * 1000,
                auto_provision_keys=settings.auto_provision_keys,
            ),
        )

    def _dimension(self, vault: VaultRef) -> int:
        try:
            model = self.directory.vault(vault.vault_id).model
        except NotFound:
            model = None
        return self._embedders[model or self._default].dimension

    def finish_purges(self) -> None:
        """Remove what an interrupted deletion left on the disk."""
        for vault_id, below in self.directory.waiting_purges():
            self.services.store.purge(vault_id, below)

    def stored(self) -> list[VaultRef]:
        """Every vault content on the disk."""
        return self._files.stored()

    def close(self) -> None:
        self._files.close()
        self.directory.database.close()
        self._usage.close()
        self._owner.close()

    def __enter__(self) -> Embedded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Process:
    """What this process serves. A Lambda builds it from its environment on the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backend: Embedded | None = None

    def activate(self, backend: Embedded | None) -> None:
        with self._lock:
            self._backend = backend

    def services(self) -> Services:
        with self._lock:
            if self._backend is None:
                self._backend = Embedded(load())
            return self._backend.services


_process = _Process()


def activate(backend: Embedded | None) -> None:
    """Make `backend` what `services` answers with; None forgets it."""
    _process.activate(backend)


def services() -> Services:
    """The services of this process, built from the environment on first use unless a back end was activated."""
    return _process.services()
