"""Large mixes: workers with clocks of their own that do anything to one vault, drawn by seed.

No order of calls is looked for here; what was acknowledged is compared with what is stored in the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from shared.domain.batch import Created, Entry, State
from shared.domain.errors import Conflict, NotFound, RateLimited, StrataError
from shared.domain.memory import Memory
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Idempotency, Lease, MemoryStore
from tests.contract.rows import NOW, everything, uuid7
from tests.simulation.audit import COMMITTED, audit, every_source
from tests.simulation.scheduler import Scheduler, SeededOrder
from tests.simulation.world import VAULT, Counts, Stage

LEASE = 50
TEXTS = ("a", "bcdefg", "hi j" * 9)


@dataclass
class Log:
    """What workers tried and what they were told. `appended` holds acknowledged rows only."""

    tried: dict[str, Memory] = field(default_factory=dict)
    appended: dict[str, tuple[str, ...]] = field(default_factory=dict)
    delete_tried: set[str] = field(default_factory=set)
    deleted: list[str] = field(default_factory=list)
    leases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    batch_ids: list[str] = field(default_factory=list)
    commits: dict[str, list[tuple[tuple[Created, ...], int, bool]]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    reopened: set[str] = field(default_factory=set)
    written: list[str] = field(default_factory=list)


class Mix:
    """One seed's workers over one store."""

    def __init__(self, seed: int, store: MemoryStore, log: Log, calls: int) -> None:
        self._seed, self._store, self._log, self._calls = seed, store, log, calls
        self._numbers = count(1000)

    def body(self, worker: int) -> Callable[[], None]:
        def run() -> None:
            draw = random.Random(f"{self._seed}/{worker}")
            clock = NOW + draw.randint(-LEASE, LEASE)
            verbs = [
                self.append,
                self.checkout,
                self.commit,
                self.delete,
                self.renew_or_release,
                self.reopen,
                self.read,
            ]
            for _ in range(self._calls):
                clock += draw.choice((0, 1, 1, 10, LEASE // 2))
                verb = draw.choices(verbs, (3, 4, 6, 2, 2, 1, 1))[0]
                with suppress(Conflict, NotFound, RateLimited):
                    verb(draw, clock)

        return run

    def append(self, draw: random.Random, clock: int) -> None:
        rows = []
        for _ in range(draw.randint(1, 3)):
            number, text = next(self._numbers), draw.choice(TEXTS)
            rows.append(Memory(uuid7(number), 1, text, "user", NOW + draw.randint(-5, 5), len(text), clock))
        key = draw.choice(("", f"{self._seed}/{draw.randint(1, 4)}"))
        once = Idempotency(key, "same", NOW * 2) if key else None
        self._log.tried.update((row.id, row) for row in rows)
        ids = self._store.append(VAULT, rows, once, clock).ids
        name = key or ids[0]
        assert self._log.appended.setdefault(name, ids) == ids, "one request, two answers"

    def checkout(self, draw: random.Random, clock: int) -> None:
        name = f"cb_{next(self._numbers):032x}"
        self._log.batch_ids.append(name)
        budget = Budget(max_rows=draw.randint(1, 5))
        found = self._store.checkout(VAULT, draw.choice((1, 1, 2)), budget, Lease(name, clock, LEASE))
        if isinstance(found, CheckedOut):
            self._log.leases[name] = tuple(row.id for row in found.memories)

    def _any_batch(self, draw: random.Random) -> str:
        return draw.choice(self._log.batch_ids[-6:] or ["cb_none"])

    def commit(self, draw: random.Random, clock: int) -> None:
        name = self._any_batch(draw)
        entries = [
            Entry(uuid7(next(self._numbers)), "insight", draw.randint(1, 10), 2) for _ in range(draw.randint(1, 2))
        ]
        self._log.written.extend(entry.id for entry in entries)
        try:
            answer = self._store.commit(VAULT, name, entries, clock)
        except StrataError as error:
            if error.code in ("lease_expired", "batch_released", "sources_deleted"):
                self._log.lost.add(name)
            raise
        told = (answer.created, answer.sources_consolidated, answer.already_committed)
        self._log.commits.setdefault(name, []).append(told)

    def delete(self, draw: random.Random, clock: int) -> None:
        ids = draw.sample(sorted({*self._log.tried, *self._log.written}), min(3, len(self._log.tried)))
        self._log.delete_tried.update(ids)
        self._log.deleted.extend(memory_id for memory_id, _ in self._store.delete(VAULT, ids, clock).rows)

    def renew_or_release(self, draw: random.Random, clock: int) -> None:
        draw.choice((self._store.renew, self._store.release))(VAULT, self._any_batch(draw), clock)

    def reopen(self, draw: random.Random, clock: int) -> None:
        name = self._any_batch(draw)
        self._log.reopened.add(name)
        self._store.reopen(VAULT, name, clock)

    def read(self, draw: random.Random, clock: int) -> None:
        totals = self._store.totals(VAULT)
        assert totals.debt.raw_units <= totals.memories[1]
        assert totals.debt.tier2_count <= totals.memories[2]
        for name in list(self._log.commits):
            batch = self._store.batches(VAULT, [name])[name]
            if batch.state in COMMITTED:
                assert batch.created == self._log.commits[name][0][0]


def check_acknowledged(store: MemoryStore, log: Log) -> None:
    """Nothing that was answered is lost, and nothing was answered twice."""
    rows = {row.id: row for row in everything(store, VAULT)}
    for ids in log.appended.values():
        for memory_id in ids:
            assert memory_id in rows or memory_id in log.delete_tried, "an acknowledged row is lost"
    for row in rows.values():
        assert row.tier > 1 or row.text == log.tried[row.id].text
    assert len(set(log.deleted)) == len(log.deleted), "one row was deleted twice"
    assert not set(log.deleted) & rows.keys(), "a deleted row is back"
    batches = store.batches(VAULT, log.batch_ids)
    for name, answers in log.commits.items():
        assert len({(created, number) for created, number, _ in answers}) == 1, "two commits, two answers"
        assert sum(not replay for _, _, replay in answers) <= 1, "two commits won"
        state = batches[name].state
        assert state in COMMITTED or (state is State.REOPENED and name in log.reopened), (
            "an acknowledged commit is lost"
        )
        if state in COMMITTED:
            kept = {created.id for created in answers[0][0]} - log.delete_tried
            assert kept <= rows.keys(), "a committed reflection is lost"
    for name in log.lost:
        assert batches[name].state not in COMMITTED, "a batch committed after it was refused"
    for name, leased in log.leases.items():
        sources = [row.id for row in every_source(store, VAULT, name)]
        if batches[name].state in COMMITTED:
            assert sources == [memory_id for memory_id in leased if memory_id in rows], "sources are not those leased"


def run_mix(seed: int, stage: Stage, workers: int, calls: int, crashes: int) -> Counts:
    """One seed on a stage that was prepared, judged. Raises `AssertionError`."""
    scheduler, log = Scheduler(crashes), Log()
    site = stage.begin(scheduler, drops=False)
    mix = Mix(seed, site.store, log, calls)
    for worker in range(workers):
        scheduler.add(mix.body(worker))
    try:
        scheduler.run(SeededOrder(seed, 0.004 if crashes else 0.0))
    finally:
        site.close()
    rested = stage.rest(log.batch_ids)
    try:
        check_acknowledged(rested.store, log)
        audit(rested.store, rested.feed, VAULT, log.batch_ids)
    finally:
        rested.close()
    first: Sequence[bool] = [not replay for answers in log.commits.values() for _, _, replay in answers]
    return Counts(configurations=1, interleavings=1, crashes=scheduler.crashed, commits=sum(first))
