"""A disk that fails: a clear 503, nothing overwritten, other vaults unharmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.local.gateway import Gateway
from shared import bootstrap
from shared.domain.errors import Unavailable
from shared.settings import Settings
from tests.api.backends import EMBEDDED_ONLY
from tests.api.client import Client

CALLS = [
    ("GET", "/v1/memory/stats", None),
    ("GET", "/v1/memory/export", None),
    ("POST", "/v1/memory/ingest", {"messages": [{"role": "user", "content": "b"}]}),
    ("POST", "/v1/memory/search", {"query": "b"}),
    ("POST", "/v1/memory/consolidate/checkout", {"tier": 1}),
]


def client_of(backend: bootstrap.Embedded) -> Client:
    bootstrap.activate(backend)
    return Client(Gateway(backend.services), backend.services)


@pytest.mark.parametrize(
    "damage", [b"not a database at all, only words " * 300, b"SQLite format 3\x00" + b"\xff" * 8000]
)
def test_a_damaged_vault_answers_503_and_is_left_as_it_is(damage: bytes, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, embedder="hashed-64")
    with bootstrap.Embedded(settings) as backend:
        client_of(backend).ingest("a")
        (vault,) = backend.stored()
        client_of(backend).using("mk_other").ingest("unharmed")
    file = tmp_path / "vaults" / f"{vault.vault_id}.{vault.epoch}.sqlite3"
    file.write_bytes(damage)
    with bootstrap.Embedded(settings) as backend:
        client = client_of(backend)
        for method, path, body in CALLS:
            answer = client.call(method, path, body)
            assert (answer.status, answer.code) == (503, "storage_unavailable"), (path, answer.body)
            assert "Retry-After" in answer.headers
        assert len(client.using("mk_other").export()) == 1
    bootstrap.activate(None)
    assert file.read_bytes() == damage


def test_a_damaged_key_file_stops_the_start_by_name(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, embedder="hashed-64")
    bootstrap.Embedded(settings).close()
    (file,) = tmp_path.glob("*.sqlite3")
    file.write_bytes(b"somebody else's file" * 1000)
    with pytest.raises(Unavailable, match=file.name):
        bootstrap.Embedded(settings)
    assert file.read_bytes() == b"somebody else's file" * 1000


@EMBEDDED_ONLY
def test_a_full_disk_is_a_503(client: Client, backend: bootstrap.Embedded) -> None:
    client.ingest("a")
    (vault,) = backend.stored()
    database = backend._files.database(vault)
    with database.write() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    body = {"messages": [{"role": "user", "content": "a" * 90_000}]}
    answer = client.post("/v1/memory/ingest", body)
    assert (answer.status, answer.code) in ((503, "storage_unavailable"), (507, "vault_full")), answer.body
    assert len(client.export()) == 1
