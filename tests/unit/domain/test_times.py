"""Instants on the wire."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.times import DAY_MS, MAX_MS, MIN_MS, parse_date, parse_instant, to_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)))
def test_milliseconds_survive_the_way_there_and_back(moment: datetime) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    ms = (moment - EPOCH) // timedelta(milliseconds=1)
    expected = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert to_text(ms) == expected
    assert parse_instant(expected) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00", 0),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01 00:00:01.5z", 1_500),
        ("1970-01-01t00:00:00.123456789Z", 123),
        ("1970-01-01T00:00:00.07Z", 70),
        ("1970-01-01T01:30:00+01:30", 0),
        ("1970-01-01T00:00:00-0030", 1_800_000),
        ("1970-01-02T00:00:00+23:59", 60_000),
        ("1970-01-01T00:00:00-23:59", 86_340_000),
        ("1970-01-01T00:00:00.0009Z", 0),
        ("1970-01-01T23:59:60Z", 86_400_000),
        ("0001-01-01T00:00:00Z", MIN_MS),
        ("9999-12-31T23:59:59.999Z", MAX_MS),
    ],
)
def test_forms_that_are_read(text: str, ms: int) -> None:
    assert parse_instant(text) == ms
    assert type(parse_instant(text)) is int


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-08",
        "20260808",
        "2026-13-01",
        "2026-02-29",
        "2026-08-08T",
        "2026-08-08T9:00",
        "2026-08-08T25:00:00Z",
        "2026-08-08T00:61:00Z",
        "2026-08-08T00:00:00+24:00",
        "2026-08-08T00:00:00+01:60",
        "2026-08-08T00:00:00.Z",
        "2026-08-08T00:00:00.1234567890Z",
        "2026-08-08T00:00:00 UTC",
        "٢٠٢٦-08-08",
        "0000-01-01",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59.999-00:01",
        " 2026-08-08",
    ],
)
def test_forms_that_are_not(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_instant(text)


def test_the_calendar_has_the_years_1_to_9999() -> None:
    # Seconds by `date -u -d 0001-01-01 +%s` and `date -u -d 9999-12-31T23:59:59 +%s`.
    assert (MIN_MS, MAX_MS) == (-62_135_596_800_000, 253_402_300_799_999)
    assert DAY_MS == 24 * 60 * 60 * 1_000


def test_only_bare_dates_are_dates() -> None:
    assert parse_date("2026-08-08T00:00:00Z") is None
    assert parse_date("1970-01-02") == 86_400_000
    with pytest.raises(ValueError, match="day"):
        parse_date("2026-02-30")


def test_instants_beyond_the_calendar_are_clipped() -> None:
    assert to_text(MAX_MS + 1) == "9999-12-31T23:59:59.999Z"
    assert to_text(MIN_MS - 1) == "0001-01-01T00:00:00.000Z"
