"""Dates that a question speaks of: "last March", "on 3 May 2024", "two weeks ago".

English only. What is found is a hint for the ranking and never a filter, so a phrase that is read wrongly costs little.
Days and weeks are those of UTC; a period is widened by half a day on either side for whoever lives elsewhere. Weeks
begin on Monday, seasons are those of the northern half.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from re import Match

from shared.domain.readable_dates import MONTHS
from shared.domain.times import EPOCH, MILLISECOND
from shared.domain.window import Window

_MONTHS = tuple(name.lower() for name in MONTHS)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple": 2, "three": 3, "few": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_UNIT_DAYS = {"day": 1.0, "week": 7.0, "month": 30.4, "year": 365.25}
_SLACK_MS = 12 * 3_600_000

_MONTH_NAME = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_MONTH = rf"(?P<month>{_MONTH_NAME})"
_SEASON = rf"(?P<season>{'|'.join(_SEASONS)})\b"
_TO = r"\s*(?:to|until|till|and|through|-|–)\s*(?:the\s+)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_DAY = r"(?P<day>3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?\b"
_HOW = r"(?P<how>last|this|in|during|since|until|till|before|after|around|early|mid|late|throughout)\s+"
_RANGE = re.compile(_TO)
_CHOICE = re.compile(r"\s*(?:,|or|,\s*or)\s*")
_LEADS = ("since", "after", "until", "till", "before")
_LEAD = re.compile(rf"\b({'|'.join(_LEADS)})\s+(?:the\s+)?$")
_COUNT = r"(?:an?\s+)?(?P<count>\d{1,3}|" + "|".join(_NUMBERS) + r")\s+(?:of\s+)?"
_UNITS = r"(?P<unit>day|week|month|year)s?\b"
# "in 2000 words" counts something; "in 2023 was" does not.
_NO_COUNT = r"(?!\s+(?!was\b|is\b|has\b|does\b|as\b|this\b|us\b)[a-z]+s\b)"

# Verbs and adverbs in small letters as well as months: without a year only a word before them tells.
_NO_MONTHS = ("may", "march", "mar")
_OF_A_DAY = re.compile(r"\b(?:on|the|of|by|from|to|and|since|after|until|till|before)\s+$")

Span = tuple[datetime, datetime]
Reading = Callable[[Match[str], datetime], Span | None]


@dataclass(frozen=True, slots=True)
class _Named:
    """A phrase between `start` and `end` of the text; `lead` is the word before it that moves its bounds."""

    start: int
    end: int
    span: Span
    lead: str


def periods(text: str, now_ms: int) -> tuple[Window, ...]:
    """The periods that a question asked at `now_ms` names, in the order of the text; none where it names none."""
    if len(text) > 2_000 or len(text.lower()) != len(text):
        # A document, or letters that no English phrase has.
        return ()
    try:
        now = EPOCH + now_ms * MILLISECOND
        spans = list(_spans(text, now))
    except (OverflowError, ValueError):
        return ()
    return tuple(Window(_ms(start) - _SLACK_MS, _ms(end) + _SLACK_MS) for start, end in spans)


def _spans(text: str, now: datetime) -> Iterator[Span]:
    named = _named(text, now)
    while named:
        first = named.pop(0)
        span, lead = first.span, first.lead
        if named:
            between = text[first.end : named[0].start].lower()
            if _RANGE.fullmatch(between) and (begun := _in_order(span, named[0].span)):
                span = begun[0], named.pop(0).span[1]
            elif _CHOICE.fullmatch(between):
                span = _in_order(span, named[0].span) or span
        if lead in ("since", "after"):
            yield span[0] if lead == "since" else span[1], max(span[1], now)
        elif lead not in ("until", "till", "before"):
            # All that was before a day is no period to prefer.
            yield span


def _named(text: str, now: datetime) -> list[_Named]:
    # What a longer phrase has taken is no phrase of its own: "3 May 2024" is not also all of 2024.
    taken: list[tuple[int, int]] = []
    named = []
    lowered = text.lower()
    for pattern, read in _PHRASES:
        for match in pattern.finditer(lowered):
            if any(match.start() < end and start < match.end() for start, end in taken) or _is_a_verb(match, text):
                continue
            span = read(match, now)
            if span is None:
                continue
            taken.append(match.span())
            how = match.groupdict().get("how")
            start = match.end("how") + 1 if how in _LEADS else match.start()
            lead = _LEAD.search(lowered[:start])
            named.append(_Named(start, match.end(), span, lead[1] if lead else ""))
    return sorted(named, key=lambda each: each.start)


def _is_a_verb(match: Match[str], text: str) -> bool:
    """Whether a month stands in small letters that are a verb too, as in "20 may be enough"."""
    groups = match.groupdict()
    if groups.get("month") not in _NO_MONTHS or groups.get("year") or groups.get("how"):
        return False
    return text[match.start("month") :].startswith(groups["month"]) and not _OF_A_DAY.search(
        match.string[: match.start()]
    )


def _in_order(first: Span, last: Span) -> Span | None:
    """The first span, moved to the year of the last where it would follow it; None where it follows all the same.

    "From 3 May to 5 June 2024" gives the year once.
    """
    if first[0] <= last[0]:
        return first
    years = first[0].year - last[0].year
    start, end = (moment.replace(year=moment.year - years) for moment in first)
    if start > last[0]:
        start, end = (moment.replace(year=moment.year - 1) for moment in (start, end))
    return (start, end) if start <= last[0] else None


def _ms(moment: datetime) -> int:
    return (moment - EPOCH) // MILLISECOND


def _month_number(name: str) -> int:
    return next(number for number, full in enumerate(_MONTHS, 1) if full.startswith(name[:3].lower()))


def _from_day(year: int, month: int, day: int) -> Span | None:
    try:
        start = datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None
    return start, start + timedelta(days=1)


def _months(year: int, month: int, count: int = 1) -> Span:
    """`count` months from that one on; `month` may lie beyond the year."""
    first, last = year * 12 + month - 1, year * 12 + month - 1 + count
    return (
        datetime(first // 12, first % 12 + 1, 1, tzinfo=UTC),
        datetime(last // 12, last % 12 + 1, 1, tzinfo=UTC),
    )


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _iso_day(match: Match[str], now: datetime) -> Span | None:
    return _from_day(int(match["year"]), int(match["number"]), int(match["day"]))


def _iso_month(match: Match[str], now: datetime) -> Span | None:
    return _months(int(match["year"]), int(match["number"]))


def _day(match: Match[str], now: datetime) -> Span | None:
    """A day of a month; without a year the last one that has come."""
    month, day = _month_number(match["month"]), int(match["day"])
    if match["year"]:
        return _from_day(int(match["year"]), month, day)
    span = _from_day(now.year, month, day)
    return span if span is not None and span[0] <= now else _from_day(now.year - 1, month, day)


def _days(match: Match[str], now: datetime) -> Span | None:
    """From a day to a later one of the same month."""
    last = _day(match, now)
    first = None if last is None else _from_day(last[0].year, last[0].month, int(match["first"]))
    return None if first is None or last is None or first[0] > last[0] else (first[0], last[1])


def _months_of_year(match: Match[str], now: datetime) -> Span | None:
    """From a month to one of the given year, beginning the year before where it must."""
    year, first, last = int(match["year"]), _month_number(match["first"]), _month_number(match["month"])
    begun = year if first <= last else year - 1
    return _months(begun, first)[0], _months(year, last)[1]


def _two_months(match: Match[str], now: datetime) -> Span | None:
    """From a month to another, the last ones that have begun."""
    first, last = _month_number(match["first"]), _month_number(match["month"])
    year = now.year if last <= now.month else now.year - 1
    return _months(year if first <= last else year - 1, first)[0], _months(year, last)[1]


def _two_years(match: Match[str], now: datetime) -> Span | None:
    first, last = int(match["first"]), int(match["year"])
    return (_months(first, 1)[0], _months(last, 12)[1]) if first <= last else None


def _month_of_year(match: Match[str], now: datetime) -> Span | None:
    return _months(int(match["year"]), _month_number(match["month"]))


def _month(match: Match[str], now: datetime) -> Span | None:
    """A month without a year: the last one that has begun, and with "last" the last one that is over."""
    month, how = _month_number(match["month"]), match["how"]
    over = month < now.month if how == "last" else month <= now.month
    return _months(now.year if over or how == "this" else now.year - 1, month)


def _year(match: Match[str], now: datetime) -> Span | None:
    return _months(int(match["year"]), 1, 12)


def _season_of_year(match: Match[str], now: datetime) -> Span | None:
    """Of a winter both those that the year has a part of."""
    year, first = int(match["year"]), _SEASONS[match["season"]]
    return _months(year - 1, 12, 15) if first == 12 else _months(year, first, 3)


def _season(match: Match[str], now: datetime) -> Span | None:
    """The last one that has begun, and with "last" the last one that is over."""
    year, first = now.year, _SEASONS[match["season"]]
    while (span := _months(year, first, 3))[1 if match["how"] == "last" else 0] > now:
        year -= 1
    return span


def _around_today(match: Match[str], now: datetime) -> Span | None:
    today = _midnight(now)
    days = {"yesterday": 1, "last night": 1, "the day before yesterday": 2}.get(match[0], 0)
    return today - timedelta(days=days), today - timedelta(days=days - 1)


def _calendar(match: Match[str], now: datetime) -> Span | None:
    """This or the last week, month or year, the last weekend that has begun."""
    back, unit = (0 if match["how"] == "this" else 1), match["unit"]
    if unit == "weekend":
        saturday = _midnight(now) - timedelta(days=(now.weekday() - 5) % 7)
        return saturday, saturday + timedelta(days=2)
    if unit == "month":
        return _months(now.year, now.month - back)
    if unit == "year":
        return _months(now.year - back, 1, 12)
    monday = _midnight(now) - timedelta(days=now.weekday() + 7 * back)
    return monday, monday + timedelta(days=7)


def _number(match: Match[str]) -> int:
    return _NUMBERS.get(match["count"]) or int(match["count"])


def _recent(match: Match[str], now: datetime) -> Span | None:
    """The past so many days."""
    count = _number(match) if match["count"] else 1
    return now - timedelta(days=count * _UNIT_DAYS[match["unit"]]), now


def _ago(match: Match[str], now: datetime) -> Span | None:
    """As exact as its unit: some weeks ago is half a week more or less, "a few" a whole one."""
    unit = _UNIT_DAYS[match["unit"]]
    middle = _midnight(now) - timedelta(days=_number(match) * unit) + timedelta(hours=12)
    slack = timedelta(days=unit if match["count"] in ("few", "couple") else unit / 2)
    return middle - slack, middle + slack


def _weekday(match: Match[str], now: datetime) -> Span | None:
    """The last one before today."""
    back = (now.weekday() - _WEEKDAYS.index(match["weekday"]) - 1) % 7 + 1
    start = _midnight(now) - timedelta(days=back)
    return start, start + timedelta(days=1)


def _phrase(pattern: str, read: Reading) -> tuple[re.Pattern[str], Reading]:
    return re.compile(r"(?<![\w.-])" + pattern), read


# The more exact before the less.
_PHRASES = (
    _phrase(r"(?P<year>\d{4})-(?P<number>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])\b", _iso_day),
    _phrase(r"(?P<year>(?:19|20)\d\d)-(?P<number>0[1-9]|1[0-2])\b(?!-)", _iso_month),
    _phrase(rf"(?P<first>[12]?\d|3[01])(?:st|nd|rd|th)?{_TO}{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?", _days),
    _phrase(rf"{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?", _day),
    _phrase(rf"{_MONTH}\s+(?:the\s+)?{_DAY}(?:,?\s+{_YEAR})?", _day),
    _phrase(rf"(?P<first>{_MONTH_NAME}){_TO}{_MONTH},?\s+(?:of\s+)?{_YEAR}", _months_of_year),
    _phrase(rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}", _month_of_year),
    _phrase(rf"{_SEASON}\s+(?:of\s+)?{_YEAR}", _season_of_year),
    _phrase(rf"(?P<how>last|this)\s+{_SEASON}", _season),
    _phrase(r"(?P<how>in|during|over)\s+(?:the\s+)?(?P<season>summer|autumn|winter)\b", _season),
    _phrase(rf"(?:from|between)\s+(?P<first>{_MONTH_NAME}){_TO}{_MONTH}", _two_months),
    _phrase(rf"{_HOW}{_MONTH}", _month),
    _phrase(rf"(?:from|between)\s+(?P<first>(?:19|20)\d\d){_TO}{_YEAR}{_NO_COUNT}", _two_years),
    _phrase(rf"{_HOW}(?:the\s+year\s+)?{_YEAR}{_NO_COUNT}", _year),
    _phrase(rf"{_COUNT}{_UNITS}\s+ago\b(?:\s+today\b)?", _ago),
    _phrase(
        r"(?:the day before yesterday|yesterday|today|tonight|last night|this (?:morning|afternoon|evening))\b",
        _around_today,
    ),
    _phrase(rf"(?:last|past)\s+(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})\s+{_UNITS}", _recent),
    _phrase(r"(?:the\s+)?past\s+(?P<count>)" + _UNITS, _recent),
    _phrase(r"(?P<how>last|this|previous)\s+(?P<unit>weekend|week|month|year)\b", _calendar),
    _phrase(
        rf"(?:on|last|this\s+past|(?P<how>since|after|until|till|before))\s+(?P<weekday>{'|'.join(_WEEKDAYS)})\b",
        _weekday,
    ),
)
