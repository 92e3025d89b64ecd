"""The adapters under test. A second back end is one more `Rig` and one more name in `RIGS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from shared.domain.memory import VaultRef
from shared.ports.store import ChangeFeed, MemoryStore
from tests.contract.model import ModelStore
from tests.contract.rows import Maker
from tests.contract.sqlite_rig import SqliteRig


class Rig(Protocol):
    """A store with whatever it needs around it."""

    @property
    def store(self) -> MemoryStore: ...

    @property
    def feed(self) -> ChangeFeed: ...

    def new_vault(self) -> VaultRef: ...

    def dropped(self, vault: VaultRef) -> VaultRef:
        """Empty the vault as its deletion does: the next epoch first, then the purge. Returns the new content."""
        ...

    def importing(self, vault: VaultRef) -> VaultRef:
        """Open an import; returns the content that it writes into."""
        ...

    def restart(self) -> None:
        """Forget everything that is not stored."""
        ...

    def close(self) -> None: ...


class ModelRig:
    """The reference model itself, so that the suite is tried on the plainest store there can be."""

    def __init__(self, folder: Path) -> None:
        self.store = self.feed = ModelStore()
        self._epochs: dict[str, int] = {}

    def new_vault(self) -> VaultRef:
        name = f"vault-{len(self._epochs)}"
        self._epochs[name] = 1
        return VaultRef(name, 1)

    def dropped(self, vault: VaultRef) -> VaultRef:
        fresh = self.importing(vault)
        self.store.purge(vault.vault_id, fresh.epoch)
        return fresh

    def importing(self, vault: VaultRef) -> VaultRef:
        self._epochs[vault.vault_id] += 1
        return VaultRef(vault.vault_id, self._epochs[vault.vault_id])

    def restart(self) -> None:
        self.store.touched()

    def close(self) -> None:
        pass


RIGS: dict[str, Callable[[Path], Rig]] = {"model": ModelRig, "sqlite": SqliteRig}


@pytest.fixture(params=list(RIGS))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made = RIGS[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(rig: Rig) -> MemoryStore:
    return rig.store


@pytest.fixture
def feed(rig: Rig) -> ChangeFeed:
    return rig.feed


@pytest.fixture
def vault(rig: Rig) -> VaultRef:
    return rig.new_vault()


@pytest.fixture
def make() -> Maker:
    return Maker()
