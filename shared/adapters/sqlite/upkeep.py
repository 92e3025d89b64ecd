"""What a vault's file needs besides its writes: free pages given back to the disk, its log folded in, its mark removed.

Every step holds the vault's write lock for a bounded time and no reader's, so that requests go on meanwhile.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable

from shared.adapters.sqlite.database import BUSY_SECONDS, Database
from shared.adapters.sqlite.files import VaultFiles, something_waits
from shared.adapters.sqlite.schema import SPAN_INDEX
from shared.domain.errors import NotFound, StaleEpoch, StrataError
from shared.domain.memory import VaultRef

log = logging.getLogger(__name__)

QUIET_S = 5.0
"""Without a write for so long, a vault is left in order."""
LONGEST_S = 60.0
"""Between two looks at a vault that cannot be left in order yet."""
PAGES_AT_ONCE = 256
SPARE_PAGES = 64
"""Free pages that are kept for the next rows, or an eighth of the file where that is more."""
REWRITTEN_PAGES = 2_048
"""A file of at most so many pages is written anew, which takes no longer than some steps and tidies used pages too."""

INCREMENTAL = 2


class Upkeep:
    """Looks after the vaults that were written. For one thread."""

    def __init__(
        self, files: VaultFiles, quiet_s: float = QUIET_S, note: Callable[[VaultRef], None] = lambda vault: None
    ) -> None:
        """`note` is told of vaults that cannot be left in order because something in them waits, at every look."""
        self._files = files
        self._note = note
        self._quiet_s = quiet_s
        self._round: deque[VaultRef] = deque()
        self._looks: dict[VaultRef, tuple[float, float]] = {}
        """When each vault was looked at last, and how long it may wait from then on."""

    def step(self) -> bool:
        """Take one step at one vault whose turn has come; whether there may be another to take at once."""
        if not self._round:
            self._round.extend(self._due())
        if not self._round:
            return False
        vault = self._round.popleft()
        try:
            more = self._tend(vault)
        except (StaleEpoch, NotFound):
            more = False
        except StrataError as error:
            log.warning("upkeep of a vault has to wait: %s", error.code)
            more = False
            self._look_again(vault, LONGEST_S)
        if more:
            self._round.append(vault)
        return bool(self._round)

    def _due(self) -> list[VaultRef]:
        now, dirty = time.monotonic(), self._files.dirty()
        self._looks = {vault: look for vault, look in self._looks.items() if vault in dirty}
        due = []
        for vault, written in dirty.items():
            looked, patience = self._looks.get(vault, (written, self._quiet_s))
            if now >= looked + (patience if looked >= written else self._quiet_s):
                due.append(vault)
        return due

    def _look_again(self, vault: VaultRef, at_most: float) -> None:
        """A vault in which something waits is asked ever more rarely until it is written."""
        _, patience = self._looks.get(vault, (0.0, self._quiet_s / 2))
        self._looks[vault] = (time.monotonic(), min(2 * patience, at_most))

    def _tend(self, vault: VaultRef) -> bool:
        database = self._files.database(vault)
        with database.alone() as connection:
            # Does nothing but in a file of an earlier version.
            connection.execute(SPAN_INDEX)
            if _give_back(connection):
                return True
        written = self._files.written(vault)
        if written is None or time.monotonic() - written < self._quiet_s:
            self._looks[vault] = (time.monotonic(), self._quiet_s)
        elif not self._left_in_order(vault, database):
            self._look_again(vault, LONGEST_S)
        return False

    def _left_in_order(self, vault: VaultRef, database: Database) -> bool:
        with database.bare() as connection:
            # Most of the log without the lock; what is left of it then is little.
            _fold_in(connection, "PASSIVE")
        with database.alone() as connection:
            folded, waits = _fold_in(connection, "TRUNCATE"), something_waits(connection)
            if folded and not waits:
                self._files.clean(vault)
        if waits:
            self._note(vault)
        return folded and not waits


def _give_back(connection: sqlite3.Connection) -> bool:
    """Make the file smaller by one step; whether it did."""
    pages, free, mode = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "auto_vacuum")
    )
    if free <= max(SPARE_PAGES, pages // 8):
        return False
    if pages <= REWRITTEN_PAGES:
        # It also makes a file of an earlier version one that can shrink by steps.
        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
        connection.execute("VACUUM")
        return True
    if mode != INCREMENTAL:
        return False
    # As a script: by `execute` the statement would be left after its first page.
    connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
    return True


def _fold_in(connection: sqlite3.Connection, how: str) -> bool:
    """Bring the log into the file, synced, without waiting for a reader; whether all of it is in."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        busy, in_log, moved = connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    return not busy and in_log == moved
