"""The memory store: whole atomic verbs on one vault's rows, batches and counters.

Every verb takes effect entirely or not at all, whoever else is at work and wherever the process dies. Counters move in
the transaction of the row that enters or leaves a pool. All reads are consistent: they see every write that was
answered before they began.

Every verb raises `StaleEpoch` when the vault's content was dropped or sealed in the meantime, `Unavailable`
(``storage_unavailable``, ``busy``) when the store cannot answer, and `VaultFull` where a write finds no room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shared.domain.batch import Batch, Created, Entry, State
from shared.domain.debt import Debt
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget

SortKey = tuple[int, str]
"""(date in ms, id): the order of rows in time."""


@dataclass(frozen=True, slots=True)
class Idempotency:
    """`key_hash` names the client's request, `body_hash` its content; the record lives until `expires_ms`."""

    key_hash: str
    body_hash: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Appended:
    """`ids` are those of the first request when `replayed`."""

    ids: tuple[str, ...]
    debt: Debt
    replayed: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """What a checkout writes when it finds rows: the batch's name, the moment and the length of the lease in ms."""

    batch_id: str
    now_ms: int
    lease_ms: int


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """A leased batch and its rows, oldest first: (pool date, id)."""

    batch: Batch
    memories: tuple[Memory, ...]


@dataclass(frozen=True, slots=True)
class NothingFree:
    """`leased` rows of this tier are in open batches, the first of which expires at `next_expiry_ms`."""

    leased: int
    next_expiry_ms: int | None


@dataclass(frozen=True, slots=True)
class Committed:
    """`tier` is the tier created. On a replay everything but `debt` is the first answer."""

    batch_id: str
    tier: int
    created: tuple[Created, ...]
    sources_consolidated: int
    already_committed: bool
    debt: Debt


@dataclass(frozen=True, slots=True)
class Released:
    """`state` is the batch's state afterwards, `returned` the rows given back by this call."""

    state: State
    returned: int
    debt: Debt


@dataclass(frozen=True, slots=True)
class Renewed:
    expires_ms: int
    debt: Debt


@dataclass(frozen=True, slots=True)
class Reopened:
    """Counts of the first reopen, also when it is repeated."""

    reflections_removed: int
    sources_returned: int
    debt: Debt


@dataclass(frozen=True, slots=True)
class SourcePage:
    """Live sources of a batch in batch order; `next_offset` is a position in the batch, None at its end."""

    memories: tuple[Memory, ...]
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """`rows` left with this call, as (id, tokens); `not_found` were not there."""

    rows: tuple[tuple[str, int], ...]
    not_found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything a vault holds. Dates are ms, None without rows; `pending` rows are accepted but not yet visible."""

    memories: Mapping[int, int]
    tokens: int
    oldest_ms: int | None
    newest_ms: int | None
    sessions: int
    pending: int
    debt: Debt


@dataclass(frozen=True, slots=True)
class TimelineQuery:
    """Rows whose own date lies in ``[from_ms, to_ms)``, in (date, id) order or its reverse, after `after`."""

    from_ms: int
    to_ms: int
    tiers: frozenset[int]
    newest_first: bool
    limit: int
    min_importance: int | None = None
    after: SortKey | None = None


class MemoryStore(Protocol):
    """One vault's truth."""

    def append(self, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int) -> Appended:
        """Write raw rows, all or none.

        Raises `Conflict` ``idempotency_mismatch`` when `once` was used with another body. An idempotency record that
        expired counts as absent.
        """
        ...

    def debt(self, vault: VaultRef) -> Debt:
        """One read, whatever the vault's size."""
        ...

    def totals(self, vault: VaultRef) -> Totals: ...

    def get(self, vault: VaultRef, ids: Sequence[str]) -> dict[str, Memory]:
        """The live rows among `ids`, by id."""
        ...

    def get_with_debt(self, vault: VaultRef, ids: Sequence[str]) -> tuple[dict[str, Memory], Debt]:
        """The same, and the vault's debt, in one read."""
        ...

    def checkout(self, vault: VaultRef, tier: int, budget: Budget, lease: Lease) -> CheckedOut | NothingFree:
        """Lease the oldest free rows of `tier`.

        Batches found past their expiry are fenced: they can never commit. Raises `RateLimited` when too many batches
        or rows are leased already.
        """
        ...

    def commit(self, vault: VaultRef, batch_id: str, entries: Sequence[Entry], now_ms: int) -> Committed:
        """Write the reflections of a leased batch and mark its sources, or replay the first commit's answer.

        Raises `NotFound`, or `Conflict` (``lease_expired``, ``batch_released``, ``reopened``, ``sources_deleted``).
        """
        ...

    def release(self, vault: VaultRef, batch_id: str, now_ms: int) -> Released:
        """Give a lease back. Raises `NotFound`, or `Conflict` ``already_committed`` / ``reopened``."""
        ...

    def renew(self, vault: VaultRef, batch_id: str, now_ms: int) -> Renewed:
        """Extend a lease by its own length from now, once. Raises `NotFound` or `Conflict`."""
        ...

    def reopen(self, vault: VaultRef, batch_id: str, now_ms: int) -> Reopened:
        """Undo a consolidation. Raises `NotFound`, or `Conflict` (``not_committed``, ``reflections_in_use``)."""
        ...

    def batch(self, vault: VaultRef, batch_id: str) -> Batch | None: ...

    def sources(self, vault: VaultRef, batch_id: str, offset: int, limit: int) -> SourcePage:
        """Up to `limit` live sources from position `offset` on."""
        ...

    def written_by(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, tuple[Memory, ...]]:
        """The live reflections that each committed batch wrote, in entry order. Batches without any are left out."""
        ...

    def delete(self, vault: VaultRef, ids: Sequence[str], now_ms: int) -> Deleted:
        """Remove rows of any tier. The batch that consolidated a row counts the gap, an open one at its commit."""
        ...

    def session_ids(self, vault: VaultRef, session_id: str, limit: int) -> tuple[str, ...]:
        """Ids of up to `limit` raw rows of a session, oldest first."""
        ...

    def timeline(self, vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]: ...

    def spanning(self, vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]:
        """Reflections whose coverage begins before `to_ms`, and ends at or after it.

        They are ordered by id (reversed when newest first); `from_ms` and `after`'s date are not looked at.
        """
        ...

    def export(self, vault: VaultRef, after: SortKey | None, limit: int) -> tuple[Memory, ...]:
        """Rows of all tiers in (date, id) order after `after`."""
        ...

    def batches(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, Batch]: ...

    def restore(self, vault: VaultRef, rows: Sequence[Memory], batches: Sequence[Batch], now_ms: int) -> int:
        """Write rows and batch headers of an import under the importing epoch. Returns how many rows it now holds.

        Rows and headers that are there already are left as they are: a page sent again stores nothing twice. After
        `complete_import` a page that holds anything new raises `StaleEpoch`.
        """
        ...

    def seal(self, vault: VaultRef) -> bool:
        """Forbid every later write under this epoch if it holds no row; False (and no change) when it holds one."""
        ...

    def complete_import(self, vault: VaultRef) -> None:
        """Check and finish what `restore` wrote: pools, counters, source lists. Changes nothing the second time.

        `sources_deleted` of a batch becomes the number of its sources that did not come. Raises `InvalidRequest`
        naming what is wrong: a batch without its header, a position taken twice, lines that disagree about a batch.
        """
        ...

    def heal(self, vault: VaultRef, batch_id: str) -> None:
        """Finish what a commit or a reopen of this batch began; changes nothing when nothing is left to do."""
        ...

    def finish(self, vault: VaultRef, attempt: str) -> None:
        """Finish the large write of this name; changes nothing when it is finished, or was never certain."""
        ...

    def purge(self, vault_id: str, below_epoch: int) -> None:
        """Physically remove the content of all epochs below the one given. Idempotent, resumable."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """Row `memory_id` was written or removed. `seq` grows with every change of the vault."""

    seq: int
    memory_id: str


class ChangeFeed(Protocol):
    """Changes that the search index has not seen, written in the transaction of the rows themselves."""

    def pending(self, vault: VaultRef, limit: int) -> tuple[Change, ...]:
        """The oldest unseen changes."""
        ...

    def acknowledge(self, vault: VaultRef, changes: Sequence[Change]) -> None:
        """Forget changes that the index now holds."""
        ...

    def touched(self) -> tuple[VaultRef, ...]:
        """Vaults that the calling thread changed, or found changes waiting in, since it last asked."""
        ...
