"""What happens after the answer: vectors are filled in for every vault and every model, whatever fails beside it."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from functions.indexer.handler import handler as indexer
from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.domain.errors import Unavailable
from shared.settings import Settings
from tests.api.client import Client

STATS = "/v1/memory/stats"


def settings_of(folder: Path) -> Settings:
    return Settings(data=folder, embedder="hashed-64", index_memory_mb=64)


class Late(HashingEmbedder):
    """A model that is not in memory before it is loaded, and fails for as long as it is told to."""

    name = "late-64"

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.loads = 0
        self._loaded = threading.Event()

    def ready(self) -> bool:
        return self._loaded.is_set()

    def load(self) -> None:
        self.loads += 1
        self._loaded.set()

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self.failures:
            self.failures -= 1
            raise Unavailable("The model does not answer.", code="embedding_unavailable", retry_after=1)
        return super().embed_documents(texts)


def until_filled(client: Client, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while client.get(STATS).json["waiting_vectors"]:
        assert time.monotonic() < deadline, client.get(STATS).body
        time.sleep(0.02)


@pytest.fixture
def late() -> Late:
    return Late()


@pytest.fixture
def backend(tmp_path: Path, late: Late) -> Iterator[bootstrap.Embedded]:
    embedders = {"hashed-64": HashingEmbedder(), "late-64": late}
    with bootstrap.Embedded(settings_of(tmp_path / "data"), embedders) as backend:
        bootstrap.activate(backend)
        yield backend
        bootstrap.activate(None)


def test_a_vault_of_another_model_gets_its_vectors_without_being_searched(
    client: Client, worker: Worker, late: Late
) -> None:
    worker.start()
    try:
        body = {"messages": [{"role": "user", "content": "a heron"}], "embeddings": "late-64"}
        assert client.post("/v1/memory/ingest", body).status == 202
        until_filled(client)
        assert late.loads >= 1
    finally:
        worker.stop()


def test_a_model_that_nobody_needs_is_not_loaded(client: Client, worker: Worker, late: Late) -> None:
    worker.start()
    try:
        client.ingest("a heron")
        until_filled(client)
        assert client.post("/v1/memory/search", {"query": "heron"}).status == 200
    finally:
        worker.stop()
    assert late.loads == 0


def test_a_model_that_fails_is_asked_again(
    client: Client, worker: Worker, late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.local.worker.RETRY_S", 0.01)
    late.load()
    late.failures = 4
    worker.start()
    try:
        body = {"messages": [{"role": "user", "content": "a heron"}], "embeddings": "late-64"}
        assert client.post("/v1/memory/ingest", body).status == 202
        until_filled(client)
        assert late.failures == 0
    finally:
        worker.stop()


def test_whoever_waited_for_the_vectors_of_others_makes_none(
    backend: bootstrap.Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many write to one vault at once, nobody waits for much more than 64 embeddings."""
    monkeypatch.setattr("infra.local.worker.fill_vectors", lambda *_: 0)
    allowed: list[int] = []
    first_is_at_work, second_may_come = threading.Event(), threading.Event()

    def watched(event: dict[str, Any], context: object) -> dict[str, Any]:
        allowed.append(event["vectors"])
        if len(allowed) == 1:
            first_is_at_work.set()
            second_may_come.wait(20)
            # Long enough for the others to stand in line.
            time.sleep(0.3)
        return indexer(event, context)

    worker = Worker(backend.services, watched)
    client = Client(Gateway(backend.services, worker), backend.services)
    worker.start()
    threads = [threading.Thread(target=client.ingest, args=(f"from {number}",)) for number in range(4)]
    try:
        threads[0].start()
        assert first_is_at_work.wait(20)
        for thread in threads[1:]:
            thread.start()
        second_may_come.set()
        for thread in threads:
            thread.join()
    finally:
        worker.stop()
    assert allowed[0] == 64
    assert set(allowed[1:]) == {0}
    assert len(client.export()) == 4


def test_a_damaged_vault_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.local.worker.RETRY_S", 30.0)
    settings = settings_of(tmp_path / "damaged")
    with bootstrap.Embedded(settings) as before:
        bootstrap.activate(before)
        Client(Gateway(before.services), before.services, "mk_damaged").ingest("a")
        (vault,) = before.stored()
    file = settings.data / "vaults" / f"{vault.vault_id}.{vault.epoch}.sqlite3"
    file.write_bytes(b"not a database " * 1_000)
    with bootstrap.Embedded(settings) as backend:
        bootstrap.activate(backend)
        worker = Worker(backend.services)
        client = Client(Gateway(backend.services, worker), backend.services)
        worker.start(backend.stored)
        try:
            assert client.using("mk_damaged").get(STATS).status == 503
            client.ingest(*(f"row {number}" for number in range(500)))
            until_filled(client)
        finally:
            worker.stop()
            bootstrap.activate(None)
    assert file.read_bytes() == b"not a database " * 1_000


def test_copies_beside_the_files_harm_nothing(tmp_path: Path) -> None:
    """Somebody's backup in the folder is no vault, and no deletion touches it."""
    settings = settings_of(tmp_path / "copies")
    with bootstrap.Embedded(settings) as before:
        bootstrap.activate(before)
        Client(Gateway(before.services), before.services).ingest("a")
        (vault,) = before.stored()
    folder = settings.data / "vaults"
    file = folder / f"{vault.vault_id}.{vault.epoch}.sqlite3"
    copies = [folder / f"{vault.vault_id}.{vault.epoch}.backup.sqlite3", folder / f"{vault.vault_id}.old.sqlite3"]
    copies.append(folder / "mine.sqlite3")
    for copy in copies:
        shutil.copy(file, copy)
    with bootstrap.Embedded(settings) as backend:
        bootstrap.activate(backend)
        assert backend.stored() == [vault]
        client = Client(Gateway(backend.services), backend.services)
        assert len(client.export()) == 1
        assert client.delete("/v1/memory").json["deleted"] is True
        assert client.export() == []
        assert not file.exists()
    bootstrap.activate(None)
    assert all(copy.exists() for copy in copies)


def test_a_start_that_failed_can_be_tried_again(tmp_path: Path) -> None:
    """The folder is not left locked by the attempt."""
    settings = settings_of(tmp_path / "locked")
    settings.data.mkdir()
    keys = settings.data / "keys.sqlite3"
    keys.write_bytes(b"somebody else's file " * 500)
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"keys\.sqlite3"):
            bootstrap.Embedded(settings)
    keys.unlink()
    bootstrap.Embedded(settings).close()


@pytest.mark.parametrize("kept_bytes", [0, 4_096])
@pytest.mark.parametrize("which", ["vault", "keys"])
def test_a_file_that_lost_its_content_is_no_new_file(which: str, kept_bytes: int, tmp_path: Path) -> None:
    """Cut to nothing, or to the first page that SQLite writes: begun anew, it would hide what was lost."""
    empty = tmp_path / "empty.sqlite3"
    connection = sqlite3.connect(empty)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    remains = empty.read_bytes()[:kept_bytes]
    assert len(remains) == kept_bytes
    settings = settings_of(tmp_path / "data")
    with bootstrap.Embedded(settings) as before:
        bootstrap.activate(before)
        Client(Gateway(before.services), before.services).ingest("a")
        (vault,) = before.stored()
    name = "keys.sqlite3" if which == "keys" else f"vaults/{vault.vault_id}.{vault.epoch}.sqlite3"
    (settings.data / name).write_bytes(remains)
    if which == "keys":
        with pytest.raises(Unavailable, match="it is empty"):
            bootstrap.Embedded(settings)
        return
    with bootstrap.Embedded(settings) as after:
        bootstrap.activate(after)
        client = Client(Gateway(after.services), after.services)
        for answer in (client.get(STATS), client.post("/v1/memory/search", {"query": "a"})):
            assert (answer.status, answer.code) == (503, "storage_unavailable")
            assert Path(name).name in answer.json["error"]
        assert client.using("mk_other").ingest("works")
        # The way out, when there is no backup.
        assert client.delete("/v1/memory").status == 200
        assert client.ingest("anew")
    bootstrap.activate(None)
