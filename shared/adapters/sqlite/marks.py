"""Which vaults were written since they were last left in order: one empty file each, so no start walks them all."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from shared.adapters.sqlite.database import refuse
from shared.domain.memory import VaultRef


class DirtyMarks:
    """Marks in a folder of their own, and when each marked vault was written last by this process.

    A mark is on the disk before the first write that it stands for. Callers serialise `note` and `remove` for one
    vault. A folder that has no marks yet, an older version's or a restored backup's, has all it holds marked. One that
    is removed while this process runs comes back with the next mark.
    """

    def __init__(self, folder: Path, stored: Callable[[], Iterable[VaultRef]]) -> None:
        self._folder = folder
        self._written: dict[VaultRef, float] = {}
        self._remaking = threading.Lock()
        try:
            if not folder.exists():
                self._begin(stored())
            before = time.monotonic()
            for path in folder.iterdir():
                name, _, epoch = path.name.rpartition(".")
                if name and epoch.isdecimal():
                    self._written[VaultRef(name, int(epoch))] = before
        except OSError as error:
            raise refuse(folder, error.strerror or "it cannot be opened") from error

    def _begin(self, vaults: Iterable[VaultRef]) -> None:
        """Appears whole or not at all: half the marks would hide the other vaults."""
        made = self._folder.with_name(f"{self._folder.name}.new")
        made.mkdir(parents=True, exist_ok=True, mode=0o700)
        for vault in vaults:
            (made / _name(vault)).touch(mode=0o600)
        _sync(made)
        made.rename(self._folder)
        _sync(self._folder.parent)

    def note(self, vault: VaultRef) -> None:
        """The vault is about to be written. Raises `Unavailable`."""
        if vault not in self._written:
            try:
                try:
                    self._touch(vault)
                except FileNotFoundError:
                    self._remake(vault)
            except OSError as error:
                raise refuse(self._folder, error.strerror or "it cannot be written") from error
        self._written[vault] = time.monotonic()

    def _touch(self, vault: VaultRef) -> None:
        (self._folder / _name(vault)).touch(mode=0o600)
        _sync(self._folder)

    def _remake(self, vault: VaultRef) -> None:
        with self._remaking:
            if self._folder.exists():
                self._touch(vault)
            else:
                self._begin({*self.written(), vault})

    def __contains__(self, vault: VaultRef) -> bool:
        return vault in self._written

    def remove(self, vault: VaultRef) -> None:
        """Everything that was written is on the disk and nothing in the vault waits. A mark left over does no harm."""
        self._written.pop(vault, None)
        with suppress(OSError):
            (self._folder / _name(vault)).unlink(missing_ok=True)

    def written(self) -> dict[VaultRef, float]:
        """When each marked vault was written last, by the monotonic clock; the start for those found at the start."""
        return dict(self._written)


def _name(vault: VaultRef) -> str:
    return f"{vault.vault_id}.{vault.epoch}"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
