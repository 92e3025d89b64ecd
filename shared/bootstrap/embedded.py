"""The embedded back end: one SQLite file a vault, in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from shared.adapters.sqlite.directory import SqliteDirectory, SqliteUsage
from shared.adapters.sqlite.files import FolderOwner, VaultFiles
from shared.adapters.sqlite.index import SqliteIndex
from shared.adapters.sqlite.outbox import Outbox
from shared.adapters.sqlite.store import SqliteStore
from shared.adapters.sqlite.upkeep import Upkeep
from shared.adapters.system.clock import RandomIds, SystemClock
from shared.adapters.system.letters import KeptBack
from shared.adapters.system.telemetry import Silent
from shared.bootstrap.models import chosen_embedders, policy_of
from shared.domain.errors import NotFound
from shared.domain.memory import VaultRef
from shared.ports.embedder import Embedder
from shared.ports.search import RepairableIndex
from shared.settings import Settings
from shared.usecases.services import Services

MEBIBYTE = 1 << 20


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
            self._assemble(settings, embedders)
            self.finish_purges()
            undo.pop_all()

    def _assemble(self, settings: Settings, embedders: Mapping[str, Embedder] | None) -> None:
        offered, self._default = chosen_embedders(settings)
        self._embedders: Mapping[str, Embedder] = offered if embedders is None else dict(embedders)
        outbox = Outbox(self._files)
        self.upkeep = Upkeep(self._files, note=outbox.note)
        clock = SystemClock()
        self.index = SqliteIndex(self._files, self._dimension, settings.index_memory_mb * MEBIBYTE)
        self.services = Services(
            store=SqliteStore(self._files, outbox, self.directory.purged),
            directory=self.directory,
            index=self.index,
            embedders=self._embedders,
            feed=outbox,
            usage=self._usage,
            dead_letters=KeptBack(),
            telemetry=Silent(),
            clock=clock,
            ids=RandomIds(clock),
            policy=policy_of(settings, self._default),
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

    def unfinished(self) -> list[VaultRef]:
        return list(self._files.dirty())

    @property
    def repairable(self) -> RepairableIndex:
        return self.index

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
