"""One SQLite file: its connections, its transactions, and what its failures mean."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from shared.domain.errors import StaleEpoch, StrataError, Unavailable

Connect = Callable[[Path], sqlite3.Connection]
MakeLock = Callable[[], AbstractContextManager[object]]

APPLICATION_ID = 0x53545641
BUSY_SECONDS = 20.0
RETRY_SECONDS = 2
MAX_IDLE = 4
"""Connections kept open to one file; each holds three descriptors."""


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing file. Statements run as they are given; transactions are explicit."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def refuse(path: Path, why: str) -> Unavailable:
    return Unavailable(
        f"The data file {path.name} cannot be used: {why}. Nothing in it was changed.",
        code="storage_unavailable",
        hint="Restore the file from a backup, or free the disk and make the data folder writable; then try again.",
        retry_after=RETRY_SECONDS,
    )


def translate(path: Path, error: sqlite3.Error) -> StrataError:
    """The answer that a failure of SQLite stands for."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return Unavailable("The vault is busy.", code="busy", hint="Send the request again.", retry_after=1)
    return refuse(path, text)


class Database:
    """Connections to one file.

    Writers of this process queue on a fair lock instead of SQLite's polling one. A connection on which anything
    unexpected happened is closed, which rolls its transaction back. Connections are kept between transactions while
    `kept` says so; without it the file can be used all the same.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        connect: Connect,
        lock: MakeLock,
        synchronous: str = "FULL",
        *,
        may_begin: bool = True,
        before_write: Callable[[], None] = lambda: None,
    ) -> None:
        """`may_begin` says whether a file without tables is a new one; otherwise it has lost its content.

        `before_write` is called before each writing transaction begins, by one thread at a time.
        """
        self.path = path
        self.closed = False
        self.kept = True
        self._before_write = before_write
        self._connect = connect
        self._synchronous = synchronous
        self._write_lock = lock()
        self._idle: list[sqlite3.Connection] = []
        self._idle_lock = threading.Lock()
        self._prepare(schema, may_begin)

    def _prepare(self, schema: str, may_begin: bool) -> None:
        """Make the tables of a new file. A file of another program is refused before anything in it changes."""
        try:
            if not self.path.exists():
                self.path.touch(mode=0o600)
            connection = self._connect(self.path)
            try:
                self._begin(connection, schema, may_begin)
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
        except sqlite3.Error as error:
            raise translate(self.path, error) from error
        except OSError as error:
            raise refuse(self.path, error.strerror or "it cannot be opened") from error

    def _begin(self, connection: sqlite3.Connection, schema: str, may_begin: bool) -> None:
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if owner != APPLICATION_ID and (owner or tables):
            raise refuse(self.path, "it was not made by this program")
        if not tables and not may_begin:
            raise refuse(self.path, "it is empty, although it held data")
        if not tables:
            # Only a file without pages takes it; older ones stay as they are. Its first page goes to disk with the next
            # pragmas, which write it again.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._tune(connection)
        if not tables:
            connection.execute("BEGIN IMMEDIATE")
            for statement in schema.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")

    def _tune(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")

    def _take(self) -> sqlite3.Connection:
        with self._idle_lock:
            if self.closed:
                raise StaleEpoch("The vault's content was replaced while the request ran.")
            if self._idle:
                return self._idle.pop()
        connection = self._connect(self.path)
        try:
            self._tune(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._idle_lock:
            if self.kept and not self.closed and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _roll_back(self, connection: sqlite3.Connection, *, reuse: bool) -> None:
        """Undo, keeping the connection when that is safe. Closing it undoes as well."""
        if reuse:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                reuse = False
        if reuse:
            self._give_back(connection)
        else:
            connection.close()

    @contextmanager
    def _transaction(self, begin: str, end: str, durable: bool) -> Iterator[sqlite3.Connection]:
        connection: sqlite3.Connection | None = None
        try:
            connection = self._take()
            if not durable:
                connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(begin)
            yield connection
            connection.execute(end)
            if not durable:
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        except StrataError:
            if connection is not None:
                self._roll_back(connection, reuse=durable)
            raise
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            if self.closed:
                raise StaleEpoch("The vault's content was replaced while the request ran.") from error
            raise translate(self.path, error) from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        self._give_back(connection)

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the file's write lock from its first statement on.

        One that is not `durable` is atomic and outlives the process, but not a power cut: fit for what can be derived
        again. Nothing durable that is written before it can be lost with it.
        """
        with self._write_lock:
            self._before_write()
            with self._transaction("BEGIN IMMEDIATE", "COMMIT", durable) as connection:
                yield connection

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A snapshot: every statement sees the same moment."""
        with self._transaction("BEGIN", "COMMIT", durable=True) as connection:
            yield connection

    @contextmanager
    def bare(self) -> Iterator[sqlite3.Connection]:
        """A connection without a transaction."""
        with self._transaction("", "", durable=True) as connection:
            yield connection

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """A connection without a transaction, while no other thread writes. For upkeep: it counts as no write."""
        with self._write_lock, self.bare() as connection:
            yield connection

    def let_go(self) -> None:
        """Close idle connections, unless they are to be kept again by now."""
        with self._idle_lock:
            if self.kept:
                return
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close idle connections and refuse new work; running transactions end on their own."""
        with self._idle_lock:
            self.closed, self.kept = True, False
        self.let_go()
