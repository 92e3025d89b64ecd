"""The gateway: routing, events as API Gateway builds them, and the change stream before and after the answer."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from functions.indexer.handler import handler as indexer
from infra.local import gateway as module
from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from shared.api.routes import ROUTES
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef
from shared.ports.store import Change
from tests.api.client import Client

SEARCH = "/v1/memory/search"


def test_every_route_has_its_handler() -> None:
    for route in ROUTES:
        assert callable(module.handler_of(route.folder)), route


def test_unknown_paths_and_methods(client: Client) -> None:
    for path in ("/v1", "/v1/memory/", "/v1/memory/searches", "/V1/memory/search", "//", "/v1/keys/a/b"):
        answer = client.using(None).get(path)
        assert (answer.status, answer.code) == (404, "not_found"), path
    answer = client.using(None).get(SEARCH)
    assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "method_not_allowed", "OPTIONS, POST")
    assert client.call("PATCH", "/v1/keys").headers["Allow"] == "GET, HEAD, OPTIONS, POST"
    assert client.call("BREW", "/health").status == 405


def test_options_and_head(client: Client) -> None:
    options = client.using(None).call("OPTIONS", "/v1/memory")
    assert (options.status, options.headers["Allow"]) == (204, "DELETE, OPTIONS")
    assert "Access-Control-Allow-Origin" not in options.headers
    assert client.call("OPTIONS", "/nowhere").status == 404
    assert client.using(None).call("HEAD", "/openapi.json").status == 200


def test_the_front_page_is_html_for_people(client: Client) -> None:
    page = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"/openapi.json" in page.body
    for accept in ("*/*", "application/json", "application/json, text/html"):
        assert client.get("/", headers={"Accept": accept}).json["status"] == "ok"


def test_path_parameters_are_decoded(client: Client) -> None:
    for key_id in ("%00", "%FF", "%2e%2e", "a%2Fb", "%ud800"):
        assert client.delete(f"/v1/keys/{key_id}").status == 404


def events_of(monkeypatch: pytest.MonkeyPatch, client: Client, *call: Any, **more: Any) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    def handler(event: dict[str, Any]) -> dict[str, Any]:
        seen.append(event)
        return {"statusCode": 200, "headers": {}, "body": "", "isBase64Encoded": False}

    monkeypatch.setattr(module, "handler_of", lambda folder: handler)
    client.call(*call, **more)
    return seen[0]


def test_events_look_like_those_of_an_http_api(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    headers = {"X-One": "a", "x-one": "b", "Content-Length": "2"}
    event = events_of(monkeypatch, client, "DELETE", "/v1/keys/k%201?a=1&a=2&b=%C3%A9&c=", {}, headers=headers)
    assert (event["version"], event["routeKey"], event["rawPath"]) == (
        "2.0",
        "DELETE /v1/keys/{key_id}",
        "/v1/keys/k%201",
    )
    assert event["rawQueryString"] == "a=1&a=2&b=%C3%A9&c="
    assert event["queryStringParameters"] == {"a": "1,2", "b": "é", "c": ""}
    assert event["pathParameters"] == {"key_id": "k 1"}
    assert event["headers"]["x-one"] == "a,b"
    assert event["requestContext"]["http"]["method"] == "DELETE"
    assert (event["body"], event["isBase64Encoded"]) == ("{}", False)


def test_bodies_that_are_not_text_travel_in_base64(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    for body, kind in ((b"{}", "application/octet-stream"), (b"\xff", "application/json"), (b"{}", None)):
        with monkeypatch.context() as patch:
            event = events_of(patch, client, "POST", SEARCH, body, content_type=kind)
        assert event["isBase64Encoded"] is True
        assert base64.b64decode(event["body"]) == body


def test_a_fault_is_a_500_without_detail(
    monkeypatch: pytest.MonkeyPatch, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "words that belong to somebody"

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(secret)

    monkeypatch.setattr(type(client.services.store), "totals", broken)
    answer = client.get("/v1/memory/stats")
    assert (answer.status, answer.code) == (500, "internal")
    id_ = answer.headers["X-Request-Id"]
    assert id_ in answer.json["error"]
    assert secret not in answer.body.decode()
    assert secret not in caplog.text
    assert id_ in caplog.text
    assert "RuntimeError" in caplog.text


def test_what_was_written_is_found_when_the_answer_comes(client: Client, backend: bootstrap.Embedded) -> None:
    client.ingest("a heron on the weir", "nothing else")
    (vault,) = backend.stored()
    assert backend.services.feed.pending(vault, 10) == ()
    assert backend.services.index.status(vault).passages == 2
    assert backend.services.index.status(vault).without_vector == 0


@pytest.mark.parametrize(("rows", "waiting"), [(64, 0), (65, 65), (200, 200)])
def test_an_answer_waits_for_64_vectors_or_for_none(
    client: Client, backend: bootstrap.Embedded, rows: int, waiting: int
) -> None:
    """All words are there in either case."""
    client.ingest(*(f"row {200 - number}" for number in range(rows, 0, -1)))
    (vault,) = backend.stored()
    status = backend.services.index.status(vault)
    assert (status.passages, status.without_vector) == (rows, waiting)
    found = client.post(SEARCH, {"query": "199", "limit": 1}).json["memories"]
    assert found[0]["content"] == "row 199"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_background_fills_in_the_rest(client: Client, backend: bootstrap.Embedded, worker: Worker) -> None:
    worker.start()
    try:
        client.ingest(*(f"row {number}" for number in range(200)))
        (vault,) = backend.stored()
        until(lambda: backend.services.index.status(vault).without_vector == 0)
    finally:
        worker.stop()


def test_nobody_waits_for_the_vectors_of_others(backend: bootstrap.Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[int] = []

    def watched(event: dict[str, Any], context: object) -> dict[str, Any]:
        allowed.append(event["vectors"])
        return indexer(event, context)

    monkeypatch.setattr("infra.local.worker.fill_vectors", lambda *_: 0)
    worker = Worker(backend.services, watched)
    client = Client(Gateway(backend.services, worker), backend.services)
    worker.start()
    try:
        client.ingest("one")
        client.ingest(*(f"row {number}" for number in range(100)))
        client.ingest("one more")
    finally:
        worker.stop()
    assert allowed == [64, 0, 0]


def test_what_waits_since_before_the_start_is_filled_in(client: Client, backend: bootstrap.Embedded) -> None:
    client.ingest(*(f"row {number}" for number in range(100)))
    (vault,) = backend.stored()
    later = Worker(backend.services)
    later.start(backend.stored)
    try:
        until(lambda: backend.services.index.status(vault).without_vector == 0)
    finally:
        later.stop()


def test_a_failing_indexer_fails_no_answer_and_is_tried_again(
    backend: bootstrap.Embedded, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.local.worker.RETRY_S", 0.01)
    calls: list[int] = []

    def flaky(event: dict[str, Any], context: object) -> dict[str, Any]:
        calls.append(len(event["Records"]))
        if len(calls) < 3:
            raise OSError("the disk is full of somebody's words")
        return indexer(event, context)

    worker = Worker(backend.services, flaky)
    client = Client(Gateway(backend.services, worker), backend.services)
    client.ingest("written all the same")
    (vault,) = backend.stored()
    assert len(backend.services.feed.pending(vault, 10)) == 1
    assert "somebody" not in caplog.text
    worker.start()
    try:
        until(lambda: not backend.services.feed.pending(vault, 10))
    finally:
        worker.stop()
    assert len(calls) == 3


def test_records_that_failed_stay_in_the_outbox(backend: bootstrap.Embedded) -> None:
    def partly(event: dict[str, Any], context: object) -> dict[str, Any]:
        return {"batchItemFailures": [{"itemIdentifier": event["Records"][1]["dynamodb"]["SequenceNumber"]}]}

    client = Client(Gateway(backend.services, Worker(backend.services, partly)), backend.services)
    ids = client.ingest("one", "two", "three")
    (vault,) = backend.stored()
    assert [change.memory_id for change in backend.services.feed.pending(vault, 10)] == [ids[1]]


def test_two_drains_of_one_vault_take_turns(backend: bootstrap.Embedded) -> None:
    inside, most = 0, 0
    guard = threading.Lock()

    def watched(event: dict[str, Any], context: object) -> dict[str, Any]:
        nonlocal inside, most
        with guard:
            inside += 1
            most = max(most, inside)
        time.sleep(0.005)
        with guard:
            inside -= 1
        return indexer(event, context)

    client = Client(Gateway(backend.services, Worker(backend.services, watched)), backend.services)
    threads = [threading.Thread(target=client.ingest, args=(f"from thread {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(client.post(SEARCH, {"query": "thread", "limit": 20}).json["memories"]) == 8


def test_the_indexer_names_what_failed_and_skips_other_items(
    backend: bootstrap.Embedded, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shared.api.stream import record

    client.ingest("here")
    (vault,) = backend.stored()
    good = record(vault, Change(1, client.export()[0]["id"]))
    gone = record(VaultRef(vault.vault_id, vault.epoch + 5), Change(2, client.export()[0]["id"]))
    header = {"eventID": "x", "dynamodb": {"Keys": {"pk": {"S": "V#a#1"}, "sk": {"S": "B#1"}}, "SequenceNumber": "3"}}
    assert indexer({"Records": [good, gone, header]}) == {"batchItemFailures": []}

    def broken(*_: object) -> None:
        raise Unavailable("The index does not answer.", code="search_unavailable", retry_after=1)

    monkeypatch.setattr(type(client.services.index), "put_words", broken)
    assert indexer({"Records": [good, header]}) == {"batchItemFailures": [{"itemIdentifier": "1"}]}


def test_a_vault_that_keeps_moving_is_busy(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    from shared.domain.errors import StaleEpoch

    attempts: list[int] = []

    def moving(*_: object) -> None:
        attempts.append(1)
        raise StaleEpoch("moved")

    monkeypatch.setattr(type(client.services.store), "append", moving)
    answer = client.post("/v1/memory/ingest", {"messages": [{"role": "user", "content": "a"}]})
    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "busy", "1")
    assert len(attempts) == 8
