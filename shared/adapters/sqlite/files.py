"""The data folder: one file for keys, one file per vault and epoch, and one process that owns them all."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol
from weakref import WeakValueDictionary

from shared.adapters.sqlite.database import Connect, Database, MakeLock, connect, refuse
from shared.adapters.sqlite.marks import DirtyMarks
from shared.adapters.sqlite.schema import VAULT
from shared.domain.errors import StaleEpoch, StrataError, Unavailable
from shared.domain.memory import VaultRef

log = logging.getLogger(__name__)

MAX_OPEN = 64
"""Vaults whose connections are kept between requests."""


class Epochs(Protocol):
    """The directory's part in making files."""

    def current(self, vault_id: str) -> tuple[int, int | None]:
        """The epochs under which a file may exist: the content's, and the one that an import writes into."""
        ...

    def was_made(self, vault: VaultRef) -> bool:
        """Whether a file of this epoch was made before."""
        ...

    def made(self, vault: VaultRef) -> None:
        """Note that the file of this epoch is there now."""
        ...


class FolderOwner:
    """Ownership of a data folder for the life of this object. The lock goes with the process, however it ends."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = os.open(folder / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise refuse(folder, error.strerror or "it cannot be opened") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise Unavailable(
                f"The data folder {folder} is in use by another strata server.",
                code="storage_unavailable",
                hint="Stop that server, or give this one another folder with STRATA_DATA.",
            ) from error

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> FolderOwner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class VaultFiles:
    """Opens vaults on demand and keeps the most recently used ones open.

    Who holds a vault that is not among them any more uses it all the same, and whoever asks for it meanwhile is given
    the same: writers of a vault always queue on one lock.

    A file is only ever made for an epoch that the directory names at that moment, and only once: one that is missing
    later is a loss to report, not a vault to begin anew. Files are made and removed under one lock, so that a content
    that was dropped cannot come back.
    """

    def __init__(
        self,
        folder: Path,
        epochs: Epochs,
        connect: Connect = connect,
        lock: MakeLock = threading.Lock,
        max_open: int = MAX_OPEN,
    ) -> None:
        self._folder = folder / "vaults"
        self._epochs = epochs
        self._connect = connect
        self._make_lock = lock
        self._max_open = max_open
        self._open: OrderedDict[VaultRef, Database] = OrderedDict()
        self._held: WeakValueDictionary[VaultRef, Database] = WeakValueDictionary()
        """Every vault that somebody has at hand, those of `_open` included."""
        self._lock = threading.Lock()
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise refuse(self._folder, error.strerror or "it cannot be opened") from error
        self._marks = DirtyMarks(folder / "dirty", self.stored)

    def path(self, vault: VaultRef) -> Path:
        return self._folder / f"{vault.vault_id}.{vault.epoch}.sqlite3"

    def database(self, vault: VaultRef) -> Database:
        """The vault's file, made when it is the vault's content now. Raises `StaleEpoch` when it is not."""
        evicted: Database | None = None
        with self._lock:
            database = self._open.get(vault)
            if database is not None:
                self._open.move_to_end(vault)
                return database
            database = self._held.get(vault)
            if database is None or database.closed:
                database = self._held[vault] = self._opened(vault)
            database.kept = True
            self._open[vault] = database
            if len(self._open) > self._max_open:
                evicted = self._open.popitem(last=False)[1]
                evicted.kept = False
        if evicted is not None:
            # Closing a file's last connection writes its log back: nobody else waits for that.
            evicted.let_go()
        return database

    def _opened(self, vault: VaultRef) -> Database:
        path = self.path(vault)
        fresh = not path.exists()
        if fresh and vault.epoch not in self._epochs.current(vault.vault_id):
            raise StaleEpoch("The vault's content was replaced while the request ran.")
        made = self._epochs.was_made(vault)
        if fresh and made:
            raise refuse(path, "it is missing")
        note = partial(self._marks.note, vault)
        database = Database(path, VAULT, self._connect, self._make_lock, may_begin=not made, before_write=note)
        if fresh:
            self._epochs.made(vault)
        elif vault not in self._marks:
            self._mark_if_waiting(vault, database)
        return database

    def _mark_if_waiting(self, vault: VaultRef, database: Database) -> None:
        """A file put back from a copy, or written by a version without marks, may hold what its mark should tell of."""
        try:
            with database.read() as connection:
                waits = something_waits(connection)
            if waits:
                self._marks.note(vault)
        except StrataError as error:
            # What can be read of a damaged file, or beside a full disk, can be read all the same.
            log.warning("whether something waits in a vault is not known: %s", error.code)

    def dirty(self) -> dict[VaultRef, float]:
        """Contents written since they were last left in order, and when, by the monotonic clock.

        Of those that were opened, only they can hold changes or passages that wait. Those of earlier runs come with the
        time of the start, those found to have something waiting with the time they were opened at. Marks without a file
        are removed: a writer that waits while its content is dropped leaves one.
        """
        written = self._marks.written()
        gone = [vault for vault in written if not self.path(vault).exists()]
        for vault in gone:
            del written[vault]
            with self._lock:
                # No file is made meanwhile: a mark that is set again has one.
                if not self.path(vault).exists():
                    self._marks.remove(vault)
        return written

    def written(self, vault: VaultRef) -> float | None:
        """When a vault was written last, as `dirty` says; None when it is not dirty."""
        return self._marks.written().get(vault)

    def clean(self, vault: VaultRef) -> None:
        """Leave the vault in order. To be called while nobody can write to it, once nothing in it waits."""
        self._marks.remove(vault)

    def stored(self) -> list[VaultRef]:
        """Every content that has a file, dropped ones that are not unlinked yet included. Other files are let be."""
        return [vault for path in sorted(self._folder.glob("*.sqlite3")) if (vault := _content_of(path)) is not None]

    def drop(self, vault_id: str, below_epoch: int) -> None:
        """Seal and unlink every file of the vault with an epoch below the one given."""
        for path in sorted(self._folder.glob(f"{vault_id}.*.sqlite3")):
            vault = _content_of(path)
            if vault is None or vault.epoch >= below_epoch:
                continue
            with self._lock:
                database = self._taken_out(vault)
            if database is not None:
                with database.write() as connection:
                    connection.execute("UPDATE vault SET sealed = 1")
                database.close()
            with self._lock:
                # Opened again since: its users must learn that it is gone, not that a file is missing.
                opened_again = self._taken_out(vault)
                if opened_again is not None:
                    opened_again.close()
                # The file itself last: a purge that dies here finds it again, and with it the rest.
                for suffix in ("-wal", "-shm", ""):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._marks.remove(vault)

    def _taken_out(self, vault: VaultRef) -> Database | None:
        self._open.pop(vault, None)
        database = self._held.pop(vault, None)
        return None if database is None or database.closed else database

    def close(self) -> None:
        with self._lock:
            databases = list(self._held.values())
            self._open.clear()
        for database in databases:
            database.close()


def something_waits(connection: sqlite3.Connection) -> bool:
    """Whether the vault holds changes that are not indexed or passages without a vector."""
    return bool(
        connection.execute(
            "SELECT EXISTS (SELECT 1 FROM outbox) OR EXISTS (SELECT 1 FROM passage WHERE vector IS NULL)"
        ).fetchone()[0]
    )


def _content_of(path: Path) -> VaultRef | None:
    """What the name of a vault's file says; None for a file that is named otherwise, such as a copy beside it."""
    parts = path.name.split(".")
    return VaultRef(parts[0], int(parts[1])) if len(parts) == 3 and parts[1].isdecimal() else None
