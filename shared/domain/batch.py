"""A batch: rows of one pool under a lease, then the sources of one consolidation.

States and the only moves between them::

    leased ──commit──▶ committed ──settle──▶ settled ──reopen──▶ reopened
       ├──release──▶ released
       └──expiry, fenced by a checkout or a late commit──▶ expired

A back end that settles in the committing transaction never shows `committed`. Every other state is final.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shared.domain.errors import Conflict
from shared.domain.memory import Covers

LEASE_MS = 900_000
RENEW_REPLAY_MS = 10_000
EXPIRED_KEPT_MS = 7 * 86_400_000
MAX_OPEN_BATCHES = 100
MAX_LEASED_ROWS = 100_000
MIN_ENTRIES, MAX_ENTRIES = 1, 100
MAX_ENTRY_CHARACTERS = 8_000


class State(StrEnum):
    LEASED = "leased"
    COMMITTED = "committed"
    SETTLED = "settled"
    EXPIRED = "expired"
    RELEASED = "released"
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True)
class Created:
    """One reflection that a commit wrote."""

    id: str
    importance: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a batch. `tier` is the tier of its sources; `count` and `tokens` are those of the checkout.

    `renewed_ms` is when the lease was renewed (it can be once). `created` and `sources_consolidated` are the first
    answer of the commit; `sources_deleted` counts sources deleted since the checkout.
    """

    id: str
    tier: int
    state: State
    count: int
    tokens: int
    covers: Covers
    leased_ms: int
    expires_ms: int
    lease_ms: int
    renewed_ms: int | None = None
    committed_ms: int | None = None
    created: tuple[Created, ...] = ()
    sources_consolidated: int = 0
    sources_deleted: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One reflection as the client's model wrote it, under the id that the commit will give it."""

    id: str
    text: str
    importance: int
    tokens: int


def lease_expired() -> Conflict:
    return Conflict(
        "The lease of this batch has expired; its memories are back in the pool.",
        code="lease_expired",
        hint="Check out again and commit the new batch.",
    )


def refuse_commit(batch: Batch) -> Conflict:
    """Why a batch that is neither leased nor committed takes no commit."""
    if batch.state is State.REOPENED:
        return Conflict(
            "This consolidation was undone; the batch takes no commit any more.",
            code="reopened",
            hint="Check out again: its memories are unconsolidated.",
        )
    if batch.state is State.RELEASED:
        return Conflict(
            "This batch was released; its memories are back in the pool.",
            code="batch_released",
            hint="Check out again and commit the new batch.",
        )
    return lease_expired()


def sources_deleted() -> Conflict:
    return Conflict(
        "Every memory of this batch was deleted while it was leased; there is nothing to consolidate.",
        code="sources_deleted",
        hint="Check out again.",
    )


def refuse_renewal(batch: Batch, now_ms: int) -> Conflict | None:
    """Why the lease cannot be renewed now, or None when it can."""
    if batch.state in (State.COMMITTED, State.SETTLED):
        return Conflict("This batch is committed; there is no lease to renew.", code="already_committed")
    if batch.state is not State.LEASED:
        return refuse_commit(batch)
    if batch.expires_ms <= now_ms:
        return lease_expired()
    if batch.renewed_ms is not None:
        return Conflict(
            "This lease was renewed already; a lease can be renewed once.",
            code="already_renewed",
            hint="Commit before it expires, or release it and check out a smaller batch.",
        )
    return None


def is_renewal_replay(batch: Batch, now_ms: int) -> bool:
    """Whether a second renewal is the first one repeated after a lost answer."""
    return (
        batch.state is State.LEASED
        and batch.expires_ms > now_ms
        and batch.renewed_ms is not None
        and now_ms - batch.renewed_ms <= RENEW_REPLAY_MS
    )
