"""Dates as a person writes them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.readable_dates import moment_text, period_text
from shared.domain.times import DAY_MS, MAX_MS, MIN_MS, parse_instant, to_text


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        ("2026-03-03T14:05:59.999Z", "Tue 3 Mar 2026, 14:05"),
        ("2024-02-29T00:00:00Z", "Thu 29 Feb 2024, 00:00"),
        ("1969-07-20T20:17:40Z", "Sun 20 Jul 1969, 20:17"),
        ("0033-04-03T15:00:00Z", "Sun 3 Apr 0033, 15:00"),
        ("2026-12-31T23:59:00-01:00", "Fri 1 Jan 2027, 00:59"),
    ],
)
def test_a_moment(instant: str, text: str) -> None:
    assert moment_text(parse_instant(instant)) == text


def test_what_lies_outside_the_calendar_is_clipped() -> None:
    assert moment_text(MIN_MS - 1) == "Mon 1 Jan 0001, 00:00"
    assert moment_text(MAX_MS + 1) == "Fri 31 Dec 9999, 23:59"
    assert period_text(MIN_MS - DAY_MS, MAX_MS + DAY_MS) == "1 Jan 0001 – 31 Dec 9999"


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        ("2026-03-03T00:00Z", "2026-03-03T23:59Z", "Tue 3 Mar 2026"),
        ("2026-03-03T23:59Z", "2026-03-04T00:00Z", "3–4 Mar 2026"),
        ("2026-03-01", "2026-03-31", "1–31 Mar 2026"),
        ("2026-02-28", "2026-03-03", "28 Feb – 3 Mar 2026"),
        ("2025-03-03", "2026-03-03", "3 Mar 2025 – 3 Mar 2026"),
        ("2025-12-30", "2026-01-02", "30 Dec 2025 – 2 Jan 2026"),
    ],
)
def test_a_period(first: str, last: str, text: str) -> None:
    assert period_text(parse_instant(first), parse_instant(last)) == text


@given(st.integers(MIN_MS, MAX_MS))
def test_a_moment_can_be_read_again_to_the_minute(ms: int) -> None:
    said = moment_text(ms)
    read = datetime.strptime(said, "%a %d %b %Y, %H:%M").replace(tzinfo=UTC)
    assert read.strftime("%Y-%m-%dT%H:%M").rjust(16, "0") == to_text(ms)[:16]
    assert read.strftime("%a") == said[:3]
