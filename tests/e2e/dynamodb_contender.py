"""Clients of one vault on DynamoDB that are killed at any moment. What they try and what they are told goes to files.

``python -m tests.e2e.dynamodb_contender URL TABLE FOLDER SEED`` reads lines ``<client> <life>`` and forks a process for
each, whose pid it prints. A life ends when FOLDER holds a file named ``stop``. All that a client knows of the others,
and of its own earlier lives, it reads from their files.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from shared.adapters.dynamodb.store import DynamoStore
from shared.domain.batch import Entry
from shared.domain.errors import Conflict, NotFound, RateLimited, StrataError, Unavailable
from shared.domain.memory import Memory
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Idempotency, Lease
from tests.contract.rows import uuid7
from tests.e2e.dynamodb_vault import opened
from tests.emulator.ministack import Ministack
from tests.simulation.world import VAULT

LEASE_MS = 1000
SKEW_MS = 300
LARGE = (101, 120)
MOST_ROWS = 900
RARE = 0.02
UNANSWERED = 0.1
"""How often a checkout is tried to be committed of which nobody knows whether it found anything."""
DAY_MS = 86_400_000


def text_of(memory_id: str) -> str:
    return f"what was said under {memory_id}"


class Journal:
    """The files of all lives of all clients; this life writes to its own."""

    def __init__(self, folder: Path, client: int, life: int) -> None:
        self._folder = folder
        self._own = os.open(folder / f"log-{client}-{life}.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._read: dict[Path, int] = {}

    def note(self, what: str, **fields: object) -> None:
        os.write(self._own, (json.dumps({"what": what, **fields}) + "\n").encode())

    def news(self) -> Iterator[dict[str, Any]]:
        """Entries of all files that were not read before."""
        for path in sorted(self._folder.glob("log-*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            yield from map(json.loads, whole.splitlines())


class Contender:
    def __init__(self, store: DynamoStore, journal: Journal, client: int, life: int, seed: int) -> None:
        self._store, self._journal = store, journal
        self._draw = random.Random(f"{seed}/{client}/{life}")
        self._skew = self._draw.randint(-SKEW_MS, SKEW_MS)
        self._numbers = count((client + 1 << 40) + (life << 24))
        self._keys: dict[str, bool] = {}
        self._rows: list[str] = []
        self._appended = 0
        self._batches: list[str] = []

    def run(self, over: Callable[[], bool]) -> None:
        verbs = [self.append, self.consolidate, self.commit, self.delete, self.release, self.renew, self.reopen]
        while not over():
            for entry in self._journal.news():
                self._learn(entry)
            try:
                self._draw.choices(verbs, (8, 10, 2, 1, 0.7, 0.7, 0.4))[0]()
            except (Conflict, NotFound):
                pass
            except (RateLimited, Unavailable) as error:
                self._journal.note("later", code=error.code, seconds=error.retry_after)

    def _learn(self, entry: dict[str, Any]) -> None:
        if entry["what"] == "append-tried":
            self._rows += entry["ids"]
            self._appended += len(entry["ids"])
            if entry["key"]:
                self._keys.setdefault(entry["key"], False)
        elif entry["what"] == "commit-tried":
            self._rows += entry["ids"]
        elif entry["what"] == "checkout" or (entry["what"] == "checkout-tried" and self._draw.random() < UNANSWERED):
            self._batches.append(entry["batch"])

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 + self._skew

    def _id(self) -> str:
        return uuid7(next(self._numbers))

    def append(self) -> None:
        if self._appended > MOST_ROWS:
            return
        number = self._draw.randint(*LARGE) if self._draw.random() < RARE else self._draw.randint(1, 5)
        key = ""
        if self._draw.random() < 0.5:
            # Half of the named requests are repetitions, some of requests whose sender died before the answer.
            again = self._keys and self._draw.random() < 0.5
            key = self._draw.choice(sorted(self._keys)[-8:]) if again else self._id()
        ids = [self._id() for _ in range(number)]
        now = self._now()
        rows = [Memory(name, 1, text_of(name), "user", now, -(-len(text_of(name)) // 4), now) for name in ids]
        self._journal.note("append-tried", key=key, ids=ids)
        answer = self._store.append(VAULT, rows, Idempotency(key, "same", now + DAY_MS) if key else None, now)
        self._journal.note("append", key=key or ids[0], ids=answer.ids)

    def consolidate(self) -> None:
        name = f"cb_{next(self._numbers):032x}"
        self._journal.note("checkout-tried", batch=name)
        rows = LARGE[1] if self._draw.random() < RARE else self._draw.randint(1, 4)
        tier = self._draw.choice((1, 1, 1, 2))
        found = self._store.checkout(VAULT, tier, Budget(max_rows=rows), Lease(name, self._now(), LEASE_MS))
        if not isinstance(found, CheckedOut):
            return
        self._journal.note("checkout", batch=name, ids=[row.id for row in found.memories])
        if self._draw.random() < 0.8:
            if self._draw.random() < 0.1:
                time.sleep(LEASE_MS / 1000)
            self._commit(name)

    def commit(self) -> None:
        self._commit(self._any_batch())

    def _any_batch(self) -> str:
        if not self._batches:
            raise NotFound("there was none yet")
        return self._draw.choice(self._batches[-10:])

    def _commit(self, name: str) -> None:
        entries = [Entry(self._id(), "insight", self._draw.randint(1, 10), 2) for _ in range(self._draw.randint(1, 3))]
        self._journal.note("commit-tried", batch=name, ids=[entry.id for entry in entries])
        try:
            answer = self._store.commit(VAULT, name, entries, self._now())
        except StrataError as error:
            self._journal.note("commit-refused", batch=name, code=error.code)
            raise
        created = [[each.id, each.importance] for each in answer.created]
        self._journal.note(
            "commit", batch=name, created=created, sources=answer.sources_consolidated, replay=answer.already_committed
        )

    def delete(self) -> None:
        if not self._rows:
            return
        ids = self._draw.sample(self._rows, min(3, len(self._rows)))
        self._journal.note("delete-tried", ids=ids)
        answer = self._store.delete(VAULT, ids, self._now())
        self._journal.note("delete", ids=[name for name, _ in answer.rows])

    def release(self) -> None:
        self._store.release(VAULT, self._any_batch(), self._now())

    def renew(self) -> None:
        self._store.renew(VAULT, self._any_batch(), self._now())

    def reopen(self) -> None:
        name = self._any_batch()
        self._journal.note("reopen-tried", batch=name)
        self._store.reopen(VAULT, name, self._now())
        self._journal.note("reopen", batch=name)


def live(client: Any, table: str, folder: Path, number: int, life: int, seed: int) -> None:
    """One life, in a process of its own."""
    journal = Journal(folder, number, life)
    try:
        stop = folder / "stop"
        Contender(opened(client, table), journal, number, life, seed).run(stop.exists)
        journal.note("rest")
    except BaseException:
        journal.note("surprise", trace=traceback.format_exc())
    finally:
        os._exit(0)


def main(url: str, table: str, folder: Path, seed: int) -> None:
    """Forks one life for each line; ends with all of them when there are no more lines."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    client = Ministack(url, 0, folder).client("dynamodb")
    for line in sys.stdin:
        number, life = map(int, line.split())
        pid = os.fork()
        if not pid:
            live(client, table, folder, number, life, seed)
        print(pid, flush=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
