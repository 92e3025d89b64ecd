"""The directory: which key opens which vault, and what state that vault is in. Read consistently on every request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from shared.domain.memory import VaultRef


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as the server knows it: by the SHA-256 of its text (hexadecimal), never the text itself."""

    key_id: str
    key_hash: str
    vault_id: str
    name: str
    scopes: frozenset[str]
    created_ms: int
    minted_by: str | None = None
    last_used_ms: int | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class VaultRecord:
    """`importing` is the epoch that an open import writes into; `model` is bound at the first write."""

    vault_id: str
    epoch: int
    created_ms: int
    model: str | None = None
    importing: int | None = None

    @property
    def ref(self) -> VaultRef:
        return VaultRef(self.vault_id, self.epoch)


class Directory(Protocol):
    """Keys and vaults. All verbs are atomic and durable when they return."""

    def open(self, key_hash: str) -> tuple[KeyRecord, VaultRecord] | None:
        """The key, disabled ones included, and its vault; None for a key that was never seen."""
        ...

    def vault(self, vault_id: str) -> VaultRecord:
        """The vault's record now. Raises `NotFound` for a vault that was never made."""
        ...

    def add(self, key: KeyRecord) -> KeyRecord:
        """Register a key, and its vault when that is new. Of concurrent calls with one hash the first one stays."""
        ...

    def listed(self, vault_id: str, minted_by: str) -> Sequence[KeyRecord]:
        """Enabled keys that open `vault_id` or were minted by the key `minted_by`, oldest first."""
        ...

    def disable(self, key_id: str, vault_id: str, minted_by: str) -> bool:
        """Disable a key that `listed` would show; False when there is none such."""
        ...

    def touch(self, key_id: str, now_ms: int) -> None:
        """Note that a key was used. May be late by an hour and is the one thing here that a crash may lose."""
        ...

    def bind_model(self, vault: VaultRef, model: str) -> str:
        """Bind the vault to a model unless it is bound; returns the bound one. Raises `StaleEpoch`."""
        ...

    def next_epoch(self, vault_id: str, unbind: bool) -> int:
        """Empty the vault for every reader at once: bump the epoch, end any import. Returns the new epoch."""
        ...

    def open_import(self, vault: VaultRef) -> int:
        """The epoch an import writes into; one that is open already goes on. Raises `StaleEpoch`."""
        ...

    def cancel_import(self, vault: VaultRef, importing: int) -> None:
        """Close an import into which nothing was written. Changes nothing when it is not open any more."""
        ...

    def finish_import(self, vault: VaultRef, importing: int) -> None:
        """Make the imported epoch the vault's content. Raises `StaleEpoch` when either epoch moved on."""
        ...
