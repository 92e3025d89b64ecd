"""A folder of many vaults: a start that opens none, work that goes on behind requests, a crowd in all of them."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.sqlite.database import MAX_IDLE
from shared.adapters.sqlite.files import MAX_OPEN
from shared.settings import Settings
from tests.api.client import Client

INGEST, SEARCH, STATS = "/v1/memory/ingest", "/v1/memory/search", "/v1/memory/stats"


def settings_of(folder: Path) -> Settings:
    return Settings(data=folder, embedder="hashed-64", index_memory_mb=16)


def client_of(backend: bootstrap.Embedded, worker: Worker | None = None) -> Client:
    bootstrap.activate(backend)
    return Client(Gateway(backend.services, worker), backend.services)


def until_filled(client: Client, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while client.get(STATS).json["waiting_vectors"]:
        assert time.monotonic() < deadline, client.get(STATS).body
        time.sleep(0.02)


class Opened:
    """Counts the connections to vaults' files: how many were made, how many are open, how many were at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lock = threading.Lock()
        self.made = self.open = self.most = 0
        outer, real = self, sqlite3.connect

        class Counting(sqlite3.Connection):
            def close(self) -> None:
                super().close()
                outer.add(-1)

        def connect(name: str, *more: Any, **options: Any) -> sqlite3.Connection:
            if "/vaults/" not in name:
                plain: sqlite3.Connection = real(name, *more, **options)
                return plain
            outer.add(1)
            return real(name, *more, factory=Counting, **options)

        monkeypatch.setattr(sqlite3, "connect", connect)

    def add(self, number: int) -> None:
        with self.lock:
            self.made += max(number, 0)
            self.open += number
            self.most = max(self.most, self.open)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)


@pytest.fixture(autouse=True)
def nothing_served() -> Iterator[None]:
    yield
    bootstrap.activate(None)


@pytest.mark.parametrize("vaults", [1, 40])
def test_a_start_opens_no_vault_and_finishes_what_waited(vaults: int, tmp_path: Path, opened: Opened) -> None:
    settings = settings_of(tmp_path / "data")
    keys = [f"mk_vault-{number}" for number in range(vaults)]
    with bootstrap.Embedded(settings) as before:
        for key in keys:
            client_of(before).using(key).ingest("a heron")
        # One of them has more than what an answer waits for.
        client_of(before).using(keys[0]).ingest(*(f"row {number}" for number in range(100)))
    opened.made = 0
    with bootstrap.Embedded(settings) as backend:
        worker = Worker(backend.services, upkeep=backend.upkeep.step)
        assert opened.made == 0
        unfinished = backend.unfinished()
        assert opened.made == 0
        assert len(unfinished) == vaults
        worker.start(backend.unfinished)
        try:
            until_filled(client_of(backend, worker).using(keys[0]))
        finally:
            worker.stop()


def test_a_start_after_a_quiet_end_has_nothing_to_look_at(tmp_path: Path, opened: Opened) -> None:
    settings = settings_of(tmp_path / "data")
    with bootstrap.Embedded(settings) as before:
        before.upkeep._quiet_s = 0.0
        for number in range(20):
            client_of(before).using(f"mk_vault-{number}").ingest("a heron")
        while before.unfinished():
            before.upkeep.step()
    opened.made = 0
    with bootstrap.Embedded(settings) as backend:
        worker = Worker(backend.services, upkeep=backend.upkeep.step)
        worker.start(backend.unfinished)
        try:
            client = client_of(backend, worker).using("mk_vault-7")
            assert client.post(SEARCH, {"query": "heron"}).json["memories"][0]["content"] == "a heron"
        finally:
            worker.stop()
        assert len(backend._files._open) == 1


def test_a_search_is_enough_for_a_vault_whose_mark_is_missing(tmp_path: Path) -> None:
    """As after its file was put back from a copy: nothing but its opening tells that passages wait."""
    settings = settings_of(tmp_path / "data")
    with bootstrap.Embedded(settings) as before:
        client_of(before).ingest(*(f"row {number}" for number in range(100)))
    for mark in (tmp_path / "data" / "dirty").iterdir():
        mark.unlink()
    with bootstrap.Embedded(settings) as backend:
        assert backend.unfinished() == []
        backend.upkeep._quiet_s = 0.0
        worker = Worker(backend.services, upkeep=backend.upkeep.step)
        client = client_of(backend, worker)
        worker.start(backend.unfinished)
        try:
            assert len(client.post(SEARCH, {"query": "row"}).json["memories"]) > 0
            until_filled(client)
        finally:
            worker.stop()
        assert client.get(STATS).json["totalVectors"] == 100


class Slow(HashingEmbedder):
    """In the background it begins when it is asked and goes on when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.at_work, self.go_on = threading.Event(), threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if threading.current_thread().name == "strata-worker":
            self.at_work.set()
            assert self.go_on.wait(60)
        return super().embed_documents(texts)


@pytest.mark.parametrize("key", ["mk_large", "mk_other"])
def test_requests_do_not_wait_for_the_background(key: str, tmp_path: Path) -> None:
    """Neither in the vault whose passages are being embedded nor in another one."""
    slow = Slow()
    with bootstrap.Embedded(settings_of(tmp_path / "data"), {"hashed-64": slow}) as backend:
        worker = Worker(backend.services, upkeep=backend.upkeep.step)
        large = client_of(backend, worker).using("mk_large")
        client = client_of(backend, worker).using(key)
        worker.start(backend.unfinished)
        try:
            large.ingest(*(f"row {number}" for number in range(100)))
            assert slow.at_work.wait(60)
            (memory_id,) = client.ingest("a heron on the weir")
            found = client.post(SEARCH, {"query": "heron"}).json["memories"]
            assert found[0]["id"] == memory_id
            assert client.post("/v1/memory/date-search", {"from": "2020-01-01"}).status == 200
            assert client.post("/v1/memory/prepare", {"messages": [{"role": "user", "content": "heron"}]}).status == 200
            assert client.post("/v1/memory/delete-ids", {"ids": [memory_id]}).json["deleted"] == 1
            assert client.get(STATS).status == 200
            assert large.get(STATS).json["waiting_vectors"] >= 36
            assert not slow.go_on.is_set()
        finally:
            slow.go_on.set()
            until_filled(large)
            worker.stop()
        assert large.get(STATS).json["totalVectors"] == 100


@pytest.mark.slow
def test_three_hundred_vaults_in_a_crowd(tmp_path: Path, opened: Opened) -> None:
    """Each is asked while others push it out, and while the background looks after all of them."""
    with bootstrap.Embedded(settings_of(tmp_path / "data")) as backend:
        backend.upkeep._quiet_s = 0.0
        worker = Worker(backend.services, upkeep=backend.upkeep.step)
        client = client_of(backend, worker)
        worker.start(backend.unfinished)
        wrong: list[object] = []
        statuses: Counter[int] = Counter()
        most_bytes = 0

        def live(number: int) -> None:
            nonlocal most_bytes
            drawn = random.Random(number)
            told: Counter[int] = Counter()
            for _ in range(80):
                # Each thread has vaults of its own, so that it knows what is in them.
                vault = number + 6 * drawn.randrange(50)
                mine = client.using(f"mk_vault-{vault}")
                if drawn.random() < 0.5 or not told[vault]:
                    messages = [{"role": "user", "content": f"heron{vault} number{told[vault]}"}]
                    statuses[mine.post(INGEST, {"messages": messages}).status] += 1
                    told[vault] += 1
                answer = mine.post(SEARCH, {"query": f"heron{vault} number{told[vault] - 1}", "limit": 500})
                statuses[answer.status] += 1
                texts = [row["content"] for row in answer.json["memories"]]
                expected = {f"heron{vault} number{place}" for place in range(told[vault])}
                if texts[0] != f"heron{vault} number{told[vault] - 1}" or set(texts) != expected:
                    wrong.append((vault, texts, told[vault]))
                most_bytes = max(most_bytes, backend.index.bytes_used)

        threads = [threading.Thread(target=live, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        worker.stop()
        assert wrong == []
        assert set(statuses) == {200, 202}
        # Those that are kept, and one for each thread and the worker.
        assert opened.most <= MAX_OPEN * MAX_IDLE + 7
        assert len(backend._files._open) <= MAX_OPEN
        assert most_bytes <= 16 << 20
