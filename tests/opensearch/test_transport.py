"""What the transport makes of every answer, without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from opensearchpy.exceptions import ConnectionError as NoConnection
from opensearchpy.exceptions import ConnectionTimeout, TransportError
from urllib3 import HTTPHeaderDict

from shared.adapters.opensearch.transport import CREATE, Rejected, Transport
from shared.domain.errors import Unavailable

Answer = dict[str, Any] | Exception


class Scripted:
    """Plays answers in turn in place of the network and keeps what was sent."""

    def __init__(self, transport: Transport, answers: list[Answer], monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = answers
        self.sent: list[tuple[str, str, Any, dict[str, str]]] = []
        monkeypatch.setattr(transport._client.transport, "perform_request", self)

    def __call__(self, method: str, path: str, params: dict[str, str], body: Any) -> dict[str, Any]:
        self.sent.append((method, path, body, params))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


Play = Callable[..., tuple[Transport, Scripted]]


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> Play:
    def make(*answers: Answer) -> tuple[Transport, Scripted]:
        transport = Transport("http://127.0.0.1:9", attempts=3, sleep=slept.append)
        return transport, Scripted(transport, list(answers), monkeypatch)

    return make


def status(code: int, kind: str = "some_exception") -> TransportError:
    return TransportError(code, kind, {"error": {"type": kind, "reason": "because"}})


@pytest.mark.parametrize("code", [429, 502, 503, 504])
def test_a_busy_store_is_asked_again_after_a_growing_pause(play: Play, slept: list[float], code: int) -> None:
    transport, network = play(status(code), status(code), {"ok": 1})
    assert transport.request("GET", "/") == {"ok": 1}
    assert len(network.sent) == 3
    assert 0.1 <= slept[0] <= 0.2 <= slept[1] <= 0.4


def test_a_store_that_stays_busy_is_unavailable(play: Play) -> None:
    transport, network = play(*[status(503)] * 3)
    with pytest.raises(Unavailable) as caught:
        transport.request("GET", "/")
    assert caught.value.code == "search_unavailable"
    assert caught.value.retry_after
    assert network.answers == []


def test_a_lost_connection_is_tried_again_and_a_slow_answer_is_not(play: Play) -> None:
    transport, network = play(NoConnection("N/A", "refused", None), {"ok": 1})
    assert transport.request("GET", "/") == {"ok": 1}
    transport, network = play(ConnectionTimeout("TIMEOUT", "slow", None), {"ok": 1})
    with pytest.raises(Unavailable):
        transport.request("GET", "/")
    assert len(network.sent) == 1


def test_other_errors_are_named_and_never_repeated(play: Play) -> None:
    transport, network = play(status(400, "parsing_exception"))
    with pytest.raises(Rejected) as caught:
        transport.request("POST", "/x/_search", {})
    assert (caught.value.status, caught.value.kind) == (400, "parsing_exception")
    assert len(network.sent) == 1


def test_a_missing_index_names_the_command(play: Play) -> None:
    transport, _ = play(status(404, "index_not_found_exception"))
    with pytest.raises(Unavailable, match=CREATE):
        transport.search("strata-x-1", "vault", {})
    absent = {"error": {"type": "index_not_found_exception"}, "_id": "1"}
    transport, _ = play({"docs": [absent]})
    with pytest.raises(Unavailable, match=CREATE):
        transport.mget("strata-x-1", "vault", ["1"], [])


def test_documents_of_a_shard_that_is_not_ready_are_asked_for_again(play: Play) -> None:
    moving = {"docs": [{"_id": "1", "error": {"type": "illegal_index_shard_state_exception"}}]}
    transport, network = play(moving, {"docs": [{"_id": "1", "found": True}, {"_id": "2", "found": False}]})
    assert transport.mget("x", "vault", ["1", "2"], []) == [{"_id": "1", "found": True}]
    assert len(network.sent) == 2
    transport, _ = play(*[moving] * 3)
    with pytest.raises(Unavailable) as caught:
        transport.mget("x", "vault", ["1"], [])
    assert "infra.index" not in caught.value.message


def test_half_an_answer_is_none(play: Play) -> None:
    for half in ({"timed_out": True, "_shards": {"failed": 0}}, {"timed_out": False, "_shards": {"failed": 1}}):
        transport, _ = play(half)
        with pytest.raises(Unavailable):
            transport.search("x", None, {})


def test_only_the_busy_documents_of_a_bulk_are_sent_again(play: Play) -> None:
    def item(code: int) -> dict[str, Any]:
        return {"index": {"status": code}}

    transport, network = play({"items": [item(200), item(429), item(409)]}, {"items": [item(201)]})
    lines: list[tuple[dict[str, Any], str | None]] = [
        ({"index": {"_id": str(n)}}, json.dumps({"n": n})) for n in range(3)
    ]
    assert [result["status"] for result in transport.bulk("x", lines, False)] == [200, 201, 409]
    assert network.sent[1][2] == '{"index":{"_id":"1"}}\n{"n": 1}\n'
    transport, _ = play(*[{"items": [item(429)]}] * 3)
    with pytest.raises(Unavailable):
        transport.bulk("x", lines[:1], False)


def test_requests_to_a_domain_are_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = SimpleNamespace(access_key="AKIDEXAMPLE", secret_key="secret", token="a-session")
    transport = Transport("https://domain.example", credentials, "eu-west-1")
    sent: list[dict[str, str]] = []

    def urlopen(method: str, url: str, body: bytes, retries: object, headers: dict[str, str], **more: object) -> Any:
        sent.append(headers)
        return SimpleNamespace(status=200, data=b"{}", headers=HTTPHeaderDict({"content-type": "application/json"}))

    connection = transport._client.transport.get_connection()
    monkeypatch.setattr(connection.pool, "urlopen", urlopen)
    transport.request("POST", "/x/_search", {"size": 0})
    (headers,) = sent
    assert "/eu-west-1/es/aws4_request" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "a-session"
    assert headers["content-encoding"] == "gzip"
    transport.close()
