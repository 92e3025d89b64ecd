"""What the search index keeps in memory, vault by vault, and the lock that orders the changes to each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from shared.adapters.sqlite.files import MAX_OPEN
from shared.adapters.sqlite.resident import ResidentIndex
from shared.domain.memory import VaultRef

TERM_BYTES = 150
"""A stem and its number in memory, roughly."""


class Slot:
    """One vault's place: its lock, its index once it was read, and the numbers of the stems met last.

    `users` counts the threads that have the slot or wait for it; it belongs to `Slots`.
    """

    KEPT_TERMS = 100_000

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0
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

    @contextmanager
    def following(self) -> Iterator[ResidentIndex | None]:
        """The index, to be told of a change that is on disk. If that fails, it is read again when it is needed."""
        try:
            yield self.index
        except BaseException:
            self.index = None
            raise


class Slots:
    """Slots of the vaults used last: at most `limit`, with `limit_terms` numbers of stems, those in use apart.

    `shrink` holds them to `limit_bytes` as well. A slot in use is never let go of: so a vault has one lock at a time.
    """

    def __init__(self, limit_bytes: int, limit: int = MAX_OPEN, limit_terms: int = 4 * Slot.KEPT_TERMS) -> None:
        self._limit_bytes = limit_bytes
        self._limit = limit
        self._limit_terms = limit_terms
        self._slots: OrderedDict[VaultRef, Slot] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._slots)

    @contextmanager
    def held(self, vault: VaultRef) -> Iterator[Slot]:
        """The vault's slot, its lock taken."""
        with self._lock:
            slot = self._slots.setdefault(vault, Slot())
            slot.users += 1
            self._slots.move_to_end(vault)
        try:
            with slot.lock:
                yield slot
        finally:
            with self._lock:
                slot.users -= 1
                self._trim()

    def shrink(self, keep: VaultRef) -> None:
        """Let go of the vaults used longest ago but `keep`, until the rest fits the limit."""
        with self._lock:
            used = sum(slot.bytes_used() for slot in self._slots.values())
            for vault in self._idle():
                if used <= self._limit_bytes:
                    return
                if vault != keep:
                    used -= self._slots.pop(vault).bytes_used()

    def _trim(self) -> None:
        terms = sum(slot.terms_kept for slot in self._slots.values())
        if len(self._slots) <= self._limit and terms <= self._limit_terms:
            return
        for vault in self._idle():
            terms -= self._slots.pop(vault).terms_kept
            if len(self._slots) <= self._limit and terms <= self._limit_terms:
                return

    def _idle(self) -> list[VaultRef]:
        return [vault for vault, slot in self._slots.items() if not slot.users]
