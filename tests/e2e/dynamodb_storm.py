"""Threads that fight over one vault in memory, meet each other on its items as on DynamoDB, and die at any request."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count

from shared.adapters.dynamodb.store import DynamoStore
from shared.adapters.dynamodb.stream import StreamFeed
from shared.adapters.dynamodb.table import Patience
from shared.domain.errors import Conflict, NotFound, RateLimited, Unavailable
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Lease
from tests.contract.rows import NOW
from tests.dynamodb.table import MemoryTable
from tests.e2e.dynamodb_vault import Client, Conflicts, create, healed, opened
from tests.simulation.audit import audit
from tests.simulation.mixes import LEASE, Log, Mix, check_acknowledged
from tests.simulation.world import VAULT

NAME = "storm"
WORKERS = 6
HELD_SECONDS = 0.0002
FASTER = 100
"""Pauses are shortened by this, as a transaction in memory is shorter than one over a network."""
VERB_SECONDS, REQUEST_SECONDS = 100, 50
DEATHS = 0.004


class Died(BaseException):
    """The worker is gone, at one of its requests."""


def quick(seconds: float) -> Patience:
    return Patience(seconds, lambda: time.monotonic() * FASTER, lambda pause: time.sleep(pause / FASTER))


class Storm(Mix):
    """One worker of a mix in which most calls consolidate."""

    def __init__(self, seed: int, store: DynamoStore, log: Log, numbers: count[int]) -> None:
        super().__init__(seed, store, log, 0)
        self._numbers = numbers
        self._own = ""

    def call(self, draw: random.Random, clock: int) -> None:
        verbs = [self.append, self.consolidate, self.commit, self.delete, self.renew_or_release, self.reopen]
        with suppress(Conflict, NotFound, RateLimited):
            draw.choices(verbs, (7, 10, 1.5, 0.7, 0.7, 0.3))[0](draw, clock)

    def consolidate(self, draw: random.Random, clock: int) -> None:
        """Check out, and commit that."""
        name = f"cb_{next(self._numbers):032x}"
        self._log.batch_ids.append(name)
        budget = Budget(max_rows=draw.randint(1, 3))
        found = self._store.checkout(VAULT, draw.choice((1, 1, 1, 2)), budget, Lease(name, clock, LEASE))
        if isinstance(found, CheckedOut):
            self._log.leases[name] = tuple(row.id for row in found.memories)
            self._own = name
            try:
                self.commit(draw, clock)
            finally:
                self._own = ""

    def _any_batch(self, draw: random.Random) -> str:
        return self._own or super()._any_batch(draw)


class Round:
    """One seed: threads that make `calls` calls each, and the judgement about what came of it."""

    def __init__(self, seed: int, calls: int) -> None:
        self._seed, self._calls = seed, calls
        self._table, self._log, self._numbers = MemoryTable(), Log(), count(1000)
        self._conflicts = Conflicts(lambda: time.sleep(HELD_SECONDS))
        self._failures: list[BaseException] = []
        self._sums: list[Counter[str]] = []

    def play(self) -> Counter[str]:
        """Raises `AssertionError`, or what a worker failed with."""
        create(self._table, NAME)
        threads = [threading.Thread(target=self._worker, args=(number,)) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        store, log = opened(self._table, NAME), self._log
        healed(store, VAULT, log.batch_ids)
        check_acknowledged(store, log)
        audit(store, StreamFeed(self._table.streams(), NAME), VAULT, log.batch_ids)
        answers = [replay for told in log.commits.values() for _, _, replay in told]
        sums = sum(self._sums, Counter[str]()) + self._conflicts.counts
        sums.update({"commits": answers.count(False), "replays": answers.count(True)})
        return sums

    def _worker(self, number: int) -> None:
        draw, counts = random.Random(f"{self._seed}/{number}"), Counter[str]()
        self._sums.append(counts)

        def dying() -> None:
            if draw.random() < DEATHS:
                raise Died

        client = Client(self._table, counts, self._conflicts, dying)
        store = opened(client, NAME, quick(REQUEST_SECONDS), quick(VERB_SECONDS))
        storm, clock = Storm(self._seed, store, self._log, self._numbers), NOW + draw.randint(-LEASE, LEASE)
        try:
            for _ in range(self._calls):
                clock += draw.choice((0, 1, 1, 10, LEASE // 2))
                try:
                    storm.call(draw, clock)
                except Unavailable as error:
                    counts[f"{error.code}, come back in {error.retry_after} s"] += 1
                except Died:
                    counts["kills"] += 1
        except BaseException as failure:
            self._failures.append(failure)
