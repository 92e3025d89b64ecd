"""Dead letters of a single process: kept in memory and said in its log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from itertools import count

from shared.domain.errors import Unavailable
from shared.ports.dead_letters import DeadLetter, Received

log = logging.getLogger("strata.dead_letters")

KEPT = 1_000


class MemoryLetters:
    """`shared.ports.dead_letters.DeadLetters`. Keeps the latest 1,000 messages; a restart forgets them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._kept: dict[str, tuple[DeadLetter, ...]] = {}
        self._hidden: set[str] = set()

    def send(self, letters: Sequence[DeadLetter]) -> None:
        if not letters:
            return
        for letter in letters:
            log.error("%s %s of a vault was given up: %s", letter.task.kind.value, letter.task.name, letter.reason)
        with self._lock:
            self._kept[str(next(self._numbers))] = tuple(letters)
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]

    def receive(self) -> tuple[Received, ...]:
        with self._lock:
            found = tuple(Received(name, letters) for name, letters in self._kept.items() if name not in self._hidden)
            # Whoever saw all of them may begin again.
            self._hidden = self._hidden | {each.receipt for each in found} if found else set()
            return found

    def discard(self, receipt: str) -> None:
        with self._lock:
            self._kept.pop(receipt, None)
            self._hidden.discard(receipt)


class KeptBack:
    """Takes no letter: where changes wait in an outbox of their own, what cannot be handled stays there."""

    def send(self, letters: Sequence[DeadLetter]) -> None:
        if letters:
            raise Unavailable("The changes stay in the outbox.", code="storage_unavailable", retry_after=60)

    def receive(self) -> tuple[Received, ...]:
        return ()

    def discard(self, receipt: str) -> None:
        return None
