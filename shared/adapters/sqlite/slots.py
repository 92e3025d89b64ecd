"""What the search index keeps in memory, vault by vault, and the lock that orders the changes to each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from shared.adapters.sqlite.resident import ResidentIndex
from shared.domain.memory import VaultRef

MAX_SLOTS = 4_096
TERM_BYTES = 150
"""A stem and its number in memory, roughly."""


class Slot:
    """One vault's place: its lock, its index once it was read, and the numbers of the stems met last.

    `users` counts the threads that have the slot or wait for it, `counted` is what it held when it was counted last,
    in terms and in bytes; both belong to `Slots`.
    """

    KEPT_TERMS = 100_000

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0
        self.counted = (0, 0)
        self.index: ResidentIndex | None = None
        self._terms: dict[str, int] = {}

    @property
    def terms_kept(self) -> int:
        return len(self._terms)

    def bytes_used(self) -> int:
        return TERM_BYTES * len(self._terms) + (0 if self.index is None else self.index.bytes_used())

    @contextmanager
    def numbering(self) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        """Stems and their numbers as far as they are in memory, and a place for those that a write adds.

        A number on disk never comes to mean another stem. If the write fails, what it added is forgotten.
        """
        if len(self._terms) > self.KEPT_TERMS:
            self._terms.clear()
        added: dict[str, int] = {}
        try:
            yield self._terms, added
        except BaseException:
            self.forget(added)
            raise

    def forget(self, stems: Iterable[str]) -> None:
        for stem in stems:
            self._terms.pop(stem, None)

    def forget_all(self) -> None:
        self._terms.clear()

    @contextmanager
    def following(self) -> Iterator[ResidentIndex | None]:
        """The index, to be told of a change that is on disk. If that fails, it is read again when it is needed."""
        try:
            yield self.index
        except BaseException:
            self.index = None
            raise


class Slots:
    """Slots of the vaults used last: at most `limit`, with `limit_bytes` in memory and `limit_terms` numbers of stems.

    Those in use are never let go of: so a vault has one lock at a time. Nor is the one used last, however large it is.
    """

    def __init__(self, limit_bytes: int, limit: int = MAX_SLOTS, limit_terms: int = 4 * Slot.KEPT_TERMS) -> None:
        self._limit_bytes = limit_bytes
        self._limit = limit
        self._limit_terms = limit_terms
        self._slots: OrderedDict[VaultRef, Slot] = OrderedDict()
        self._lock = threading.Lock()
        self._terms = self._bytes = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def bytes_used(self) -> int:
        """What all slots held when each was last used."""
        return self._bytes

    @contextmanager
    def held(self, vault: VaultRef) -> Iterator[Slot]:
        """The vault's slot, its lock taken."""
        with self._lock:
            slot = self._slots.setdefault(vault, Slot())
            slot.users += 1
            self._slots.move_to_end(vault)
        try:
            with slot.lock:
                try:
                    yield slot
                finally:
                    # Before the other lock: the index may be at work for a search, and no other vault waits for that.
                    now = (slot.terms_kept, slot.bytes_used())
                    with self._lock:
                        self._count(slot, now)
        finally:
            with self._lock:
                slot.users -= 1
                self._trim()

    def _count(self, slot: Slot, now: tuple[int, int]) -> None:
        self._terms += now[0] - slot.counted[0]
        self._bytes += now[1] - slot.counted[1]
        slot.counted = now

    def _trim(self) -> None:
        if not (self._too_many() or self._terms > self._limit_terms):
            return
        *others, _ = self._slots.items()
        for vault, slot in others:
            if slot.users:
                continue
            if self._too_many():
                self._count(self._slots.pop(vault), (0, 0))
            elif self._terms > self._limit_terms:
                # Its index stays: that is what takes long to come by.
                slot.forget_all()
                self._count(slot, (0, slot.counted[1] - TERM_BYTES * slot.counted[0]))
            else:
                return

    def _too_many(self) -> bool:
        return len(self._slots) > self._limit or self._bytes > self._limit_bytes
