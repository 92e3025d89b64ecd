"""The counters of a vault: one item, changed in the same transaction as the rows it counts."""

from __future__ import annotations

from collections import Counter

from shared.adapters.dynamodb.layout import counters_key
from shared.adapters.dynamodb.values import Item, Wire, update
from shared.domain.debt import Debt
from shared.domain.errors import StaleEpoch
from shared.domain.memory import HIGH_LEVEL, RAW, TIERS, Memory, VaultRef

SEALED, DROPPED = 1, 2
"""Values of `sealed`: takes no write any more; and is not there for readers either."""
DEBT = ("raw_units", "raw_tokens", "tier2_count", "tier2_importance", "tier2_tokens")


class Counters:
    """Changes of the counters in one transaction."""

    def __init__(self) -> None:
        self._by: Counter[str] = Counter()

    def row(self, sign: int, tier: int, tokens: int) -> None:
        """A row entered (+1) or left (-1) the vault. Each moves the change counter, so that an index can order them."""
        self._by["seq"] += 1
        self._by[f"rows{tier}"] += sign
        self._by["tokens"] += sign * tokens

    def pool(self, sign: int, tier: int, tokens: int, importance: int) -> None:
        """A row entered (+1) or left (-1) the pool of unconsolidated rows of its tier."""
        if tier == HIGH_LEVEL:
            return
        if tier == RAW:
            self._by["raw_units"] += sign
            self._by["raw_tokens"] += sign * tokens
        else:
            self._by["tier2_count"] += sign
            self._by["tier2_importance"] += sign * importance
            self._by["tier2_tokens"] += sign * tokens

    def enter(self, memory: Memory) -> None:
        self.row(1, memory.tier, memory.tokens)
        if memory.consolidated_by is None:
            self.pool(1, memory.tier, memory.tokens, memory.importance or 0)

    def pending(self, rows: int) -> None:
        """Rows became certain (positive), or visible (negative)."""
        self._by["pending"] += rows

    def write(self, vault: VaultRef, condition: str = "") -> Wire:
        """The change as an operation that fails on a content which takes no writes."""
        changed = {name: by for name, by in sorted(self._by.items()) if by} or {"seq": 0}
        guard = "attribute_not_exists(#sealed)" + (f" AND {condition}" if condition else "")
        return update(
            counters_key(vault), "ADD " + ", ".join(f"#{name} :{name}" for name in changed), guard, None, **changed
        )


def to_debt(item: Item | None) -> Debt:
    return Debt(*(0 if item is None else item.get(name, 0) for name in DEBT))


def rows_of(item: Item | None) -> dict[int, int]:
    """How many rows of each tier there are."""
    return {tier: 0 if item is None else item.get(f"rows{tier}", 0) for tier in TIERS}


def stale() -> StaleEpoch:
    return StaleEpoch("The vault's content was replaced while the request ran.")


def check_readable(item: Item | None) -> None:
    """Raises `StaleEpoch` for a content that was dropped."""
    if item is not None and item.get("sealed") == DROPPED:
        raise stale()


def check_writable(item: Item | None) -> None:
    """Raises `StaleEpoch` for a content that was dropped or sealed."""
    if item is not None and "sealed" in item:
        raise stale()
