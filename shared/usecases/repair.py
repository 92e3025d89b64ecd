"""Making the search index right again: from the store alone, whatever it holds, while the vault is in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from shared.domain.errors import NotFound, StaleEpoch
from shared.domain.memory import TIERS, Memory, VaultRef
from shared.domain.times import MAX_MS, MIN_MS
from shared.ports.dead_letters import Kind, Task
from shared.ports.store import Change, TimelineQuery
from shared.usecases.following import follow
from shared.usecases.indexing import fill_vectors, load_model, update_words
from shared.usecases.services import Services

if TYPE_CHECKING:
    from shared.ports.search import RepairableIndex

PAGE = 500
VECTORS_AT_ONCE = 256

Progress = Callable[[str, int], None]
"""Told what is being done and how much of it is done."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    rows: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Findings:
    """Rows of the store that the index lacked, rows that only the index had, rows that it had otherwise than they are.

    All of them are right afterwards but those `left`: the search store refuses for an hour to take back what somebody
    removed from it by hand. `vectors` were missing and are made, `without_vector` passages still wait.
    """

    rows: int
    missing: int
    ghosts: int
    stale: int
    left: int
    vectors: int
    without_vector: int

    @property
    def clean(self) -> bool:
        return not (self.missing or self.ghosts or self.stale or self.vectors or self.without_vector)


@dataclass(frozen=True, slots=True)
class Redriven:
    """Letters that were worked off, and those that stay: failed again, or written by somebody else."""

    done: int
    failed: int
    foreign: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Changes that were brought into the index, and those that failed."""

    done: int
    failed: int


class KeptChanges(Protocol):
    """A change feed that tells which contents have changes."""

    def waiting(self) -> Sequence[VaultRef]: ...
    def pending(self, vault: VaultRef, limit: int) -> Sequence[Change]: ...
    def acknowledge(self, vault: VaultRef, changes: Sequence[Change]) -> None: ...


def rebuild(services: Services, vault: VaultRef, progress: Progress) -> Rebuilt:
    """Bring every row of the vault into the index by its words and its vectors; what is there already costs little.

    Can be stopped and begun again at any point. Raises `StaleEpoch` when the content is dropped meanwhile.
    """
    rows = 0
    for page in _stored(services, vault):
        update_words(services, vault, [memory.id for memory in page])
        rows += len(page)
        progress("rows", rows)
    return Rebuilt(rows, _fill(services, vault, progress))


def reconcile(services: Services, index: RepairableIndex, vault: VaultRef, progress: Progress) -> Findings:
    """Compare store and index in both directions, a page at a time, and repair what differs.

    What others change meanwhile they index themselves; it may be counted here as well.
    """
    rows = 0
    missing: set[str] = set()
    stale: set[str] = set()
    for page in _stored(services, vault):
        repaired = index.repair(vault, page)
        missing |= repaired.missing
        stale |= repaired.stale
        rows += len(page)
        progress("rows", rows)
    ghosts = 0
    for ids in _pages(index.listed(vault)):
        held = services.store.get(vault, ids)
        gone = [memory_id for memory_id in ids if memory_id not in held]
        if gone:
            index.remove(vault, gone)
            ghosts += len(gone)
            progress("ghosts", ghosts)
    vectors = _fill(services, vault, progress)
    waiting = index.status(vault).without_vector
    left = _living(services, vault, missing.difference(index.listed(vault))) if missing else 0
    return Findings(rows, len(missing), ghosts, len(stale - missing), left, vectors, waiting)


def _living(services: Services, vault: VaultRef, ids: Iterable[str]) -> int:
    """How many of these rows the store still has: others may have removed some meanwhile."""
    return sum(len(services.store.get(vault, page)) for page in _pages(ids))


def catch_up(services: Services, changes: KeptChanges, progress: Progress) -> CaughtUp:
    """Bring everything into the index that the feed still knows of, whoever indexed it elsewhere.

    Costs what changed, where `reconcile` costs all that there is. Each change is tried once. Raises `Unavailable`
    without the model.
    """
    done = failed = 0
    for vault in changes.waiting():
        while page := changes.pending(vault, PAGE):
            tasks = [Task(Kind.INDEX, vault, change.memory_id) for change in page]
            outcome = follow(services, tasks, 0)
            changes.acknowledge(vault, page)
            failed += len(outcome.failed) + len(outcome.given_up)
            done += len(page)
            progress("changes", done)
        try:
            _fill(services, vault, progress)
        except (StaleEpoch, NotFound):
            continue
    return CaughtUp(max(0, done - failed), failed)


def _fill(services: Services, vault: VaultRef, progress: Progress) -> int:
    """Vectors for the passages that wait; returns how many were made. Raises `Unavailable` without the model.

    As many as wait at the beginning: those of a vault that is being written come without end.
    """
    waiting = services.index.status(vault).without_vector
    if not waiting:
        return 0
    load_model(services, vault)
    made = 0
    while made < waiting and (more := fill_vectors(services, vault, VECTORS_AT_ONCE)):
        made += more
        progress("vectors", made)
    return made


def _stored(services: Services, vault: VaultRef) -> Iterator[Sequence[Memory]]:
    """Rows by date, to the one that is the last at the beginning: a vault that is being written has no end."""
    everything = TimelineQuery(MIN_MS, MAX_MS + 1, frozenset(TIERS), newest_first=True, limit=1)
    last = [(memory.date_ms, memory.id) for memory in services.store.timeline(vault, everything)]
    after: tuple[int, str] | None = None
    while last and (after is None or after < last[0]) and (page := services.store.export(vault, after, PAGE)):
        yield page
        after = page[-1].date_ms, page[-1].id


def _pages(ids: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(ids)
    while page := list(islice(iterator, PAGE)):
        yield page


def redrive(services: Services, progress: Progress) -> Redriven:
    """Try every dead letter again, from the rows as they are now; those that succeed are removed from the queue."""
    done = failed = foreign = 0
    while messages := services.dead_letters.receive():
        for message in messages:
            if not message.letters:
                foreign += 1
                continue
            tasks: list[Task] = [letter.task for letter in message.letters]
            outcome = follow(services, tasks, VECTORS_AT_ONCE)
            left = len(outcome.failed) + len(outcome.given_up)
            if not left:
                services.dead_letters.discard(message.receipt)
            failed += left
            done += max(0, len(tasks) - left)
            progress("letters", done + failed)
    return Redriven(done, failed, foreign)
