"""What a store answers instead of a result, worded once for every back end."""

from __future__ import annotations

from shared.domain.batch import MAX_LEASED_ROWS, MAX_OPEN_BATCHES
from shared.domain.errors import Conflict, NotFound, RateLimited
from shared.domain.times import to_text


def unknown_batch() -> NotFound:
    return NotFound("There is no such batch in this vault.", hint="Check out again.")


def no_lease_to_give_back() -> Conflict:
    return Conflict(
        "This batch is committed; there is no lease to give back.",
        code="already_committed",
        hint="Reopen it to undo the consolidation.",
    )


def never_committed() -> Conflict:
    return Conflict("This batch was never committed; there is nothing to undo.", code="not_committed")


def reflections_in_use() -> Conflict:
    return Conflict(
        "A reflection of this batch is consolidated or checked out itself.",
        code="reflections_in_use",
        hint="Reopen the batch that consolidated it, or release the open one, first.",
    )


def another_body() -> Conflict:
    return Conflict(
        "This Idempotency-Key was used with another body.",
        code="idempotency_mismatch",
        hint="Use a fresh key for a new request; repeat a request byte for byte.",
    )


def check_room(batches: int, rows: int, next_expiry_ms: int | None, now_ms: int) -> None:
    """Raises `RateLimited` when a tier with so many open batches and leased rows takes no further lease."""
    if batches < MAX_OPEN_BATCHES and rows < MAX_LEASED_ROWS:
        return
    expiry = next_expiry_ms or now_ms
    raise RateLimited(
        f"Too much is checked out already: {batches} batches with {rows} memories are open.",
        hint="Commit or release open batches, or wait for the next lease to expire.",
        retry_after=max(1, -(-(expiry - now_ms) // 1000)),
        extra={"next_expiry": to_text(expiry)},
    )
