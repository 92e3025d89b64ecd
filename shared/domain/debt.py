"""Reflection debt: how much of a vault is not consolidated yet."""

from __future__ import annotations

from dataclasses import dataclass

THRESHOLD_TOKENS = 50_000
THRESHOLD_IMPORTANCE = 150


@dataclass(frozen=True, slots=True)
class Debt:
    """Sums over the two pools. Leased rows count until their batch is committed."""

    raw_units: int = 0
    raw_tokens: int = 0
    tier2_count: int = 0
    tier2_importance: int = 0
    tier2_tokens: int = 0

    @property
    def importance_equiv(self) -> int:
        """Raw rows carry no rating; 50,000 of their tokens weigh as much as 150 importance."""
        return self.raw_tokens * THRESHOLD_IMPORTANCE // THRESHOLD_TOKENS

    @property
    def suggestion(self) -> str | None:
        parts = []
        if self.importance_equiv >= THRESHOLD_IMPORTANCE:
            parts.append(f"raw consolidation suggested: {self.importance_equiv} unconsolidated importance")
        if self.tier2_importance >= THRESHOLD_IMPORTANCE:
            parts.append(f"tier 2 consolidation suggested: {self.tier2_importance} unconsolidated importance")
        return "; ".join(parts) or None

    def block(self) -> dict[str, object]:
        """The `reflection` field of responses."""
        return {
            "unconsolidated": {
                "raw": {
                    "units": self.raw_units,
                    "est_tokens": self.raw_tokens,
                    "importance_equiv": self.importance_equiv,
                },
                "tier2": {
                    "count": self.tier2_count,
                    "importance": self.tier2_importance,
                    "est_tokens": self.tier2_tokens,
                },
            },
            "threshold_tokens": THRESHOLD_TOKENS,
            "threshold_importance": THRESHOLD_IMPORTANCE,
            "suggestion": self.suggestion,
        }
