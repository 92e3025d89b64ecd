"""Client processes on one vault are killed again and again; then what they were told is held against the table."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.dynamodb.stream import StreamFeed
from shared.domain.batch import Created
from shared.domain.memory import Memory
from tests.e2e.dynamodb_contender import text_of
from tests.e2e.dynamodb_vault import create, healed, opened
from tests.e2e.server import ROOT
from tests.emulator import ministack
from tests.emulator.ministack import Ministack
from tests.simulation.audit import audit
from tests.simulation.mixes import Log, check_acknowledged
from tests.simulation.world import VAULT

CLIENTS = 4
KILLS = 14
ALIVE_SECONDS = (0.2, 0.7)
COMMITS = 130
MOST_SECONDS = 150
LOST = ("lease_expired", "batch_released", "sources_deleted")


class Contenders:
    """Processes that fight over the vault, one per client, each in one of its lives."""

    def __init__(self, launcher: subprocess.Popen[str]) -> None:
        self._launcher = launcher
        self._lives: Counter[int] = Counter()
        self._pids: dict[int, int] = {}

    def begin(self, client: int) -> None:
        assert self._launcher.stdin is not None
        assert self._launcher.stdout is not None
        self._launcher.stdin.write(f"{client} {self._lives[client]}\n")
        self._launcher.stdin.flush()
        self._lives[client] += 1
        self._pids[client] = int(self._launcher.stdout.readline())

    def kill(self, client: int) -> None:
        os.kill(self._pids[client], signal.SIGKILL)


@contextmanager
def contenders(stack: Ministack, table: str, folder: Path, seed: int) -> Iterator[Contenders]:
    arguments = [sys.executable, "-m", "tests.e2e.dynamodb_contender", stack.url, table, str(folder), str(seed)]
    launcher = subprocess.Popen(
        arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        with launcher:
            try:
                yield Contenders(launcher)
            finally:
                os.killpg(launcher.pid, signal.SIGKILL)
    finally:
        launcher.wait()


def lives(folder: Path) -> list[list[dict[str, Any]]]:
    """The entries of each life. A line that its writer did not end was never acknowledged to anybody."""
    return [
        [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        for path in sorted(folder.glob("log-*.jsonl"))
    ]


def wait_for(folder: Path, what: str, number: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while sum(entry["what"] == what for life in lives(folder) for entry in life) < number:
        assert time.monotonic() < deadline, f"fewer than {number} times {what} in {seconds} s"
        time.sleep(0.2)


def told(entries: list[dict[str, Any]]) -> Log:
    """What was tried and answered, as the simulation keeps it."""
    log = Log()
    for entry in entries:
        what, ids, name = entry["what"], entry.get("ids", []), entry.get("batch", "")
        if what == "append-tried":
            log.tried.update((each, Memory(each, 1, text_of(each), "user", 0, 0, 0)) for each in ids)
        elif what == "append":
            first = log.appended.setdefault(entry["key"], tuple(ids))
            assert first == tuple(ids), "one request, two answers"
        elif what == "checkout-tried":
            log.batch_ids.append(name)
        elif what == "checkout":
            log.leases[name] = tuple(ids)
        elif what == "commit":
            created = tuple(Created(each, importance) for each, importance in entry["created"])
            log.commits.setdefault(name, []).append((created, entry["sources"], entry["replay"]))
        elif what == "commit-refused" and entry["code"] in LOST:
            log.lost.add(name)
        elif what == "delete-tried":
            log.delete_tried.update(ids)
        elif what == "delete":
            log.deleted += ids
        elif what == "reopen-tried":
            log.reopened.add(name)
    return log


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_or_done_twice_when_clients_are_killed(
    seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    draw = random.Random(seed)
    with ministack.start() as stack, contenders(stack, "raced", tmp_path, seed) as clients:
        create(stack.client("dynamodb"), "raced")
        for client in range(CLIENTS):
            clients.begin(client)
        for _ in range(KILLS):
            time.sleep(draw.uniform(*ALIVE_SECONDS))
            client = draw.randrange(CLIENTS)
            clients.kill(client)
            clients.begin(client)
        wait_for(tmp_path, "commit", COMMITS, MOST_SECONDS)
        (tmp_path / "stop").touch()
        wait_for(tmp_path, "rest", CLIENTS, MOST_SECONDS)
        parts = lives(tmp_path)
        entries = [entry for life in parts for entry in life]
        surprises = [entry["trace"] for entry in entries if entry["what"] == "surprise"]
        assert not surprises, surprises[0]
        assert all(entry["seconds"] for entry in entries if entry["what"] == "later"), "when to come back was not said"
        log = told(entries)
        store = opened(stack.client("dynamodb"), "raced")
        healed(store, VAULT, log.batch_ids)
        check_acknowledged(store, log)
        audit(store, StreamFeed(stack.client("dynamodbstreams"), "raced"), VAULT, log.batch_ids)
    kinds = Counter(entry["what"] for entry in entries)
    counts = {
        "kills": KILLS,
        "inside a verb": sum(bool(life) and life[-1]["what"].endswith("-tried") for life in parts),
        "rows": len(log.tried),
        "batches": len(log.leases),
        "commits": sum(not replay for answers in log.commits.values() for _, _, replay in answers),
        "replays": sum(replay for answers in log.commits.values() for _, _, replay in answers),
        "reopened": kinds["reopen"],
        "deleted": len(log.deleted),
        "busy": kinds["later"],
        "violations": 0,
    }
    assert counts["inside a verb"] > KILLS // 2
    request.node.user_properties.append(("clients killed on DynamoDB", counts))
