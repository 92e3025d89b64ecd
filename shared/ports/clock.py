"""The server's clock and its source of fresh names."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall-clock time. It may jump; no promise of the vault rests on it being right."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class Ids(Protocol):
    """Fresh, unguessable names."""

    def memory_ids(self, count: int) -> list[str]:
        """UUIDv7, canonical text, strictly growing within one call and never handed out twice."""
        ...

    def batch_id(self) -> str:
        """``cb_`` and 32 hexadecimal digits."""
        ...

    def vault_id(self) -> str:
        """A UUID that names a vault; never shown to clients."""
        ...

    def key(self) -> str:
        """``mk_`` and 32 URL-safe random characters."""
        ...
