"""Metering: tokens by operation, per key and day; and calls by the minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one key did on one day (``YYYY-MM-DD``, UTC) with one operation."""

    day: str
    operation: str
    requests: int
    tokens: int


class UsageMeter(Protocol):
    def record(self, key_id: str, day: str, operation: str, tokens: int, requests: int) -> None:
        """Add to a day's sums. Metering never fails a request: an error is logged, not raised."""
        ...

    def call(self, key_id: str, minute: int) -> int:
        """Count one more call of a key in this minute (since 1970): how many there were, this one included.

        0 where it cannot be counted: no call is refused for that.
        """
        ...

    def read(self, key_id: str, first_day: str, last_day: str) -> Sequence[UsageRow]:
        """Rows of the days from first to last, both included, in order of day and operation."""
        ...
