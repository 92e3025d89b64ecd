"""Instants and periods as a person writes them, in UTC; spelled here because a process's locale must not change them.

Instants outside the years 1 to 9999 are clipped to that range, as on the wire.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from shared.domain.times import EPOCH, MAX_MS, MILLISECOND, MIN_MS

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def moment_text(ms: int) -> str:
    """``Tue 3 Mar 2026, 14:05``. Years have four digits, so that none looks like a day."""
    moment = _moment(ms)
    return f"{_day(moment)}, {moment.hour:02}:{moment.minute:02}"


def period_text(from_ms: int, to_ms: int) -> str:
    """Both days included: ``1–4 Mar 2026``, ``28 Feb – 3 Mar 2026``, ``30 Dec 2025 – 2 Jan 2026``; ``Tue 3 Mar 2026``
    for a single day.
    """
    first, last = _moment(from_ms), _moment(to_ms)
    if first.date() == last.date():
        return _day(first)
    end = f"{last.day} {_month(last)} {last.year:04}"
    if first.year != last.year:
        return f"{first.day} {_month(first)} {first.year:04} – {end}"
    return f"{first.day}–{end}" if first.month == last.month else f"{first.day} {_month(first)} – {end}"


def _moment(ms: int) -> datetime:
    return EPOCH + min(max(ms, MIN_MS), MAX_MS) * MILLISECOND


def _day(moment: datetime) -> str:
    return f"{_DAYS[moment.weekday()]} {moment.day} {_month(moment)} {moment.year:04}"


def _month(moment: datetime) -> str:
    return MONTHS[moment.month - 1][:3]
