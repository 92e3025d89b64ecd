"""Pages of a window: bounds, budgets, and that going on from `returned` meets every row once."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.errors import InvalidRequest
from shared.domain.window import (
    Candidate,
    Page,
    Window,
    fill,
    parse_bounds,
    returned,
    token_budget,
    with_more_spanning,
    within_half,
)

DAY = 86_400_000
AUG_8 = 1_786_147_200_000  # date -u -d 2026-08-08 +%s


def candidate(instant: int, number: int, tokens: int = 1, size: int = 1, *, spanning: bool = False) -> Candidate[int]:
    return Candidate(instant, f"{number:04}", tokens, size, spanning, number)


def test_bare_dates_take_whole_days() -> None:
    assert parse_bounds("2026-08-08", "2026-08-08") == (AUG_8, AUG_8 + DAY)
    assert parse_bounds("2026-08-08", None) == (AUG_8, None)


def test_datetimes_are_taken_as_they_are() -> None:
    assert parse_bounds("2026-08-08T01:00:00+01:00", "2026-08-08T00:00:00.001Z") == (AUG_8, AUG_8 + 1)
    assert parse_bounds("2026-08-08T00:00:00", "2026-08-08T00:00:00Z") == (AUG_8, AUG_8)


def test_an_instant_after_a_bare_day_is_an_empty_window_only_at_its_end() -> None:
    assert parse_bounds("2026-08-09T00:00:00Z", "2026-08-08") == (AUG_8 + DAY, AUG_8 + DAY)
    with pytest.raises(InvalidRequest):
        parse_bounds("2026-08-09T00:00:00.001Z", "2026-08-08")


@pytest.mark.parametrize(
    ("from_", "to", "field"),
    [
        ("2026-08-09", "2026-08-08", "to"),
        ("2026-08-08T00:00:00.001Z", "2026-08-08T00:00:00Z", "to"),
        ("yesterday", None, "from"),
        ("2026-02-30", None, "from"),
        ("2026-08-08", "2026-08-08T25:00:00Z", "to"),
        ("2026-08-08", "", "to"),
    ],
)
def test_bad_bounds_name_their_field(from_: str, to: str | None, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_bounds(from_, to)
    assert [problem.field for problem in refused.value.details] == [field]


@pytest.mark.parametrize(
    ("asked", "budget"),
    [(None, 50_000), (1, 1_000), (999.9, 1_000), (1_234.9, 1_234), (200_000, 200_000), (1e300, 200_000), (-5, 1_000)],
)
def test_budgets_are_clamped(asked: float | None, budget: int) -> None:
    assert token_budget(asked) == budget


@given(st.lists(st.integers(0, 50), max_size=10), st.integers(0, 100))
def test_spanning_rows_take_half_a_page(tokens: list[int], budget: int) -> None:
    rows = [candidate(9, number, each, spanning=True) for number, each in enumerate(tokens)]
    count = within_half(rows, budget)
    assert count >= min(1, len(rows))
    assert count <= 1 or sum(tokens[:count]) <= budget / 2
    assert count == len(rows) or sum(tokens[: count + 1]) > budget / 2


def test_the_first_instant_is_taken_whole_above_the_budget() -> None:
    rows = [candidate(5, 1, 60), candidate(5, 2, 60), candidate(5, 3, 60), candidate(6, 4, 1)]
    assert fill(rows, 100, 1_000) == Page(tuple(rows[:3]), truncated=True, cut=False)


def test_a_later_instant_waits_as_a_whole() -> None:
    rows = [candidate(5, 1, 60), candidate(6, 2, 30), candidate(6, 3, 30)]
    assert fill(rows, 100, 1_000) == Page(tuple(rows[:1]), truncated=True, cut=False)


def test_only_the_answers_size_cuts_an_instant() -> None:
    rows = [candidate(5, 1, size=60), candidate(5, 2, size=60)]
    page = fill(rows, 1_000, 100)
    assert page == Page(tuple(rows[:1]), truncated=True, cut=True)
    assert returned(Window(0, 10), page, newest_first=False, resumed=None) == Window(5, 6)


def test_one_row_above_every_limit_comes() -> None:
    rows = [candidate(5, 1, 9_999, 9_999)]
    assert fill(rows, 1_000, 100) == Page(tuple(rows), truncated=False, cut=False)


def test_a_page_of_spanning_rows_alone_moves_on_to_an_own_row() -> None:
    rows = [candidate(9, 1, 2_000, spanning=True), candidate(4, 2, 900), candidate(3, 3, 900)]
    page = fill(rows, 1_000, 10_000)
    assert page.rows == tuple(rows[:2])
    assert returned(Window(0, 10), page, newest_first=True, resumed=None) == Window(4, 10)


@dataclass(frozen=True)
class Stored:
    """A raw row (`start` == `end`) or a reflection."""

    number: int
    start: int
    end: int
    tokens: int
    size: int

    @property
    def raw(self) -> bool:
        return self.start == self.end


STORED = st.builds(
    lambda number, start, length, tokens, size: Stored(number, start, start + length, tokens, size),
    st.integers(0, 9_999),
    st.integers(0, 12),
    st.sampled_from([0, 0, 0, 1, 5]),
    st.integers(1, 60),
    st.integers(1, 40),
)


@given(st.lists(STORED, max_size=25, unique_by=lambda row: row.number), st.booleans(), st.integers(20, 90))
def test_paging_meets_every_raw_row_once(stored: list[Stored], newest_first: bool, budget: int) -> None:
    asked = Window(2, 10)
    window, after, seen, pages = asked, None, [], 0
    reflections: set[int] = set()
    inside = sorted(row.number for row in stored if row.raw and 2 <= row.start < 10)
    while True:
        pages += 1
        assert pages <= 3 * len(stored) + 2
        page, resumed = read(stored, window, after, newest_first, budget)
        keys = [(each.instant, each.id) for each in page.rows]
        assert keys == sorted(keys, reverse=newest_first)
        own = [each for each in page.rows if not each.spanning]
        if len({each.instant for each in own}) > 1:
            assert sum(each.tokens for each in own) <= budget
        seen += [each.row for each in page.rows if any(row.number == each.row and row.raw for row in stored)]
        reflections |= {each.row for each in page.rows}
        covered = returned(window, page, newest_first=newest_first, resumed=resumed)
        assert all(covered.from_ms <= each.instant < covered.to_ms for each in page.rows)
        if not page.truncated:
            # Whatever reaches into the last window read was shown: left out of one page, it came on the next.
            assert reflections >= {
                row.number for row in stored if row.end >= window.from_ms and row.start < window.to_ms
            }
            assert (covered.from_ms if newest_first else covered.to_ms) == (2 if newest_first else 10)
            break
        assert page.rows
        if page.cut:
            after = (page.rows[-1].instant, page.rows[-1].id)
            continue
        after = None
        following = Window(window.from_ms, covered.from_ms) if newest_first else Window(covered.to_ms, window.to_ms)
        assert following.to_ms - following.from_ms < window.to_ms - window.from_ms
        window = following
    assert sorted(seen) == inside


def read(
    stored: list[Stored], window: Window, after: tuple[int, str] | None, newest_first: bool, budget: int
) -> tuple[Page[int], int | None]:
    """What a store without limits would offer: the rows of a window in order, spanning ones at its last instant."""
    last = window.to_ms - 1
    offered = sorted(
        (
            Candidate(min(row.end, last), f"{row.number:04}", row.tokens, row.size, row.end > last, row.number)
            for row in stored
            if row.end >= window.from_ms and row.start < window.to_ms and window.from_ms < window.to_ms
        ),
        key=lambda each: (each.instant, each.id),
        reverse=newest_first,
    )
    if after is not None:
        offered = [
            each
            for each in offered
            if ((each.instant, each.id) < after if newest_first else (each.instant, each.id) > after)
        ]
    spanning = [each for each in offered if each.spanning]
    chosen = {each.id for each in spanning[: within_half(spanning, budget)]}
    rows = [each for each in offered if not each.spanning or each.id in chosen]
    page = fill(rows, budget, 100)
    if len(chosen) < len(spanning):
        page = with_more_spanning(page)
    return page, None if after is None else after[0]


def test_a_window_ends_a_millisecond_before_its_end() -> None:
    assert Window(3, 10).last_ms == 9


def test_a_page_is_filled_to_the_last_token_and_byte() -> None:
    rows = [candidate(5, 1, 60, 60), candidate(6, 2, 40, 40)]
    assert fill(rows, 100, 100) == Page(tuple(rows), truncated=False, cut=False)
    assert fill(rows, 99, 100).rows == tuple(rows[:1])
    assert fill(rows, 100, 99).rows == tuple(rows[:1])


def test_spanning_rows_are_charged_half_a_page_at_most() -> None:
    rows = [candidate(9, 1, 90, spanning=True), candidate(5, 2, 10), candidate(4, 3, 40), candidate(3, 4, 1)]
    assert fill(rows, 100, 1_000).rows == tuple(rows[:3])


def test_spanning_rows_are_charged_together_and_half_of_an_odd_budget_is_cut() -> None:
    rows = [candidate(9, 1, 20, spanning=True), candidate(9, 2, 20, spanning=True), candidate(5, 3, 50)]
    assert fill([*rows, candidate(4, 4, 10)], 100, 1_000).rows == (*rows, candidate(4, 4, 10))
    assert fill([*rows, candidate(4, 4, 11)], 100, 1_000).rows == tuple(rows)
    odd = [candidate(9, 1, 90, spanning=True), candidate(5, 2, 10), candidate(4, 3, 41)]
    assert fill(odd, 101, 1_000).rows == tuple(odd)


def test_left_out_spanning_rows_come_next_where_nothing_else_moves_on() -> None:
    spanning, own, last_own = candidate(9, 1, spanning=True), candidate(5, 2), candidate(9, 0)
    full = Page((spanning, own), truncated=True, cut=False)
    assert with_more_spanning(full) == full
    newest = with_more_spanning(Page((spanning, last_own, own), truncated=False, cut=False))
    assert newest == Page((spanning,), truncated=True, cut=True)
    oldest = with_more_spanning(Page((own, last_own, spanning), truncated=False, cut=False))
    assert oldest == Page((own,), truncated=True, cut=False)
    alone = with_more_spanning(Page((last_own, spanning), truncated=False, cut=False))
    assert alone == Page((last_own, spanning), truncated=True, cut=True)
    cut = Page((last_own,), truncated=True, cut=True)
    assert with_more_spanning(cut) == cut
    assert with_more_spanning(Page((spanning, last_own), truncated=True, cut=True)) == newest


@pytest.mark.parametrize(
    ("newest_first", "resumed", "truncated", "instants", "covered"),
    [
        (True, None, False, [9, 5], (0, 10)),
        (True, None, True, [9, 5], (5, 10)),
        (True, None, True, [5], (5, 6)),
        (True, 7, False, [7, 5], (0, 8)),
        (True, 7, True, [7, 5], (5, 8)),
        (False, None, False, [2, 5], (0, 10)),
        (False, None, True, [2, 5], (0, 6)),
        (False, None, True, [5], (5, 6)),
        (False, 2, False, [2, 5], (2, 10)),
        (False, 2, True, [2, 5], (2, 6)),
        (True, None, False, [], (0, 10)),
    ],
)
def test_what_a_page_covers(
    newest_first: bool, resumed: int | None, truncated: bool, instants: list[int], covered: tuple[int, int]
) -> None:
    page = Page(tuple(candidate(instant, 1) for instant in instants), truncated=truncated, cut=False)
    assert returned(Window(0, 10), page, newest_first=newest_first, resumed=resumed) == Window(*covered)
