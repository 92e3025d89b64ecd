"""A memory: one immutable row of a vault."""

from __future__ import annotations

from dataclasses import dataclass

RAW, REFLECTION, HIGH_LEVEL = 1, 2, 3
TIERS = (RAW, REFLECTION, HIGH_LEVEL)
MIN_IMPORTANCE, MAX_IMPORTANCE = 1, 10


@dataclass(frozen=True, slots=True)
class VaultRef:
    """One content of a vault. Emptying a vault gives it the next epoch, under which nothing exists yet."""

    vault_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Covers:
    """The period a reflection summarises: dates in ms of its oldest and newest source, both included."""

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Memory:
    """One row. Everything but `consolidated_by` and `position` is fixed when the row is written.

    * `id` is a canonical lower-case UUID; `date_ms` is the moment remembered (a reflection's: the end of its coverage).
    * `importance` and `covers` are set exactly on tiers 2 and 3; `session_id` only on tier 1.
    * `origin` is the batch that wrote a reflection, `entry` its place among that batch's entries.
    * `consolidated_by` is the committed batch that this row is a source of, `position` its place in that batch.
    * `created_ms` is when the row was written, by the server's clock.
    """

    id: str
    tier: int
    text: str
    role: str
    date_ms: int
    tokens: int
    created_ms: int
    session_id: str | None = None
    importance: int | None = None
    covers: Covers | None = None
    origin: str | None = None
    entry: int | None = None
    consolidated_by: str | None = None
    position: int | None = None

    @property
    def pool_ms(self) -> int:
        """Where the row stands in its pool's order: reflections queue by the start of their coverage."""
        return self.covers.from_ms if self.covers is not None else self.date_ms
