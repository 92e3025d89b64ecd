"""The change feed of the embedded back end: a table beside the rows, written in their transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from shared.adapters.sqlite.files import VaultFiles
from shared.adapters.sqlite.rows import to_id
from shared.domain.memory import VaultRef
from shared.ports.store import Change


class Outbox:
    """`shared.ports.store.ChangeFeed`."""

    def __init__(self, files: VaultFiles) -> None:
        self._files = files
        self._thread = threading.local()

    def note(self, vault: VaultRef) -> None:
        """Remember, for the calling thread, that the vault has changes to hand on."""
        self._thread.__dict__.setdefault("touched", {})[vault] = None

    def touched(self) -> tuple[VaultRef, ...]:
        touched: dict[VaultRef, None] = self._thread.__dict__.pop("touched", {})
        return tuple(touched)

    def pending(self, vault: VaultRef, limit: int) -> tuple[Change, ...]:
        with self._files.database(vault).read() as connection:
            rows = connection.execute("SELECT seq, id FROM outbox ORDER BY seq LIMIT ?", (limit,))
            return tuple(Change(seq, to_id(raw)) for seq, raw in rows)

    def acknowledge(self, vault: VaultRef, changes: Sequence[Change]) -> None:
        if not changes:
            return
        with self._files.database(vault).write(durable=False) as connection:
            runs = _runs(change.seq for change in changes)
            connection.executemany("DELETE FROM outbox WHERE seq BETWEEN ? AND ?", runs)


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """First and last of every run of neighbours among the numbers."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs
