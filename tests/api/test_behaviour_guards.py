"""Requests that would do something larger than was meant, or meet an import at the wrong moment."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shared import bootstrap
from shared.domain.errors import StaleEpoch
from shared.domain.keys import hash_key
from shared.domain.memory import VaultRef
from tests.api.client import Client
from tests.contract.rows import NOW, Maker

IMPORT, INGEST, STATS = "/v1/memory/import", "/v1/memory/ingest", "/v1/memory/stats"
TEXT: Any = {"content_type": "application/x-ndjson"}
KEY = "mk_the-guarded"


@pytest.fixture
def guarded(client: Client) -> Client:
    return client.using(KEY)


def vault_of(backend: bootstrap.Embedded) -> VaultRef:
    opened = backend.directory.open(hash_key(KEY))
    assert opened is not None
    return opened[1].ref


def line(memory_id: str) -> bytes:
    row = {"id": memory_id, "tier": 1, "content": "imported", "role": "user", "date": "2026-02-01T00:00:00.000Z"}
    return json.dumps(row).encode()


def test_a_write_that_came_before_the_first_page_keeps_the_vault_and_ends_the_import(
    guarded: Client, backend: bootstrap.Embedded
) -> None:
    """The writer was let in before the import opened and wrote after it."""
    assert guarded.get(STATS).status == 200
    vault, row = vault_of(backend), Maker().raw("acknowledged")
    backend.directory.open_import(vault)
    backend.services.store.append(vault, [row], None, NOW)
    for _ in range(2):
        answer = guarded.post(IMPORT, line(Maker(50).id()), **TEXT)
        assert (answer.status, answer.code) == (409, "vault_not_empty")
    assert guarded.get(STATS).json["import_open"] is False
    guarded.ingest("goes on")
    assert [each["content"] for each in guarded.export()] == ["acknowledged", "goes on"]


def test_a_write_that_comes_after_the_first_page_is_sent_back(guarded: Client, backend: bootstrap.Embedded) -> None:
    assert guarded.get(STATS).status == 200
    vault, make = vault_of(backend), Maker()
    assert guarded.post(IMPORT, line(make.id()), **TEXT).status == 200
    with pytest.raises(StaleEpoch):
        backend.services.store.append(vault, [make.raw()], None, NOW)
    answer = guarded.post(INGEST, {"messages": [{"role": "user", "content": "now"}]})
    assert (answer.status, answer.code) == (409, "import_open")
    assert guarded.delete("/v1/memory").status == 200
    guarded.ingest("after it")
    assert [row["content"] for row in guarded.export()] == ["after it"]


def test_closing_an_import_that_moved_on_changes_nothing(guarded: Client, backend: bootstrap.Embedded) -> None:
    assert guarded.get(STATS).status == 200
    vault = vault_of(backend)
    importing = backend.directory.open_import(vault)
    backend.directory.cancel_import(vault, importing + 1)
    backend.directory.cancel_import(replace(vault, epoch=vault.epoch + 1), importing)
    assert backend.directory.vault(vault.vault_id).importing == importing
    backend.directory.cancel_import(vault, importing)
    assert backend.directory.vault(vault.vault_id).importing is None


@pytest.mark.parametrize("query", ["session_id=abc", "Reset=true", "reset=true&foo=1", "X-Session-ID=abc"])
def test_a_misspelt_parameter_deletes_nothing(guarded: Client, query: str) -> None:
    guarded.ingest("still here")
    answer = guarded.delete(f"/v1/memory?{query}")
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert [row["content"] for row in guarded.export()] == ["still here"]


def test_misspelt_parameters_of_the_moving_calls_are_named(guarded: Client) -> None:
    assert guarded.post(f"{IMPORT}?finsh=true", line(Maker().id()), **TEXT).fields == ["finsh"]
    assert guarded.get("/v1/memory/export?cursr=x").fields == ["cursr"]
