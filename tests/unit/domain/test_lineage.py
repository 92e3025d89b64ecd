"""Coverage of batches and what may be committed on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.errors import InvalidRequest
from shared.domain.lineage import check_entries, covers_of
from shared.domain.memory import Covers, Memory


def raw(date_ms: int) -> Memory:
    return Memory("id", 1, "x", "user", date_ms, 1, 0)


def reflection(covers: Covers) -> Memory:
    return Memory("id", 2, "x", "assistant", covers.to_ms, 1, 0, importance=5, covers=covers)


@given(st.lists(st.integers(), min_size=1))
def test_raw_rows_cover_from_the_oldest_to_the_newest(dates: list[int]) -> None:
    assert covers_of([raw(date) for date in dates]) == Covers(sorted(dates)[0], sorted(dates)[-1])


def test_reflections_hand_their_coverage_on() -> None:
    assert covers_of([reflection(Covers(5, 9)), reflection(Covers(1, 7))]) == Covers(1, 9)


def test_good_entries_pass() -> None:
    check_entries([("x" * 8_000, 1), ("ünï 🙂", 10)])
    check_entries([("x", 5)] * 100)


@pytest.mark.parametrize(
    ("entries", "field"),
    [
        ([], "entries"),
        ([("x", 5)] * 101, "entries"),
        ([("x", 5), (" \u3000\n", 5)], "entries.1.text"),
        ([("x" * 8_001, 5)], "entries.0.text"),
        ([("a\x00b", 5)], "entries.0.text"),
        ([("a\ud800", 5)], "entries.0.text"),
        ([("x", 0)], "entries.0.importance"),
        ([("x", 11)], "entries.0.importance"),
        ([("x", True)], "entries.0.importance"),
    ],
)
def test_bad_entries_name_their_field(entries: list[tuple[str, int]], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_entries(entries)
    assert [problem.field for problem in refused.value.details] == [field]


def test_every_wrong_field_is_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_entries([("", 0), ("fine", 1), ("", 99)])
    assert [problem.field for problem in refused.value.details] == [
        "entries.0.text",
        "entries.0.importance",
        "entries.2.text",
        "entries.2.importance",
    ]
