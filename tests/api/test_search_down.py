"""The AWS back end without its search store or its model: what needs them says so, everything else goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from shared.bootstrap import Aws
from shared.domain.errors import Unavailable
from tests.api.backends import Emulated
from tests.api.client import Answer, Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.loopback,
    pytest.mark.parametrize("backend", ["aws"], indirect=True),
]

INGEST, SEARCH, STATS = "/v1/memory/ingest", "/v1/memory/search", "/v1/memory/stats"
PREPARE, DATES, INSPECT = "/v1/memory/prepare", "/v1/memory/date-search", "/v1/memory/inspect"
CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
DELETE, EXPORT, UPLOAD = "/v1/memory/delete-ids", "/v1/memory/export", "/v1/memory/upload"
TODAY = {"from": "2020-01-01", "to": "2099-01-01"}


@pytest.fixture
def outage(backend: Aws, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The search store is down; calling it brings the store back."""
    unreachable = "http://127.0.0.1:9"
    patched = monkeypatch.context()
    patch = patched.__enter__()
    patch.setattr(backend, "_settings", backend_settings(backend, unreachable))
    backend.index.close()

    def back() -> None:
        patched.__exit__(None, None, None)
        backend.index.close()

    return back


def backend_settings(backend: Aws, url: str) -> Any:
    from dataclasses import replace

    return replace(backend._settings, search_url=url)


def is_503(answer: Answer, code: str = "search_unavailable") -> bool:
    assert answer.status == 503, answer.body
    assert int(answer.headers["Retry-After"]) >= 1
    return answer.code == code


def test_without_the_search_store_everything_else_works_and_it_catches_up(
    client: Client, outage: Callable[[], None]
) -> None:
    ids = client.ingest("a heron on the weir", "an owl", "to be deleted")
    upload = client.post(UPLOAD, b'{"role": "user", "content": "an uploaded fox"}', content_type="application/x-ndjson")
    assert upload.status in (200, 202), upload.body
    assert is_503(client.post(SEARCH, {"query": "heron"}))
    assert is_503(client.post(PREPARE, {"messages": [{"role": "user", "content": "which bird?"}]}))
    assert is_503(client.post(DATES, {**TODAY, "query": "heron"}))
    assert len(client.post(DATES, TODAY).json["memories"]) == 4
    assert client.post(DELETE, {"ids": ids[2:]}).json["deleted"] == 1
    _, (reflection,) = client.consolidate("A heron, an owl and a fox were seen.")
    assert client.post(INSPECT, {"memory_id": reflection}).json["sources_total"] == 3
    assert len(client.export()) == 4
    assert client.post("/v1/memory/consolidate/checkout", {"tier": 1}).json["batch_id"] is None
    outage()
    found = client.post(SEARCH, {"query": "heron", "limit": 10}).json["memories"]
    assert {row["id"] for row in found} == {row["id"] for row in client.export()}
    assert client.get(STATS).json["totalVectors"] == 4


def test_with_the_indexer_stopped_what_was_written_is_found_by_its_words(backend: Aws, emulated: Emulated) -> None:
    with emulated.backend(follow=False) as deployed:
        bootstrap.activate(deployed)
        client = Client(Gateway(deployed.services), deployed.services)
        ids = client.ingest("a heron on the weir", "an owl in the barn", "nothing else")
        for query, found in (("herons", ids[0]), ("who is in the barn?", ids[1])):
            (row,) = client.post(SEARCH, {"query": query, "limit": 1}).json["memories"]
            assert row["id"] == found
        context = client.post(PREPARE, {"messages": [{"role": "user", "content": "herons?"}]}).json["context"]
        assert "a heron on the weir" in context
        dated = client.post(DATES, {**TODAY, "query": "owl", "max_tokens": 5}).json["memories"]
        assert dated[0]["id"] == ids[1]
        client.post(DELETE, {"ids": ids[:1]})
        rows = client.post(SEARCH, {"query": "herons"}).json["memories"]
        assert {row["id"] for row in rows} == set(ids[1:])
        stats = client.get(STATS).json
        assert stats["totalVectors"] == 0
        assert 1 <= stats["index_lag_s"] < 60


def test_a_vault_can_be_deleted_without_the_search_store(client: Client, outage: Callable[[], None]) -> None:
    client.ingest("a heron on the weir")
    assert client.delete("/v1/memory").status == 200
    assert client.export() == []
    outage()
    assert client.post(SEARCH, {"query": "heron"}).json["memories"] == []


def test_without_the_model_words_decide_and_vectors_come_later(
    client: Client, backend: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(self: Any, texts: Sequence[str]) -> None:
        raise Unavailable("The model does not answer.", code="embedding_unavailable", retry_after=5)

    monkeypatch.setattr("infra.local.worker.RETRY_S", 0.01)
    model = type(backend.services.embedders["hashed-64"])
    with monkeypatch.context() as patched:
        patched.setattr(model, "embed_documents", down)
        client.ingest("a heron on the weir", "an owl")
        found = client.post(SEARCH, {"query": "herons", "limit": 1})
        assert found.json["memories"][0]["content"] == "a heron on the weir"
        assert client.get(STATS).json["waiting_vectors"] == 2
    worker = Worker(backend.services)
    Client(Gateway(backend.services, worker), backend.services).ingest("and a fox")
    assert client.get(STATS).json["waiting_vectors"] == 0


@pytest.mark.parametrize("layout", [None, 0])
def test_a_missing_or_older_index_names_the_command(client: Client, backend: Aws, layout: int | None) -> None:
    from shared.adapters.opensearch.mapping import alias

    prefix = backend.indexes
    backend.indexes = f"{prefix}-{'older' if layout == 0 else 'missing'}"
    name = alias("hashed-64", 64, backend.indexes)
    transport = backend.transport()
    if layout is not None:
        transport.request("PUT", f"/{name}", {"mappings": {"_meta": {"strata_layout": layout}}})
    try:
        client.ingest("a heron on the weir")
        answer = client.post(SEARCH, {"query": "heron"})
        assert is_503(answer)
        assert "python -m infra.index rebuild" in answer.json["error"]
        assert len(client.export()) == 1
    finally:
        if layout is not None:
            transport.request("DELETE", f"/{name}")
        transport.close()


def test_a_table_that_throttles_is_a_503_that_can_be_repeated(
    client: Client, backend: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.exceptions import ClientError

    monkeypatch.setattr("shared.adapters.dynamodb.table.time.sleep", lambda seconds: None)
    client.ingest("one")
    refused = ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, "TransactWriteItems")

    def throttled(**request: Any) -> None:
        raise refused

    body = {"messages": [{"role": "user", "content": "two"}]}
    with monkeypatch.context() as patched:
        patched.setattr(backend.table._client, "transact_write_items", throttled)
        answer = client.post(INGEST, body, headers={"Idempotency-Key": "k"})
        assert is_503(answer, "busy") or answer.code == "storage_unavailable"
    assert len(client.export()) == 1
    assert client.post(INGEST, body, headers={"Idempotency-Key": "k"}).status == 202
    assert len(client.export()) == 2
