"""Clients that check out and commit until nothing is left, all at once on one vault.

``python -m tests.e2e.dynamodb_crowd URL TABLE FIRST CLIENTS`` runs a part of the crowd and prints what it met as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from shared.adapters.dynamodb.store import DynamoStore
from shared.domain.batch import Entry
from shared.domain.errors import Unavailable
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Lease
from tests.contract.rows import uuid7
from tests.e2e.dynamodb_vault import Client, opened
from tests.emulator.ministack import Ministack
from tests.simulation.world import VAULT

BATCH_ROWS = 2
LEASE_MS = 600_000
LOOK_AGAIN_SECONDS = (0.5, 3.0)


class Crowd:
    """`counts` sums up what was met; `slowest` is the longest time that an answer took, in seconds."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.slowest = 0.0
        self.failures: list[BaseException] = []

    def run(self, stores: list[DynamoStore], first: int) -> None:
        """One thread for each store. `first` keeps the names of two crowds apart."""
        threads = [
            threading.Thread(target=self._client, args=(store, first + number)) for number, store in enumerate(stores)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _client(self, store: DynamoStore, number: int) -> None:
        draw, numbers = random.Random(number), count(number + 1 << 24)
        try:
            while self._consolidate(store, draw, numbers):
                pass
        except BaseException as failure:
            self.failures.append(failure)

    def _consolidate(self, store: DynamoStore, draw: random.Random, numbers: count[int]) -> bool:
        """One batch; False when nothing is left."""
        lease = Lease(f"cb_{next(numbers):032x}", time.time_ns() // 1_000_000, LEASE_MS)
        found = self._answer("checkouts", lambda: store.checkout(VAULT, 1, Budget(max_rows=BATCH_ROWS), lease))
        if isinstance(found, CheckedOut):
            name = found.batch.id
            entries = [Entry(uuid7(next(numbers)), "insight", 3, 2)]
            while not self._answer("commits", lambda: store.commit(VAULT, name, entries, time.time_ns() // 1_000_000)):
                pass
        elif found is not None:
            time.sleep(draw.uniform(*LOOK_AGAIN_SECONDS))
            return bool(found.leased)
        return True

    def _answer(self, what: str, call: Callable[[], Any]) -> Any:
        """The answer, or None after the wait that was asked for."""
        began = time.monotonic()
        try:
            answer, wait = call(), 0
            self.counts[what] += 1
        except Unavailable as error:
            answer, wait = None, error.retry_after or 0
            assert wait, "when to come back was not said"
            self.counts["busy"] += 1
        self.slowest = max(self.slowest, time.monotonic() - began)
        time.sleep(wait)
        return answer


def main(url: str, table: str, first: int, clients: int) -> None:
    client = Ministack(url, 0, Path()).client("dynamodb", connections=clients)
    crowd = Crowd()
    crowd.run([opened(Client(client, crowd.counts), table) for _ in range(clients)], first)
    print(json.dumps({"counts": crowd.counts, "slowest": crowd.slowest}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
