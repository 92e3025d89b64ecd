"""What follows a write: rows go into the search index, and what a crash left half done is finished."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shared.domain.errors import NotFound, RateLimited, StaleEpoch, Unavailable
from shared.domain.memory import VaultRef
from shared.ports.dead_letters import DeadLetter, Kind, Task
from shared.usecases.indexing import CHANGES_AT_ONCE, fill_vectors, update_words
from shared.usecases.services import Services

log = logging.getLogger("strata.following")

VECTORS_AT_ONCE = 96


@dataclass(slots=True)
class Outcome:
    """`failed` may succeed when they are tried again, `given_up` never will."""

    failed: list[Task] = field(default_factory=list)
    given_up: list[DeadLetter] = field(default_factory=list)


def follow(
    services: Services, tasks: Sequence[Task], vectors: int, in_time: Callable[[], bool] = lambda: True
) -> Outcome:
    """Do what the tasks ask, in any order and as often as they come; one that fails keeps no other from its turn.

    At most `vectors` passages of each vault get their vectors, and none any more once `in_time` says no. A vector that
    cannot be made is no failure of the row: its passage stays in the index as one that waits.
    """
    outcome = Outcome()
    rows: dict[VaultRef, dict[str, None]] = {}
    for task in dict.fromkeys(tasks):
        if task.kind is Kind.INDEX:
            rows.setdefault(task.vault, {})[task.name] = None
        else:
            _attempt(services, task, outcome)
    for vault, ids in rows.items():
        names = list(ids)
        for start in range(0, len(names), CHANGES_AT_ONCE):
            _index(services, vault, names[start : start + CHANGES_AT_ONCE], outcome)
    behind = {task.vault for task in outcome.failed}
    for vault in rows:
        # A store that did not take the words would be waited for once more.
        if vault not in behind:
            _embed(services, vault, vectors, in_time)
    return outcome


def _attempt(services: Services, task: Task, outcome: Outcome) -> None:
    try:
        if task.kind is Kind.SETTLE:
            services.store.heal(task.vault, task.name)
        elif task.kind is Kind.PUBLISH:
            services.store.finish(task.vault, task.name)
        else:
            _purge(services, task.vault)
    except (StaleEpoch, NotFound):
        return
    except Exception as error:
        _blame(error, [task], outcome)


def _purge(services: Services, vault: VaultRef) -> None:
    try:
        services.store.purge(vault.vault_id, vault.epoch)
    except Unavailable as error:
        # A large vault is removed in turns; the store has the stream ask for the next one.
        if not error.extra.get("goes_on"):
            raise
    services.index.purge(vault.vault_id, vault.epoch)


def _index(services: Services, vault: VaultRef, ids: Sequence[str], outcome: Outcome) -> None:
    """Words of these rows. Rows that cannot be indexed together are tried in halves until the bad one is alone."""
    tasks = [Task(Kind.INDEX, vault, memory_id) for memory_id in ids]
    try:
        update_words(services, vault, ids)
        _check_epoch(services, vault)
    except (StaleEpoch, NotFound):
        return
    except Exception as error:
        blamed = set(getattr(error, "memory_ids", ()))
        if blamed:
            # The index took all the others. It may also refuse a neighbour, which nobody asked about.
            named = [task for task in tasks if task.name in blamed]
            outcome.given_up += [DeadLetter(task, _reason(error)) for task in named]
            others = [Task(Kind.INDEX, vault, name) for name in sorted(blamed - set(ids))]
            outcome.given_up += [DeadLetter(task, _reason(error)) for task in others]
        elif _passes(error) or len(ids) == 1:
            _blame(error, tasks, outcome)
        else:
            middle = len(ids) // 2
            _index(services, vault, ids[:middle], outcome)
            _index(services, vault, ids[middle:], outcome)


def _check_epoch(services: Services, vault: VaultRef) -> None:
    """Take back what was indexed of a content that was dropped at the same time: its purge may have come before it."""
    record = services.directory.vault(vault.vault_id)
    if vault.epoch < record.epoch:
        services.index.purge(vault.vault_id, record.epoch)


def _embed(services: Services, vault: VaultRef, vectors: int, in_time: Callable[[], bool]) -> None:
    left = vectors
    try:
        while left > 0 and in_time():
            asked = min(left, VECTORS_AT_ONCE)
            if fill_vectors(services, vault, asked) < asked:
                return
            left -= asked
    except (StaleEpoch, NotFound):
        return
    except Exception as error:
        log.warning("vectors have to wait: %s", _reason(error))


def _passes(error: Exception) -> bool:
    """Whether the same attempt can succeed later."""
    return isinstance(error, Unavailable | RateLimited)


def _blame(error: Exception, tasks: Sequence[Task], outcome: Outcome) -> None:
    if _passes(error):
        outcome.failed += tasks
        log.warning("%d changes wait for another attempt: %s", len(tasks), _reason(error))
    else:
        outcome.given_up += [DeadLetter(task, _reason(error)) for task in tasks]


def _reason(error: Exception) -> str:
    """The kind of error, and for our own its code. A foreign error's text may quote a memory and stays out."""
    code = getattr(error, "code", None)
    return f"{type(error).__name__}: {code}" if isinstance(code, str) else type(error).__name__


def sweep(services: Services, vectors: int, in_time: Callable[[], bool]) -> int:
    """Give waiting passages of all vaults their vectors while there is time; returns how many vaults waited."""
    waiting = services.index.waiting(CHANGES_AT_ONCE)
    for vault in waiting:
        if in_time():
            _embed(services, vault, vectors, in_time)
    return len(waiting)
