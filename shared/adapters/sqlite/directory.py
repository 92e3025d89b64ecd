"""Keys, vaults and metering in one SQLite file."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.adapters.sqlite.database import Connect, Database, MakeLock, connect, refuse
from shared.adapters.sqlite.schema import KEYS
from shared.domain.errors import NotFound, StaleEpoch, StrataError
from shared.domain.memory import VaultRef
from shared.ports.directory import KeyRecord, VaultRecord
from shared.ports.usage import UsageRow

KEY_COLUMNS = "k.id, k.hash, k.vault, k.name, k.scopes, k.written, k.minted_by, k.last_used, k.disabled"
VAULT_COLUMNS = "v.id, v.epoch, v.written, v.model, v.importing"
TOUCH_EVERY_MS = 60_000
FIRST_EPOCH = 1
log = logging.getLogger(__name__)


def _key(row: tuple[Any, ...]) -> KeyRecord:
    scopes = frozenset(row[4].split())
    return KeyRecord(row[0], row[1], row[2], row[3], scopes, row[5], row[6], row[7], bool(row[8]))


def _vault(row: tuple[Any, ...]) -> VaultRecord:
    return VaultRecord(row[0], row[1], row[2], row[3], row[4])


def _any_vault(folder: Path) -> bool:
    """Whether there is a vault's file; looks no further than the first."""
    if not folder.exists():
        return False
    with os.scandir(folder) as entries:
        return any(entry.name.endswith(".sqlite3") for entry in entries)


def _stale() -> StaleEpoch:
    return StaleEpoch("The vault's content was replaced while the request ran.")


class SqliteDirectory:
    """`shared.ports.directory.Directory`, and the list of contents that wait to be purged."""

    def __init__(self, folder: Path, connect: Connect = connect, lock: MakeLock = threading.Lock) -> None:
        path = folder / "keys.sqlite3"
        vaults = _any_vault(folder / "vaults")
        if not path.exists() and vaults:
            raise refuse(path, "it is missing, while there are vaults that only its keys open")
        self._database = Database(path, KEYS, connect, lock, may_begin=not vaults)
        self._touched: dict[str, int] = {}

    @property
    def database(self) -> Database:
        return self._database

    def open(self, key_hash: str) -> tuple[KeyRecord, VaultRecord] | None:
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {KEY_COLUMNS}, {VAULT_COLUMNS} FROM key k JOIN vault v ON v.id = k.vault WHERE k.hash = ?",
                (key_hash,),
            ).fetchone()
        return None if row is None else (_key(row[:9]), _vault(row[9:]))

    def vault(self, vault_id: str) -> VaultRecord:
        with self._database.read() as connection:
            row = connection.execute(f"SELECT {VAULT_COLUMNS} FROM vault v WHERE v.id = ?", (vault_id,)).fetchone()
        if row is None:
            raise NotFound("There is no such vault.")
        return _vault(row)

    def current(self, vault_id: str) -> tuple[int, int | None]:
        """The epochs under which a vault's file may exist: its content's, and the one an import writes into."""
        record = self.vault(vault_id)
        return record.epoch, record.importing

    def was_made(self, vault: VaultRef) -> bool:
        with self._database.read() as connection:
            row = connection.execute("SELECT made FROM vault WHERE id = ?", (vault.vault_id,)).fetchone()
        return row is not None and vault.epoch <= row[0]

    def made(self, vault: VaultRef) -> None:
        with self._database.write() as connection:
            # An import's file is noted when it becomes the content: until then the content's own may come later.
            connection.execute(
                "UPDATE vault SET made = MAX(made, ?1) WHERE id = ?2 AND epoch = ?1", (vault.epoch, vault.vault_id)
            )

    def add(self, key: KeyRecord) -> KeyRecord:
        with self._database.write() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO key (id, hash, vault, name, scopes, written, minted_by) VALUES (?,?,?,?,?,?,?)",
                (
                    key.key_id,
                    key.key_hash,
                    key.vault_id,
                    key.name,
                    " ".join(sorted(key.scopes)),
                    key.created_ms,
                    key.minted_by,
                ),
            )
            row = connection.execute(f"SELECT {KEY_COLUMNS} FROM key k WHERE hash = ?", (key.key_hash,)).fetchone()
            stored = _key(row)
            connection.execute(
                "INSERT OR IGNORE INTO vault (id, epoch, written) VALUES (?,?,?)",
                (stored.vault_id, FIRST_EPOCH, stored.created_ms),
            )
        return stored

    def listed(self, vault_id: str, minted_by: str) -> Sequence[KeyRecord]:
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {KEY_COLUMNS} FROM key k WHERE disabled = 0 AND (vault = ? OR minted_by = ?)"
                " ORDER BY written, id",
                (vault_id, minted_by),
            )
            return [_key(row) for row in rows]

    def disable(self, key_id: str, vault_id: str, minted_by: str) -> bool:
        with self._database.write() as connection:
            changed = connection.execute(
                "UPDATE key SET disabled = 1 WHERE id = ? AND disabled = 0 AND (vault = ? OR minted_by = ?)",
                (key_id, vault_id, minted_by),
            )
            return changed.rowcount == 1

    def touch(self, key_id: str, now_ms: int) -> None:
        if now_ms - self._touched.get(key_id, 0) < TOUCH_EVERY_MS:
            return
        self._touched[key_id] = now_ms
        with self._database.write() as connection:
            connection.execute("UPDATE key SET last_used = ? WHERE id = ?", (now_ms, key_id))

    def bind_model(self, vault: VaultRef, model: str) -> str:
        with self._database.write() as connection:
            connection.execute(
                "UPDATE vault SET model = ?1 WHERE id = ?2 AND model IS NULL AND ?3 IN (epoch, importing)",
                (model, vault.vault_id, vault.epoch),
            )
            row = connection.execute(
                "SELECT model FROM vault WHERE id = ?1 AND ?2 IN (epoch, importing)", (vault.vault_id, vault.epoch)
            ).fetchone()
            if row is None:
                raise _stale()
            return str(row[0])

    def next_epoch(self, vault_id: str, unbind: bool) -> int:
        with self._database.write() as connection:
            row = connection.execute(
                "UPDATE vault SET epoch = MAX(epoch, COALESCE(importing, 0)) + 1, importing = NULL,"
                " model = CASE WHEN ? THEN NULL ELSE model END WHERE id = ? RETURNING epoch",
                (unbind, vault_id),
            ).fetchall()
            if not row:
                raise NotFound("There is no such vault.")
            connection.execute("INSERT OR REPLACE INTO purge (vault, below) VALUES (?,?)", (vault_id, row[0][0]))
            return int(row[0][0])

    def open_import(self, vault: VaultRef) -> int:
        with self._database.write() as connection:
            row = connection.execute(
                "UPDATE vault SET importing = COALESCE(importing, epoch + 1) WHERE id = ? AND epoch = ?"
                " RETURNING importing",
                (vault.vault_id, vault.epoch),
            ).fetchall()
            if not row:
                raise _stale()
            return int(row[0][0])

    def cancel_import(self, vault: VaultRef, importing: int) -> None:
        with self._database.write() as connection:
            connection.execute(
                "UPDATE vault SET importing = NULL WHERE id = ? AND epoch = ? AND importing = ?",
                (vault.vault_id, vault.epoch, importing),
            )

    def finish_import(self, vault: VaultRef, importing: int) -> None:
        with self._database.write() as connection:
            changed = connection.execute(
                "UPDATE vault SET epoch = ?1, made = ?1, importing = NULL WHERE id = ?2 AND epoch = ?3"
                " AND importing = ?1",
                (importing, vault.vault_id, vault.epoch),
            )
            if changed.rowcount != 1:
                raise _stale()
            connection.execute("INSERT OR REPLACE INTO purge (vault, below) VALUES (?,?)", (vault.vault_id, importing))

    def waiting_purges(self) -> Sequence[tuple[str, int]]:
        """(vault id, first epoch to keep) of contents that were dropped and may still be on disk."""
        with self._database.read() as connection:
            return connection.execute("SELECT vault, below FROM purge").fetchall()

    def purged(self, vault_id: str, below: int) -> None:
        with self._database.write() as connection:
            connection.execute("DELETE FROM purge WHERE vault = ? AND below = ?", (vault_id, below))


MOST_COUNTED = 10_000
"""Keys whose calls are remembered before those of minutes gone by are dropped."""


class SqliteUsage:
    """`shared.ports.usage.UsageMeter`, in the key file, not synced to disk on every request."""

    def __init__(self, folder: Path, connect: Connect = connect, lock: MakeLock = threading.Lock) -> None:
        self._database = Database(folder / "keys.sqlite3", KEYS, connect, lock, synchronous="NORMAL")
        # One process owns the folder, so its memory is where every call is counted.
        self._lock = lock()
        self._calls: dict[str, tuple[int, int]] = {}

    def call(self, key_id: str, minute: int) -> int:
        with self._lock:
            if len(self._calls) >= MOST_COUNTED:
                self._calls = {key: each for key, each in self._calls.items() if each[0] >= minute}
            counted, calls = self._calls.get(key_id, (minute, 0))
            calls = calls + 1 if counted == minute else 1
            self._calls[key_id] = minute, calls
            return calls

    def record(self, key_id: str, day: str, operation: str, tokens: int, requests: int) -> None:
        try:
            with self._database.write() as connection:
                connection.execute(
                    "INSERT INTO usage VALUES (?1,?2,?3,?4,?5) ON CONFLICT DO UPDATE SET"
                    " requests = requests + ?4, tokens = tokens + ?5",
                    (key_id, day, operation, requests, tokens),
                )
        except StrataError as error:
            log.warning("usage was not recorded: %s", error.message)

    def read(self, key_id: str, first_day: str, last_day: str) -> Sequence[UsageRow]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT day, operation, requests, tokens FROM usage WHERE key = ? AND day BETWEEN ? AND ?"
                " ORDER BY day, operation",
                (key_id, first_day, last_day),
            )
            return [UsageRow(*row) for row in rows]

    def close(self) -> None:
        self._database.close()
