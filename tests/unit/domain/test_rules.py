"""Text, debt, selection, leases: each formula against its sentence in the contract."""

import math
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain import batch as batches
from shared.domain.batch import Batch, State
from shared.domain.debt import Debt
from shared.domain.errors import Conflict, FieldProblem, InvalidRequest, RateLimited, StrataError, TooLarge
from shared.domain.keys import PresentedKey
from shared.domain.memory import (
    HIGH_LEVEL,
    MAX_IMPORTANCE,
    MIN_IMPORTANCE,
    RAW,
    REFLECTION,
    TIERS,
    Covers,
    Memory,
    VaultRef,
)
from shared.domain.metering import OPERATIONS, RETRIEVAL, STORAGE
from shared.domain.selection import MAX_ANSWER_BYTES, Budget, Selection, budget_for
from shared.domain.text import check_text, est_tokens, is_blank
from shared.domain.transfer import Line
from shared.domain.window import Candidate, Page, Window

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS)
def test_tokens_are_quarters_of_utf8_bytes_rounded_up(text: str) -> None:
    assert est_tokens(text) == math.ceil(len(text.encode("utf-8")) / 4)
    assert (est_tokens(text) >= 1) == (text != "")


@pytest.mark.parametrize(("text", "blank"), [("", True), ("\u2003\u00a0\n", True), ("\u200b", False), (" a ", False)])
def test_blank_is_what_unicode_calls_white_space(text: str, blank: bool) -> None:
    assert is_blank(text) is blank


def test_white_space_is_the_unicode_property() -> None:
    # White_Space in PropList.txt of the Unicode Character Database.
    spaces = {
        *range(0x09, 0x0E),
        0x20,
        0x85,
        0xA0,
        0x1680,
        *range(0x2000, 0x200B),
        0x2028,
        0x2029,
        0x202F,
        0x205F,
        0x3000,
    }
    assert {code for code in range(0x11000) if is_blank(chr(code))} == spaces


def test_text_is_taken_up_to_its_limits() -> None:
    check_text("content", "x" * 100_000)
    check_text("content", "€" * 100_000)
    with pytest.raises(TooLarge, match="content"):
        check_text("content", "x" * 100_001)
    with pytest.raises(TooLarge):
        check_text("content", "🙂" * 75_001)


@pytest.mark.parametrize("text", ["a\x00", "\udfff"])
def test_text_without_a_faithful_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_text("messages.3.content", text)
    assert [problem.field for problem in refused.value.details] == ["messages.3.content"]


@given(st.integers(0, 10**12))
def test_raw_debt_as_importance(tokens: int) -> None:
    assert Debt(raw_tokens=tokens).importance_equiv == math.floor(tokens * 150 / 50_000)


def test_an_empty_vault_owes_nothing() -> None:
    assert Debt() == Debt(0, 0, 0, 0, 0)


def test_the_debt_block_of_the_documents() -> None:
    block = Debt(40_000, 13_200_000, 120, 640, 41_000).block()
    assert block == {
        "unconsolidated": {
            "raw": {"units": 40_000, "est_tokens": 13_200_000, "importance_equiv": 39_600},
            "tier2": {"count": 120, "importance": 640, "est_tokens": 41_000},
        },
        "threshold_tokens": 50_000,
        "threshold_importance": 150,
        "suggestion": "raw consolidation suggested: 39600 unconsolidated importance; "
        "tier 2 consolidation suggested: 640 unconsolidated importance",
    }


@pytest.mark.parametrize(
    ("debt", "suggestion"),
    [
        (Debt(raw_tokens=49_999, tier2_importance=149), None),
        (Debt(raw_tokens=50_000), "raw consolidation suggested: 150 unconsolidated importance"),
        (Debt(tier2_importance=150), "tier 2 consolidation suggested: 150 unconsolidated importance"),
    ],
)
def test_suggestions_begin_at_150(debt: Debt, suggestion: str | None) -> None:
    assert debt.suggestion == suggestion


@pytest.mark.parametrize(
    ("tier", "asked", "budget"),
    [
        (1, None, Budget(max_tokens=50_000)),
        (2, None, Budget(target_importance=150, soft_tokens=10_000)),
        (1, 5, Budget(max_tokens=1_000)),
        (2, 1_500.9, Budget(max_tokens=1_500)),
        (2, 1e12, Budget(max_tokens=200_000)),
    ],
)
def test_budgets(tier: int, asked: float | None, budget: Budget) -> None:
    assert budget_for(tier, asked) == budget


def chosen(budget: Budget, rows: list[tuple[int, int]], wire_bytes: int = 1) -> int:
    selection = Selection(budget)
    for tokens, importance in rows:
        if selection.full or not selection.take(tokens, importance, wire_bytes):
            break
    return selection.count


@given(st.lists(st.integers(1, 900), min_size=1, max_size=30))
def test_a_hard_cap_is_broken_by_the_first_row_only(tokens: list[int]) -> None:
    count = chosen(Budget(max_tokens=1_000), [(each, 0) for each in tokens])
    assert count == 1 or sum(tokens[:count]) <= 1_000
    assert count == len(tokens) or sum(tokens[: count + 1]) > 1_000


def test_one_oversized_row_is_a_batch() -> None:
    assert chosen(Budget(max_tokens=1_000), [(5_000, 0), (1, 0)]) == 1


@given(st.lists(st.tuples(st.integers(1, 3_000), st.integers(1, 10)), min_size=1, max_size=60))
def test_tier_two_stops_with_the_row_that_reaches_either_mark(rows: list[tuple[int, int]]) -> None:
    tokens = importance = expected = 0
    for row_tokens, row_importance in rows:
        expected += 1
        tokens += row_tokens
        importance += row_importance
        if importance >= 150 or tokens >= 10_000:
            break
    assert chosen(budget_for(2, None), rows) == expected


def test_the_marks_of_tier_two_are_met_exactly() -> None:
    assert chosen(budget_for(2, None), [(1, 10)] * 20) == 15
    assert chosen(budget_for(2, None), [(1, 10)] * 14 + [(1, 9)] + [(1, 1)] * 3) == 16
    assert chosen(budget_for(2, None), [(2_500, 1)] * 6) == 4
    assert chosen(budget_for(2, None), [(2_500, 1)] * 3 + [(2_499, 1)] + [(1, 1)] * 3) == 5


def test_a_new_selection_is_empty_and_open() -> None:
    selection = Selection(Budget())
    assert (selection.count, selection.tokens, selection.importance, selection.answer_bytes) == (0, 0, 0, 0)
    assert selection.full is False


def test_a_selection_adds_up_what_it_took() -> None:
    selection = Selection(Budget(max_tokens=10))
    assert [selection.take(4, 2, 100), selection.take(6, 3, 50), selection.take(1, 1, 1)] == [True, True, False]
    assert (selection.count, selection.tokens, selection.importance) == (2, 10, 5)
    assert selection.answer_bytes == 100 + 50 + 2 * 120
    assert selection.full
    assert MAX_ANSWER_BYTES == 5_242_880


def test_a_batch_closes_below_the_size_of_an_answer() -> None:
    half = MAX_ANSWER_BYTES // 2
    assert chosen(Budget(), [(1, 0)] * 3, half) == 1
    assert chosen(Budget(), [(1, 0)] * 3, half - 120) == 2
    assert chosen(Budget(), [(1, 0)] * 3, 9 * MAX_ANSWER_BYTES) == 1


def test_a_budget_without_marks_has_none() -> None:
    assert (Budget().max_tokens, Budget().target_importance, Budget().soft_tokens) == (None, None, None)
    assert Budget().max_rows == 10_000


def test_a_batch_has_at_most_ten_thousand_rows() -> None:
    assert chosen(Budget(), [(1, 0)] * 10_001) == 10_000


LEASED = Batch("cb_1", 1, State.LEASED, 1, 1, Covers(0, 0), leased_ms=0, expires_ms=900_000, lease_ms=900_000)


@pytest.mark.parametrize(
    ("state", "code"),
    [(State.EXPIRED, "lease_expired"), (State.RELEASED, "batch_released"), (State.REOPENED, "reopened")],
)
def test_what_a_final_batch_answers_to_a_commit(state: State, code: str) -> None:
    assert batches.refuse_commit(replace(LEASED, state=state)).code == code


@pytest.mark.parametrize(
    ("batch", "now_ms", "code"),
    [
        (LEASED, 899_999, None),
        (LEASED, 900_000, "lease_expired"),
        (replace(LEASED, renewed_ms=5), 6, "already_renewed"),
        (replace(LEASED, state=State.COMMITTED), 6, "already_committed"),
        (replace(LEASED, state=State.SETTLED), 6, "already_committed"),
        (replace(LEASED, state=State.RELEASED), 6, "batch_released"),
    ],
)
def test_a_lease_is_renewed_once_and_in_time(batch: Batch, now_ms: int, code: str | None) -> None:
    refusal = batches.refuse_renewal(batch, now_ms)
    assert (refusal.code if refusal else None) == code


@pytest.mark.parametrize(
    ("batch", "now_ms", "replay"),
    [
        (LEASED, 5, False),
        (replace(LEASED, renewed_ms=1_000), 11_000, True),
        (replace(LEASED, renewed_ms=1_000), 11_001, False),
        (replace(LEASED, renewed_ms=899_999), 900_000, False),
        (replace(LEASED, renewed_ms=1_000, state=State.SETTLED), 2_000, False),
    ],
)
def test_a_renewal_is_repeated_within_ten_seconds(batch: Batch, now_ms: int, replay: bool) -> None:
    assert batches.is_renewal_replay(batch, now_ms) is replay


def test_leases_last_a_quarter_of_an_hour_and_their_limits_are_those_of_the_contract() -> None:
    assert batches.LEASE_MS == 15 * 60 * 1_000
    assert batches.EXPIRED_KEPT_MS == 7 * 24 * 3_600 * 1_000
    assert (batches.MAX_OPEN_BATCHES, batches.MAX_LEASED_ROWS) == (100, 100_000)


def test_a_new_batch_is_neither_renewed_nor_committed() -> None:
    assert (LEASED.renewed_ms, LEASED.committed_ms, LEASED.created) == (None, None, ())
    assert (LEASED.sources_consolidated, LEASED.sources_deleted) == (0, 0)


def test_states_are_spelt_as_on_the_wire() -> None:
    assert [str(state) for state in State] == ["leased", "committed", "settled", "expired", "released", "reopened"]


@pytest.mark.parametrize(
    "value",
    [
        LEASED,
        batches.Created("id", 1),
        batches.Entry("id", "x", 1, 1),
        Memory("id", 1, "x", "user", 9, 1, 0),
        Covers(0, 1),
        VaultRef("v", 1),
        Debt(),
        Budget(),
        FieldProblem("a", "is wrong"),
        PresentedKey("mk_a", None),
        Window(0, 1),
        Candidate(0, "id", 1, 1, False, None),
        Page((), truncated=False, cut=False),
        Line(Memory("id", 1, "x", "user", 9, 1, 0), ()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_cannot_be_changed(value: Any) -> None:
    name = fields(value)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, getattr(value, name))
    assert not hasattr(value, "__dict__")
    assert value == replace(value)


def test_conflicts_carry_their_codes() -> None:
    assert batches.lease_expired().code == "lease_expired"
    assert batches.sources_deleted().code == "sources_deleted"


def test_errors_keep_what_they_are_given() -> None:
    error = RateLimited("Wait.", hint="Later.", retry_after=7, extra={"next_expiry": "x"})
    assert (error.code, error.message, error.hint, error.retry_after) == ("rate_limited", "Wait.", "Later.", 7)
    assert error.extra == {"next_expiry": "x"}
    assert error.details == ()
    assert str(error) == "Wait."
    assert Conflict("No.", code="reopened").code == "reopened"
    assert StrataError("Oh.").code == "internal"
    field = InvalidRequest.field("a.b", "is wrong", "Fix it.")
    assert (field.message, field.hint, field.details) == (
        "a.b: is wrong",
        "Fix it.",
        (FieldProblem("a.b", "is wrong"),),
    )


def test_codes_are_part_of_the_contract() -> None:
    own = [error for error in StrataError.__subclasses__() if error.__module__ == StrataError.__module__]
    codes = {error.__name__: error("Oh.").code for error in own}
    assert codes == {
        "InvalidRequest": "invalid_request",
        "Unauthorized": "unauthorized",
        "InsufficientScope": "insufficient_scope",
        "NotFound": "not_found",
        "Conflict": "conflict",
        "TooLarge": "too_large",
        "UnsupportedMedia": "unsupported_media_type",
        "MethodNotAllowed": "method_not_allowed",
        "RateLimited": "rate_limited",
        "Unavailable": "unavailable",
        "VaultFull": "vault_full",
        "StaleEpoch": "stale_epoch",
    }
    assert InvalidRequest.field("a", "is wrong").hint is None


def test_reflections_queue_by_the_start_of_their_coverage() -> None:
    raw = Memory("id", 1, "x", "user", 9, 1, 0)
    assert raw.pool_ms == 9
    assert replace(raw, tier=2, covers=Covers(3, 9)).pool_ms == 3
    assert VaultRef("v", 1) != VaultRef("v", 2)


def test_what_a_raw_memory_does_not_have() -> None:
    raw = Memory("id", 1, "x", "user", 9, 1, 0)
    assert (raw.session_id, raw.importance, raw.covers, raw.origin, raw.entry) == (None, None, None, None, None)
    assert (raw.consolidated_by, raw.position) == (None, None)
    assert (RAW, REFLECTION, HIGH_LEVEL) == TIERS == (1, 2, 3)
    assert (MIN_IMPORTANCE, MAX_IMPORTANCE) == (1, 10)


def test_every_operation_is_stored_retrieved_or_deleted() -> None:
    assert {"ingest", "upload", "commit"} == STORAGE
    assert {"search", "prepare", "date_search", "inspect", "checkout"} == RETRIEVAL
    assert {"delete_ids"} == OPERATIONS - STORAGE - RETRIEVAL
    assert len(OPERATIONS) == 9
