"""How large an answer may be, measured as it travels: compact JSON in UTF-8, wrapped in a JSON string once more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

MAX_RESPONSE_BYTES = 5_767_168
"""5.5 MiB. Lambda refuses answers above 6 MB, its own envelope included."""

ENVELOPE_BYTES = 16_384
"""Room for what stands around the rows: the debt block, the window, headers."""

ROWS_BYTES = MAX_RESPONSE_BYTES - ENVELOPE_BYTES


def wire_bytes(value: object) -> int:
    """Bytes of `value` as part of a body that is itself sent as a JSON string."""
    return wrapped_bytes(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def wrapped_bytes(text: str) -> int:
    """Bytes of JSON text inside a JSON string.

    JSON has no raw control characters within a line, so wrapping adds one byte for each quote and each backslash.
    """
    return len(text.encode("utf-8")) + text.count('"') + text.count("\\")


def fit(rows: Sequence[Mapping[str, object]], budget: int = ROWS_BYTES) -> tuple[list[Mapping[str, object]], bool]:
    """The first rows that fit `budget` bytes, and whether any was left out. The first row always comes."""
    used = 0
    for number, row in enumerate(rows):
        used += wire_bytes(row) + 1
        if number and used > budget:
            return list(rows[:number]), True
    return list(rows), False
