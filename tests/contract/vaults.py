"""Vaults of a rig that has a directory and a store."""

from __future__ import annotations

from collections.abc import Iterator

from shared.domain.memory import VaultRef
from shared.ports.directory import Directory, KeyRecord
from shared.ports.store import MemoryStore
from tests.contract.rows import NOW, uuid7


class Vaults:
    """What a rig does to vaults, whatever keeps them."""

    directory: Directory
    store: MemoryStore
    _numbers: Iterator[int]

    def new_vault(self) -> VaultRef:
        number = next(self._numbers)
        key = KeyRecord(f"key-{number}", f"{number:064x}", uuid7(number), "", frozenset(), NOW)
        return self.directory.vault(self.directory.add(key).vault_id).ref

    def dropped(self, vault: VaultRef) -> VaultRef:
        epoch = self.directory.next_epoch(vault.vault_id, unbind=False)
        self.store.purge(vault.vault_id, epoch)
        return VaultRef(vault.vault_id, epoch)

    def importing(self, vault: VaultRef) -> VaultRef:
        return VaultRef(vault.vault_id, self.directory.open_import(vault))
