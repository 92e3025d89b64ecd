"""Pages of a time window: which rows one answer takes, and which half-open window it then covers.

A row stands at an *instant*: a raw row at its date, a reflection at the end of its coverage, clipped to the window's
last millisecond. Reflections whose coverage goes on past the window's end are called *spanning*; they can appear on
several pages, raw rows on exactly one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.domain.errors import InvalidRequest
from shared.domain.times import DAY_MS, parse_date, parse_instant

MIN_TOKENS, MAX_TOKENS, DEFAULT_TOKENS = 1_000, 200_000, 50_000

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Window:
    """``[from_ms, to_ms)``."""

    from_ms: int
    to_ms: int

    @property
    def last_ms(self) -> int:
        return self.to_ms - 1


@dataclass(frozen=True, slots=True)
class Candidate(Generic[Row]):
    """A row offered to a page. `size` is its length in the answer in bytes."""

    instant: int
    id: str
    tokens: int
    size: int
    spanning: bool
    row: Row


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """`truncated` when candidates were left out; `cut` when the page ends inside an instant."""

    rows: tuple[Candidate[Row], ...]
    truncated: bool
    cut: bool


def parse_bounds(from_: str, to: str | None) -> tuple[int, int | None]:
    """The asked window in ms: a date-only `from` is its first instant, a date-only `to` the next day's; None is open.

    Raises `InvalidRequest` for anything that is no date and for a window that ends before it begins.
    """
    start = _instant("from", from_)
    if to is None:
        return start, None
    end = _instant("to", to)
    is_date = parse_date(to) is not None
    # Two bare dates are compared as dates: the day before `from` ends where `from` begins, yet it is no empty window.
    wrong_order = end < start if not is_date or parse_date(from_) is not None else end + DAY_MS < start
    if wrong_order:
        raise InvalidRequest.field(
            "to", "lies before `from`", "Exchange the two, or leave `to` out for everything since."
        )
    return start, end + DAY_MS if is_date else end


def _instant(field: str, text: str) -> int:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise InvalidRequest.field(
            field, f"is not a date or a datetime ({error})", "Write 2026-08-08 or 2026-08-08T09:30:00Z."
        ) from None


def token_budget(max_tokens: float | None) -> int:
    """The budget of one page, clamped to 1,000..200,000; fractions are cut."""
    return DEFAULT_TOKENS if max_tokens is None else int(min(max(max_tokens, MIN_TOKENS), MAX_TOKENS))


def within_half(spanning: Sequence[Candidate[Row]], budget: int) -> int:
    """How many spanning rows a page takes: half of its budget, but the first one always."""
    tokens = 0
    for number, candidate in enumerate(spanning):
        tokens += candidate.tokens
        if number and tokens > budget // 2:
            return number
    return len(spanning)


def fill(candidates: Iterable[Candidate[Row]], budget: int, max_bytes: int) -> Page[Row]:
    """Take whole instants, in the order given, while they fit both budgets. Reads one candidate too many at most.

    The first instant that holds a row which is not spanning is taken whatever its tokens, so that every page moves
    on; only `max_bytes` cuts it. Spanning rows are charged at most half of the budget.
    """
    taken: list[Candidate[Row]] = []
    tokens = spanning_tokens = size = group_start = 0
    # Whether a row of an earlier instant moves the window on, so that the instant at hand can wait for the next page.
    anchored = False
    for candidate in candidates:
        if taken and candidate.instant != taken[-1].instant:
            anchored = anchored or any(not row.spanning for row in taken[group_start:])
            group_start = len(taken)
        if candidate.spanning:
            spanning_tokens += candidate.tokens
        else:
            tokens += candidate.tokens
        size += candidate.size
        over = tokens + min(spanning_tokens, budget // 2) > budget
        if anchored and (over or size > max_bytes):
            return Page(tuple(taken[:group_start]), truncated=True, cut=False)
        if taken and size > max_bytes:
            return Page(tuple(taken), truncated=True, cut=True)
        taken.append(candidate)
    return Page(tuple(taken), truncated=False, cut=False)


def with_more_spanning(page: Page[Row], *, at_once: bool = False) -> Page[Row]:
    """The page when spanning rows were left out of it: where nothing else moves the window on, they come next.

    So they do with `at_once`, which says that pages further on would not meet one of them. The instant of the spanning
    rows gets pages of its own, cut after what each of them holds.
    """
    last = max((number for number, candidate in enumerate(page.rows) if candidate.spanning), default=None)
    if last is None or (page.truncated and not page.cut and not at_once):
        return page
    instant = page.rows[last].instant
    first = next(number for number, candidate in enumerate(page.rows) if candidate.instant == instant)
    if first:
        return Page(page.rows[:first], truncated=True, cut=False)
    return Page(page.rows[: last + 1], truncated=True, cut=True)


def returned(window: Window, page: Page[Row], *, newest_first: bool, resumed: int | None) -> Window:
    """What the page covers. Going on from its far edge misses no raw row and repeats none.

    `resumed` is the instant inside which the page began, when it continued a cut one.
    """
    if resumed is not None:
        near = Window(window.from_ms, resumed + 1) if newest_first else Window(resumed, window.to_ms)
    else:
        near = window
    if not page.truncated or not page.rows:
        return near
    instants = {candidate.instant for candidate in page.rows}
    last = page.rows[-1].instant
    if len(instants) == 1:
        return Window(last, last + 1)
    return Window(last, near.to_ms) if newest_first else Window(near.from_ms, last + 1)
