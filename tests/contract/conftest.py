"""The adapters under test. A second back end is one more `Rig` and one more name in `RIGS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from _pytest.mark import ParameterSet

from shared.domain.memory import VaultRef
from shared.ports.store import ChangeFeed, MemoryStore
from tests.contract.dynamodb_rig import DynamoRig
from tests.contract.model import ModelStore
from tests.contract.rows import Maker
from tests.contract.sqlite_rig import SqliteRig
from tests.dynamodb.table import MemoryTable


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


RIGS: dict[str, Callable[[Path], Rig]] = {
    "model": ModelRig,
    "sqlite": SqliteRig,
    "dynamodb": lambda folder: DynamoRig.in_memory(),
}
SERVED = "ministack"
"""DynamoDB once more, on an emulator: its tests open sockets and are slow."""
SERVED_MARKS = (pytest.mark.slow, pytest.mark.loopback)
OpenRig = Callable[[str, Path], Rig]


def named(*left_out: str) -> list[ParameterSet]:
    """Names of all rigs but some, as parameters of a test, with the marks each needs."""
    names = [name for name in (*RIGS, SERVED) if name not in left_out]
    return [pytest.param(name, marks=SERVED_MARKS if name == SERVED else ()) for name in names]


# For tests with thousands of rows. The emulator sorts a whole partition for every page of an index.
VOLUME = [pytest.param(name, marks=pytest.mark.slow if name == "dynamodb" else ()) for name in RIGS]
at_volume = pytest.mark.parametrize("rig", VOLUME, indirect=True)


@pytest.fixture
def dynamo(request: pytest.FixtureRequest) -> Callable[[str], DynamoRig]:
    """Opens the rig of one of the two names that DynamoDB has here."""

    def opened(name: str) -> DynamoRig:
        if name == SERVED:
            return DynamoRig.on_ministack(request.getfixturevalue("ministack"))
        return DynamoRig.in_memory()

    return opened


@pytest.fixture
def open_rig(dynamo: Callable[[str], DynamoRig]) -> OpenRig:
    return lambda name, folder: RIGS[name](folder) if name in RIGS else dynamo(name)


@pytest.fixture(params=named())
def rig(request: pytest.FixtureRequest, open_rig: OpenRig, tmp_path: Path) -> Iterator[Rig]:
    made = open_rig(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def memory(rig: Rig) -> MemoryTable:
    """The table behind the DynamoDB rig in memory, for tests that bring that rig."""
    assert isinstance(rig, DynamoRig)
    assert isinstance(rig.client, MemoryTable)
    return rig.client


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
