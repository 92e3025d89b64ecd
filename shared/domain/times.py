"""Instants are integers: milliseconds since 1970-01-01T00:00:00Z. On the wire they are RFC 3339, UTC, with ``Z``."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

DAY_MS = 86_400_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
MIN_MS = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // MILLISECOND
MAX_MS = (datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC) - EPOCH) // MILLISECOND

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(\.\d{1,9})?([Zz]|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)


def to_text(ms: int) -> str:
    """``2026-02-01T04:11:09.000Z``. Instants outside the years 1 to 9999 are clipped to that range."""
    moment = EPOCH + min(max(ms, MIN_MS), MAX_MS) * MILLISECOND
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_date(text: str) -> int | None:
    """The first instant of a date such as ``2026-08-08``, or None when the text is not a bare date.

    Raises `ValueError` for a day that does not exist.
    """
    if not _DATE.fullmatch(text):
        return None
    day = date.fromisoformat(text)
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - EPOCH) // MILLISECOND


def parse_instant(text: str) -> int:
    """A date or a datetime as milliseconds; without an offset it is UTC, below a millisecond it is cut.

    Raises `ValueError` for anything else, and for instants outside the years 1 to 9999.
    """
    day = parse_date(text)
    if day is not None:
        return day
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError("not an ISO 8601 date or datetime")
    day_part, minutes, seconds, fraction, offset = match.groups()
    second_part = seconds or ":00"
    leap = second_part == ":60"
    moment = datetime.fromisoformat(f"{day_part}T{minutes}{':59' if leap else second_part}+00:00")
    ms = (moment - EPOCH) // MILLISECOND + (1000 if leap else int(((fraction or ".0")[1:4]).ljust(3, "0")))
    if offset and offset not in "Zz":
        hours, mins = int(offset[1:3]), int(offset[-2:])
        if hours > 23 or mins > 59:
            raise ValueError("the offset is out of range")
        ms -= (1 if offset[0] == "+" else -1) * (hours * 60 + mins) * 60_000
    if not MIN_MS <= ms <= MAX_MS:
        raise ValueError("outside the years 1 to 9999")
    return ms
