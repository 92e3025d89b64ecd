"""Answer sizes, against the real wrapping: JSON inside a JSON string."""

import json

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.sizes import MAX_RESPONSE_BYTES, ROWS_BYTES, fit, wire_bytes

VALUES = st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.text()))


def wrapped(value: object) -> int:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(json.dumps(body, ensure_ascii=False).encode("utf-8")) - len('""')


@given(VALUES)
def test_the_estimate_is_exact(value: dict[str, object]) -> None:
    assert wire_bytes(value) == wrapped(value)


@given(st.lists(VALUES, max_size=8), st.integers(0, 400))
def test_what_fits_is_the_longest_prefix_within_the_budget(rows: list[dict[str, object]], budget: int) -> None:
    kept, truncated = fit(rows, budget)
    assert kept == rows[: len(kept)]
    assert truncated == (len(kept) < len(rows))
    assert len(kept) >= min(1, len(rows))
    if len(kept) > 1:
        assert sum(wrapped(row) + 1 for row in kept) <= budget
    if truncated:
        assert sum(wrapped(row) + 1 for row in rows[: len(kept) + 1]) > budget


def test_the_limit_is_five_and_a_half_mebibytes() -> None:
    assert MAX_RESPONSE_BYTES == 11 * 512 * 1024


def test_rows_fit_to_the_last_byte_with_their_commas() -> None:
    rows = [{"a": "x"}, {"a": "y"}, {"a": "z"}]
    each = len(r"{\"a\":\"x\"},")
    assert fit(rows, 2 * each) == (rows[:2], True)
    assert fit(rows, 2 * each - 1) == (rows[:1], True)
    assert fit(rows, 3 * each) == (rows, False)


def test_an_answer_has_room_for_more_than_its_rows() -> None:
    assert MAX_RESPONSE_BYTES - 16_384 == ROWS_BYTES
