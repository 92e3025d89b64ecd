"""Which rows of a pool one checkout takes: the oldest, until a budget is reached."""

from __future__ import annotations

from dataclasses import dataclass

MIN_TOKENS, MAX_TOKENS = 1_000, 200_000
DEFAULT_RAW_TOKENS = 50_000
TARGET_IMPORTANCE = 150
SOFT_CAP_TOKENS = 10_000
MAX_ROWS = 10_000
# A response is at most 5.5 MiB; a batch closes below it with room for ids, dates and the contract.
MAX_ANSWER_BYTES = 5 * 1024 * 1024
# Bytes of one row in the answer besides its text: date, source id, punctuation.
ROW_OVERHEAD_BYTES = 120


@dataclass(frozen=True, slots=True)
class Budget:
    """`max_tokens` is a hard cap that only the first row may break.

    With `target_importance` set, the row that reaches it or `soft_tokens` is still taken and is the last one.
    """

    max_tokens: int | None = None
    target_importance: int | None = None
    soft_tokens: int | None = None
    max_rows: int = MAX_ROWS


def budget_for(tier: int, max_tokens: float | None) -> Budget:
    """The budget of a checkout from `tier` (1 or 2); `max_tokens` is clamped to 1,000..200,000, fractions are cut."""
    if max_tokens is not None:
        return Budget(max_tokens=int(min(max(max_tokens, MIN_TOKENS), MAX_TOKENS)))
    if tier == 1:
        return Budget(max_tokens=DEFAULT_RAW_TOKENS)
    return Budget(target_importance=TARGET_IMPORTANCE, soft_tokens=SOFT_CAP_TOKENS)


class Selection:
    """Offer rows oldest first; `take` says whether the row belongs to the batch, `full` whether to stop offering."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.count = 0
        self.tokens = 0
        self.importance = 0
        self.answer_bytes = 0
        self.full = False

    def take(self, tokens: int, importance: int, wire_bytes: int) -> bool:
        """Decide about the next row. `wire_bytes` is the length of its text as JSON in the answer."""
        budget = self._budget
        answer_bytes = self.answer_bytes + wire_bytes + ROW_OVERHEAD_BYTES
        if self.count and (
            (budget.max_tokens is not None and self.tokens + tokens > budget.max_tokens)
            or answer_bytes > MAX_ANSWER_BYTES
        ):
            self.full = True
            return False
        self.count += 1
        self.tokens += tokens
        self.importance += importance
        self.answer_bytes = answer_bytes
        reached = (budget.target_importance is not None and self.importance >= budget.target_importance) or (
            budget.soft_tokens is not None and self.tokens >= budget.soft_tokens
        )
        self.full = reached or self.count >= budget.max_rows
        return True
