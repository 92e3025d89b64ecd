"""Where the change stream puts what it can never handle, with the reason, so that one bad item holds up no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from shared.domain.memory import VaultRef


class Kind(Enum):
    """What there is to do about an item of the table that changed."""

    INDEX = "index"
    """Bring the row `name` of the vault up to date in the search index."""
    SETTLE = "settle"
    """Finish what a commit or a reopen of the batch `name` began."""
    PUBLISH = "publish"
    """Finish the large write `name`."""
    PURGE = "purge"
    """Remove every content of the vault below the epoch; `name` is empty."""


@dataclass(frozen=True, slots=True)
class Task:
    """Names only: whoever works on it reads the table as it is then."""

    kind: Kind
    vault: VaultRef
    name: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    task: Task
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message and the letters in it, which are none where somebody else wrote it; `body` is its text then."""

    receipt: str
    letters: tuple[DeadLetter, ...]
    body: str = ""


class DeadLetters(Protocol):
    """Raises `Unavailable` when it does not answer."""

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Keep the letters; when it returns they are durable as far as the adapter can be."""
        ...

    def receive(self) -> tuple[Received, ...]:
        """Some messages, hidden from other readers for a while; none when nothing is left that is not hidden."""
        ...

    def discard(self, receipt: str) -> None:
        """Remove a message for good."""
        ...
