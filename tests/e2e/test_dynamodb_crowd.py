"""Many clients at once on one vault: every row is consolidated exactly once, and nobody waits for long."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

from shared.ports.store import MemoryStore
from tests.contract.rows import NOW, Maker, everything
from tests.dynamodb.table import MemoryTable
from tests.e2e.dynamodb_crowd import BATCH_ROWS, Crowd
from tests.e2e.dynamodb_vault import Client, Conflicts, create, opened
from tests.e2e.server import ROOT
from tests.emulator import ministack
from tests.simulation.audit import check_counters
from tests.simulation.world import VAULT

CLIENTS = 200
PROCESSES = 2
LONGEST_SECONDS = 20


def filled(store: MemoryStore, batches: int) -> None:
    maker = Maker()
    for _ in range(batches):
        store.append(VAULT, maker.raws(BATCH_ROWS), None, NOW)


def check(store: MemoryStore, batches: int, told: Counter[str], slowest: float) -> None:
    """Every row became a source once, of a batch of its own size."""
    rows = everything(store, VAULT)
    raws = [row for row in rows if row.tier == 1]
    assert len(raws) == batches * BATCH_ROWS
    sources = Counter(row.consolidated_by for row in raws)
    assert set(sources.values()) == {BATCH_ROWS}
    assert sources.keys() == {row.origin for row in rows if row.tier == 2}
    assert len(rows) - len(raws) == len(sources) == told["commits"] == batches
    check_counters(store, VAULT, rows)
    assert slowest < LONGEST_SECONDS


def note(request: pytest.FixtureRequest, name: str, crowd: dict[str, Any], slowest: float) -> None:
    counts = {"clients": CLIENTS, **dict(sorted(crowd.items())), "slowest answer in ms": round(slowest * 1000)}
    request.node.user_properties.append((name, counts))


def test_a_crowd_of_processes_consolidates_everything_once(request: pytest.FixtureRequest) -> None:
    batches = 25
    with ministack.start() as stack:
        client = stack.client("dynamodb")
        create(client, "crowded")
        store = opened(client, "crowded")
        filled(store, batches)
        each = CLIENTS // PROCESSES
        arguments = [sys.executable, "-m", "tests.e2e.dynamodb_crowd", stack.url, "crowded"]
        processes = [
            subprocess.Popen([*arguments, str(part * each), str(each)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for part in range(PROCESSES)
        ]
        try:
            answers = [json.loads(process.communicate()[0]) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        told = sum((Counter(answer["counts"]) for answer in answers), Counter[str]())
        slowest = max(answer["slowest"] for answer in answers)
        check(store, batches, told, slowest)
    note(request, "crowd on ministack", told, slowest)


class Distant:
    """A table as far away as DynamoDB is, so that requests have time to meet."""

    READ_SECONDS, WRITE_SECONDS = 0.005, 0.012

    def __init__(self, table: MemoryTable) -> None:
        self._table = table

    def __getattr__(self, operation: str) -> Any:
        def send(**request: Any) -> Any:
            away = self.READ_SECONDS if "get" in operation or operation == "query" else self.WRITE_SECONDS
            time.sleep(away / 2)
            answer = getattr(self._table, operation)(**request)
            time.sleep(away / 2)
            return answer

        return send


def test_a_crowd_whose_transactions_conflict_consolidates_everything_once(request: pytest.FixtureRequest) -> None:
    batches = CLIENTS
    table, conflicts, crowd = MemoryTable(), Conflicts(), Crowd()
    create(table, "crowded")
    store = opened(table, "crowded")
    filled(store, batches)
    stores = [opened(Client(Distant(table), crowd.counts, conflicts), "crowded") for _ in range(CLIENTS)]
    crowd.run(stores, 0)
    check(store, batches, crowd.counts, crowd.slowest)
    note(request, "crowd with conflicts", crowd.counts, crowd.slowest)
