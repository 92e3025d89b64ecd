"""Refusals are sentences a person can act on: what is wrong, and what to do next."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from shared.domain import batch as batches
from shared.domain.batch import Batch, State
from shared.domain.errors import InvalidRequest, StrataError
from shared.domain.keys import SCOPES, narrow
from shared.domain.lineage import check_entries
from shared.domain.memory import Covers
from shared.domain.text import check_text, storable_problem
from shared.domain.times import parse_instant
from shared.domain.transfer import parse_line
from shared.domain.window import parse_bounds

LEASED = Batch("cb_1", 1, State.LEASED, 1, 1, Covers(0, 0), leased_ms=0, expires_ms=900_000, lease_ms=900_000)


def is_sentence(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"[A-Z`].*[a-z].*\.", text) is not None and text != text.upper()


def is_phrase(text: str | None) -> bool:
    """What stands after the name of a field."""
    return text is not None and re.fullmatch(r"[a-z].*[^.]", text) is not None


def refusal(call: Callable[[], object]) -> StrataError:
    with pytest.raises(StrataError) as refused:
        call()
    return refused.value


def renewal(batch: Batch) -> StrataError:
    conflict = batches.refuse_renewal(batch, 6)
    assert conflict is not None
    return conflict


@pytest.mark.parametrize(
    ("refuse", "means"),
    [
        (batches.lease_expired, "expired"),
        (batches.sources_deleted, "deleted"),
        (lambda: batches.refuse_commit(replace(LEASED, state=State.REOPENED)), "undone"),
        (lambda: batches.refuse_commit(replace(LEASED, state=State.RELEASED)), "released"),
        (lambda: renewal(replace(LEASED, renewed_ms=5)), "renewed already"),
        (lambda: refusal(lambda: narrow(SCOPES, "admin")), "suffix"),
    ],
)
def test_refusals_say_what_happened_and_what_to_do(refuse: Callable[[], StrataError], means: str) -> None:
    error = refuse()
    assert is_sentence(error.message)
    assert means in error.message
    assert is_sentence(error.hint)


def test_a_committed_batch_says_that_there_is_no_lease() -> None:
    for state in (State.COMMITTED, State.SETTLED):
        error = renewal(replace(LEASED, state=state))
        assert is_sentence(error.message)
        assert "committed" in error.message


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda: check_text("content", "a\x00"),
            "content: contains a NUL character (U+0000)",
            "Remove or replace that character",
        ),
        (lambda: check_text("content", "ab\ud800"), "content: contains a lone surrogate at character 2", "Remove or"),
        (
            lambda: check_text("content", "x" * 100_001),
            "content: one memory holds at most 100,000 characters and 300,000 bytes of UTF-8",
            "Split the text",
        ),
        (lambda: parse_bounds("2026-08-09", "2026-08-08"), "to: lies before `from`", "Exchange the two"),
        (
            lambda: parse_bounds("soon", None),
            "from: is not a date or a datetime (not an ISO 8601 date or datetime)",
            "Write 2026-08-08",
        ),
        (lambda: parse_line(3, {"tier": 9}, 0), "line 3: tier must be an integer 1 to 3", "Nothing of this page"),
    ],
)
def test_bad_fields_are_named_with_a_way_out(call: Callable[[], object], message: str, hint: str) -> None:
    error = refusal(call)
    assert error.message == message
    assert is_sentence(error.hint)
    assert error.hint is not None
    assert error.hint.startswith(hint)
    assert all(is_phrase(detail.problem) and message.endswith(detail.problem) for detail in error.details)


def test_hints_speak_of_fields_as_they_are_written() -> None:
    assert "`to`" in str(refusal(lambda: parse_bounds("2026-08-09", "2026-08-08")).hint)
    assert "2026-08-08T09:30:00Z" in str(refusal(lambda: parse_bounds("soon", None)).hint)


def test_bad_entries_say_what_is_allowed() -> None:
    assert refusal(lambda: check_entries([])).message == "entries: holds 0 items; 1 to 100 are allowed"
    assert refusal(lambda: check_entries([("\n", 1), ("x" * 8_001, 0), ("a\x00", 1)])).message == (
        "entries.0.text: must hold text, not only white space; "
        "entries.1.text: has 8001 characters; at most 8000 are allowed; "
        "entries.1.importance: must be an integer 1 to 10"
    )


def test_every_problem_is_in_the_details() -> None:
    error = refusal(lambda: check_entries([("\n", 1), ("x" * 8_001, 0), ("a\x00", 1)]))
    assert isinstance(error, InvalidRequest)
    assert [(detail.field, detail.problem) for detail in error.details] == [
        ("entries.0.text", "must hold text, not only white space"),
        ("entries.1.text", "has 8001 characters; at most 8000 are allowed"),
        ("entries.1.importance", "must be an integer 1 to 10"),
        ("entries.2.text", "contains a NUL character (U+0000)"),
    ]


def test_what_cannot_be_stored_is_named() -> None:
    assert storable_problem("a\x00b") == "contains a NUL character (U+0000)"
    assert storable_problem("\udfff") == "contains a lone surrogate at character 0"
    assert storable_problem("fine") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("soon", "not an ISO 8601 date or datetime"),
        ("2026-08-08T00:00:00+24:00", "the offset is out of range"),
        ("0001-01-01T00:00:00+00:01", "outside the years 1 to 9999"),
    ],
)
def test_dates_that_cannot_be_read_say_why(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        parse_instant(text)
