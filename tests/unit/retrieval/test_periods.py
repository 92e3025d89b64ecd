"""Which days a question speaks of. The calendar of the expectations was read by hand: 30 November 2026 is a Monday."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.times import MAX_MS, MIN_MS
from shared.retrieval.periods import periods


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOW = ms("2026-11-30T10:00")


@pytest.mark.parametrize(
    ("text", "first", "after"),
    [
        ("What did I say about the boiler last March?", "2026-03-01", "2026-04-01"),
        ("in March", "2026-03-01", "2026-04-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("last November", "2025-11-01", "2025-12-01"),
        ("in November", "2026-11-01", "2026-12-01"),
        ("this May", "2026-05-01", "2026-06-01"),
        ("Sept. 2025", "2025-09-01", "2025-10-01"),
        ("on 3 May 2024", "2024-05-03", "2024-05-04"),
        ("on May 3rd, 2024", "2024-05-03", "2024-05-04"),
        ("the 5th of November", "2026-11-05", "2026-11-06"),
        ("on 24 December", "2025-12-24", "2025-12-25"),
        ("2024-05-03?", "2024-05-03", "2024-05-04"),
        ("the report of 2024-05", "2024-05-01", "2024-06-01"),
        ("in 2023", "2023-01-01", "2024-01-01"),
        ("since 2025", "2025-01-01", "2026-11-30T10:00"),
        ("since March 2024", "2024-03-01", "2026-11-30T10:00"),
        ("since Monday", "2026-11-23", "2026-11-30T10:00"),
        ("since yesterday", "2026-11-29", "2026-11-30T10:00"),
        ("since the 3rd of May", "2026-05-03", "2026-11-30T10:00"),
        ("since last March", "2026-03-01", "2026-11-30T10:00"),
        ("after March 2024", "2024-04-01", "2026-11-30T10:00"),
        ("in May and June 2024", "2024-05-01", "2024-07-01"),
        ("from March to May", "2026-03-01", "2026-06-01"),
        ("between October and February", "2025-10-01", "2026-03-01"),
        ("from 3 May to 5 June 2024", "2024-05-03", "2024-06-06"),
        ("from 24 December to 5 January 2025", "2024-12-24", "2025-01-06"),
        ("on 3 may", "2026-05-03", "2026-05-04"),
        ("in march", "2026-03-01", "2026-04-01"),
        ("in 2023 was it wet", "2023-01-01", "2024-01-01"),
        ("two weeks ago today", "2026-11-13", "2026-11-20"),
        ("between 2019 and 2021", "2019-01-01", "2022-01-01"),
        ("between March and May 2024", "2024-03-01", "2024-06-01"),
        ("from November to February 2025", "2024-11-01", "2025-03-01"),
        ("from 2 to 5 June 2025", "2025-06-02", "2025-06-06"),
        ("from 1 March 2024 to 4 April 2024", "2024-03-01", "2024-04-05"),
        ("last summer", "2026-06-01", "2026-09-01"),
        ("this autumn", "2026-09-01", "2026-12-01"),
        ("last fall", "2025-09-01", "2025-12-01"),
        ("in the spring of 2024", "2024-03-01", "2024-06-01"),
        ("winter 2023", "2022-12-01", "2024-03-01"),
        ("yesterday", "2026-11-29", "2026-11-30"),
        ("this morning", "2026-11-30", "2026-12-01"),
        ("the day before yesterday", "2026-11-28", "2026-11-29"),
        ("last week", "2026-11-23", "2026-11-30"),
        ("this month", "2026-11-01", "2026-12-01"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("last weekend", "2026-11-28", "2026-11-30"),
        ("on Friday", "2026-11-27", "2026-11-28"),
        ("last Monday", "2026-11-23", "2026-11-24"),
        ("three days ago", "2026-11-27", "2026-11-28"),
        ("two weeks ago", "2026-11-13", "2026-11-20"),
        ("the last 3 days", "2026-11-27T10:00", "2026-11-30T10:00"),
        ("over the past week", "2026-11-23T10:00", "2026-11-30T10:00"),
    ],
)
def test_a_phrase_is_read_as_people_mean_it(text: str, first: str, after: str) -> None:
    (window,) = periods(text, NOW)
    half_a_day = 12 * 3_600_000
    assert (window.from_ms + half_a_day, window.to_ms - half_a_day) == (ms(first), ms(after))


@pytest.mark.parametrize(
    "text",
    ["", "May I ask?", "they march on", "2020 units", "version 2023.1", "10.1.2024", "a second ago", "March",
     "x2024-05-03", "the last straw", "every Friday", "31 of them", "on Mars", "0 days", "we used to march",
     "Anna and Jan", "Anna and April", "a dress for June", "in 2000 words", "pay for 2000 shares", "a sequel of 1984",
     "option 5 may break", "20 may be enough", "march 10 miles", "to mar the surface", "an injury in the fall",
     "a bolt in the spring", "until March 2024", "before 2024", "until Monday", "İ in March"],
)  # fmt: skip
def test_what_names_no_time_has_no_period(text: str) -> None:
    assert periods(text, NOW) == ()


def test_a_choice_gives_the_year_once() -> None:
    march, april = periods("in March or April 2024", NOW)
    assert march.from_ms < ms("2024-03-15") < march.to_ms < ms("2024-04-15") < april.to_ms < ms("2024-05-15")


def test_several_periods_stay_apart() -> None:
    first, second = periods("was it in 2019 or last week?", NOW)
    assert (first.from_ms < ms("2019-06-01") < first.to_ms, second.from_ms < ms("2026-11-25") < second.to_ms) == (
        True,
        True,
    )


def test_a_day_that_does_not_exist_is_read_as_its_month() -> None:
    (window,) = periods("on 31 February 2024", NOW)
    assert window.from_ms < ms("2024-02-10") < window.to_ms


@pytest.mark.parametrize("now", [MIN_MS, MAX_MS, -(10**18), 10**18])
def test_at_the_ends_of_time_nothing_fails(now: int) -> None:
    for text in ("last year", "yesterday", "300 years ago", "last winter", "in May", "since 1950"):
        periods(text, now)


@given(st.text(), st.integers(MIN_MS, MAX_MS))
def test_any_text_at_any_time_has_ordered_periods(text: str, now: int) -> None:
    assert all(window.from_ms < window.to_ms for window in periods(text, now))


WORDS = st.sampled_from([
    "last", "this", "in", "on", "since", "from", "to", "and", "between", "3", "31", "2", "2024", "1999", "may", "march",
    "dec.", "monday", "week", "weeks", "months", "year", "ago", "past", "few", "a", "summer", "winter", "yesterday",
    "of", "the", ",", "-", "2024-02-30", "2024-13",
])  # fmt: skip


@given(st.lists(WORDS, max_size=12).map(" ".join), st.integers(MIN_MS, MAX_MS))
def test_any_phrase_at_any_time_has_ordered_periods(text: str, now: int) -> None:
    assert all(window.from_ms < window.to_ms for window in periods(text, now))
