"""The search index of a vault: derived from the store, rebuilt from it at will, never the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from shared.domain.memory import Memory, VaultRef
from shared.domain.window import Window

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# A string, so that functions which never search start without numpy.
Vector: TypeAlias = "npt.NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows may be found. Applied before ranking, so that asking for k gives k whenever k exist.

    * `min_importance` leaves reflections of at least that rating, and no raw row.
    * With `session_id`, raw rows of other sessions are invisible; rows without a session and reflections are not.
    * The window is ``[from_ms, to_ms)``: raw rows by their date, reflections when their coverage overlaps it.
    """

    tiers: frozenset[int] = frozenset((1, 2, 3))
    min_importance: int | None = None
    session_id: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked. `vector` is None when no model can answer.

    `noise` is the cosine below which the model's nearness means nothing, `nearness` its weight in 0..1; words have the
    rest. `periods` are those that the text speaks of: rows of their dates are preferred, not required.
    """

    text: str
    vector: Vector | None = None
    noise: float = 1.0
    nearness: float = 0.5
    periods: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory, best passage first. `matched` says whether it is relevant or merely the nearest of the rest."""

    memory_id: str
    tier: int
    score: float
    matched: bool


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a memory that waits for its vector; `text` is what the model is given."""

    memory_id: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """`passages` are indexed by their words, `without_vector` of them have no vector yet.

    `lag_ms` is the age of the oldest row of the last hour that is not indexed yet, 0 when all are.
    """

    passages: int
    without_vector: int
    lag_ms: int = 0


class SearchIndex(Protocol):
    """Raises `Unavailable` ``search_unavailable`` when it cannot answer."""

    def put_words(self, vault: VaultRef, memories: Sequence[Memory]) -> None:
        """Index rows by their words. A row that is there already stays, with its vectors: rows never change.

        A row that the store does not hold any more is passed over, however long ago it was read: what was removed does
        not come back. An index in the store's own file asks the store, a remote one lets the change counter decide.
        """
        ...

    def remove(self, vault: VaultRef, ids: Sequence[str]) -> None:
        """Forget rows: their words, unless another row holds them, and every trace of them around their neighbours."""
        ...

    def without_vectors(self, vault: VaultRef, limit: int) -> tuple[Passage, ...]:
        """Passages that wait for a vector, oldest change first."""
        ...

    def put_vectors(self, vault: VaultRef, passages: Sequence[Passage], vectors: Vector) -> None:
        """Store unit vectors, one row each. A passage whose memory is gone meanwhile is passed over."""
        ...

    def search(self, vault: VaultRef, query: Query, filters: Filters, limit: int) -> tuple[Hit, ...]:
        """The `limit` best rows, scores in 0..1 and never rising."""
        ...

    def status(self, vault: VaultRef) -> IndexStatus: ...

    def waiting(self, limit: int) -> tuple[VaultRef, ...]:
        """Contents with passages that wait for their vectors, in no order, at most `limit` of them."""
        ...

    def purge(self, vault_id: str, below_epoch: int) -> None:
        """Forget everything of the contents below that epoch. Idempotent, resumable; an index in the store's own file
        has nothing to do."""
        ...


@dataclass(frozen=True, slots=True)
class Repaired:
    """Rows that were written anew: those that the index did not have whole, and those that it had otherwise."""

    missing: frozenset[str]
    stale: frozenset[str]


class RepairableIndex(SearchIndex, Protocol):
    """An index that can be compared with the store."""

    def listed(self, vault: VaultRef) -> Iterator[str]:
        """Ids of all rows that the index holds anything of, ascending, read by pages."""
        ...

    def repair(self, vault: VaultRef, memories: Sequence[Memory]) -> Repaired:
        """Bring rows up to date as `put_words` does, and tell what was wrong, with them or around them."""
        ...


class RowSource(Protocol):
    """What an index that lives elsewhere asks the store. All reads are consistent.

    Raises as the store does: `StaleEpoch` when the vault's content was dropped, `Unavailable`.
    """

    def change_counter(self, vault: VaultRef) -> int:
        """Moved by every transaction that changes rows. What is read after it is at least as new."""
        ...

    def get(self, vault: VaultRef, ids: Sequence[str]) -> dict[str, Memory]:
        """The live rows among `ids`, by id."""
        ...

    def beside(self, vault: VaultRef, session_id: str, at: tuple[int, str], reach: int) -> tuple[Memory, ...]:
        """Up to `reach` raw rows of the session before (date in ms, id) `at` and as many after it, oldest first.

        The row at `at` itself is left out; it need not exist.
        """
        ...

    def recent(self, vault: VaultRef, since_ms: int, max_bytes: int) -> tuple[Memory, ...]:
        """Rows of all tiers written since; the newest are kept when the bytes do not suffice for all."""
        ...
