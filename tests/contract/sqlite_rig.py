"""The embedded back end in a folder of its own."""

from __future__ import annotations

import sqlite3
import threading
from itertools import count
from pathlib import Path
from typing import Any

from shared.adapters.sqlite.database import Connect, MakeLock
from shared.adapters.sqlite.directory import SqliteDirectory
from shared.adapters.sqlite.files import VaultFiles
from shared.adapters.sqlite.outbox import Outbox
from shared.adapters.sqlite.store import SqliteStore
from tests.contract.vaults import Vaults


class Unsynced(sqlite3.Connection):
    """A connection that does not wait for the disk: these tests end processes, they do not cut the power."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return super().execute("PRAGMA synchronous = OFF" if sql.startswith("PRAGMA synchronous") else sql, parameters)


def connect(path: Path, connection: type[sqlite3.Connection] = Unsynced, seconds: float = 20.0) -> sqlite3.Connection:
    """An existing file, opened as the adapter itself opens it."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=seconds,
        isolation_level=None,
        check_same_thread=False,
        factory=connection,
    )


class SqliteRig(Vaults):
    """`connect` and `lock` are what the adapters open files and queue writers with."""

    directory: SqliteDirectory
    store: SqliteStore

    def __init__(self, folder: Path, connect: Connect = connect, lock: MakeLock = threading.Lock) -> None:
        self._folder, self._connect, self._lock = folder, connect, lock
        self._numbers = count(1)
        self._start()

    def _start(self) -> None:
        self.directory = SqliteDirectory(self._folder, self._connect, self._lock)
        self.files = VaultFiles(self._folder, self.directory, self._connect, self._lock)
        self.feed = Outbox(self.files)
        self.store = SqliteStore(self.files, self.feed, self.directory.purged)

    def restart(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        self.files.close()
        self.directory.database.close()
