"""The bridge between standard input and ``POST /mcp``: real sockets, and a server that answers as each test says."""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from infra.local.mcp_stdio import Bridge
from shared.api.mcp.protocol import header_value
from tests.unit.scripted_rpc import KEY, SECONDS, Answer, Scripted, Seen, request, result

PROTOCOL, METHOD, NAME = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
THREADS = 4

pytestmark = pytest.mark.loopback


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted().listening() as scripted:
        yield scripted


class Client:
    """The bridge in this process, and the end of the pipe that it writes to."""

    def __init__(self, url: str) -> None:
        written, self._out = os.pipe()
        self._written = os.fdopen(written, "rb")
        self._bridge = Bridge(url, KEY, self._out)
        self._threads = ThreadPoolExecutor(THREADS)

    def send(self, *messages: object) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._bridge.take(line, self._threads)

    def next(self) -> dict[str, Any]:
        """The next answer; nothing else may be under way."""
        assert select.select([self._written], [], [], SECONDS)[0]
        found: dict[str, Any] = json.loads(self._written.readline())
        return found

    def end(self) -> list[bytes]:
        """All further lines that were written, once every request is answered."""
        self._threads.shutdown()
        os.close(self._out)
        with self._written:
            return self._written.read().splitlines()

    def answers(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.end()]


@pytest.fixture
def client(server: Scripted) -> Client:
    return Client(server.url)


def modern(id_: object, method: str, **params: object) -> dict[str, object]:
    return request(id_, method, **params, _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})


def mirrored(seen: Seen) -> dict[str, str]:
    return {name: seen.headers[name] for name in (PROTOCOL, METHOD, NAME) if name in seen.headers}


def test_a_modern_message_is_mirrored_in_headers(server: Scripted, client: Client) -> None:
    messages = [
        modern(1, "tools/call", name="fetch", arguments={"id": "x"}),
        modern(2, "resources/read", uri="memory://vault/naïve"),
        modern(3, "prompts/get", name="=?base64?literal?="),
        modern(4, "tools/list", **{"": "nothing", "name": "nothing"}),
    ]
    for message in messages:
        client.send(message)

    assert {answer["id"] for answer in client.answers()} == {1, 2, 3, 4}
    seen = {json.loads(each.body)["id"]: each for each in server.seen}
    version = {PROTOCOL: "2026-07-28"}
    assert mirrored(seen[1]) == {**version, METHOD: "tools/call", NAME: "fetch"}
    assert mirrored(seen[2]) == {
        **version, METHOD: "resources/read", NAME: "=?base64?bWVtb3J5Oi8vdmF1bHQvbmHDr3Zl?=",
    }  # fmt: skip
    assert mirrored(seen[3]) == {**version, METHOD: "prompts/get", NAME: "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}
    assert mirrored(seen[4]) == {**version, METHOD: "tools/list"}
    assert [json.loads(seen[number].body) for number in (1, 2, 3, 4)] == messages
    assert seen[1].headers["Authorization"] == f"Bearer {KEY}"
    assert seen[1].headers["Accept"] == "application/json, text/event-stream"
    assert seen[1].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        # The examples of the specification.
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_names_travel_as_plain_ascii(text: str, carried: str) -> None:
    assert header_value(text) == carried


def test_a_header_cannot_be_smuggled_in(server: Scripted, client: Client) -> None:
    client.send(modern(1, "ping\r\nX-Memory-Key: mk_other"))

    assert [answer["id"] for answer in client.answers()] == [1]
    assert mirrored(server.seen[0]) == {PROTOCOL: "2026-07-28"}
    assert "X-Memory-Key" not in server.seen[0].headers


def test_after_a_handshake_the_agreed_revision_is_named(server: Scripted, client: Client) -> None:
    server.script = lambda message: result(message["id"], protocolVersion="2025-06-18")
    for id_, method in (("a", "initialize"), ("b", "tools/list"), ("c", "initialize")):
        client.send(request(id_, method, protocolVersion="2025-11-25"))
        assert client.next()["id"] == id_

    assert client.end() == []
    assert [mirrored(seen) for seen in server.seen] == [{}, {PROTOCOL: "2025-06-18"}, {}]


def test_answers_come_as_the_server_gave_them_in_one_line_each(server: Scripted, client: Client) -> None:
    body = b'{"jsonrpc" : "2.0",\r\n "id": 7, "result": {"text": "a\\nb \xe2\x80\xa8 1.50"}}\n'
    server.script = lambda _: Answer(body=body)
    client.send(request(7, "ping"))

    assert client.end() == [b'{"jsonrpc" : "2.0",   "id": 7, "result": {"text": "a\\nb \xe2\x80\xa8 1.50"}}']


@pytest.mark.parametrize("status", [202, 400, 503])
def test_a_notification_has_no_answer(
    server: Scripted, client: Client, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    error = b'{"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}}' if status == 400 else b""
    server.script = lambda _: Answer(status, error)
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, b"  \r")

    assert client.end() == []
    assert len(server.seen) == 1
    assert bool(capfd.readouterr().err) is (status == 503)


def test_an_error_that_names_no_request_is_given_its_id(server: Scripted, client: Client) -> None:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": 401, "message": "Who are you?", "data": {"hint": "key"}}}
    server.script = lambda _: Answer(401, json.dumps(body).encode())
    client.send(request("q", "tools/list"))

    assert client.answers() == [{**body, "id": "q"}]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(401, b'{"error": "This key is not known.", "code": "unauthorized"}'), "This key is not known. Give a"),
        (Answer(403, b"<html>forbidden</html>"), "answered 403. Use a key whose scopes and suffix allow it."),
        (Answer(404, b""), "Is this the address of a strata server?"),
        (Answer(429, b'{"message": "slow down"}', {"Retry-After": "7"}), "Wait 7 s and try again."),
        (Answer(503, b'{"error": "Search is down.", "hint": "It comes back."}'), "Search is down. It comes back. Wait"),
        (Answer(302, b"", {"Location": "https://elsewhere.example"}), "leads to https://elsewhere.example; give that"),
        (Answer(200, b"[1]"), "answered 200."),
        (Answer(202, b""), "answered 202."),
        (Answer(200, b"[]"), "answered 200."),
        (Answer(200, b"data: {}\n\n", {"Content-Type": "text/event-stream"}), "stream of events, which is not read"),
    ],
)
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_what_is_no_json_rpc_becomes_an_error_that_says_what_to_do(
    server: Scripted, client: Client, method: str, answer: Answer, says: str
) -> None:
    server.script = lambda _: answer
    client.send(request(3, method))

    (told,) = client.answers()
    assert (told["jsonrpc"], told["id"], told["error"]["code"]) == ("2.0", 3, -32603)
    assert says in told["error"]["message"]
    assert told["error"]["data"] == {"status": answer.status}
    # Neither a redirect nor a failure leads to a second request.
    assert len(server.seen) == 1


def test_a_server_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    with Scripted() as gone:
        url = gone.url
    client = Client(url)
    client.send(request(1, "tools/call", name="search"), request("2", "tools/list"))

    answers = {answer["id"]: answer["error"]["message"] for answer in client.answers()}
    assert answers.keys() == {1, "2"}
    assert all("cannot be reached, and nothing was sent" in message for message in answers.values())
    assert KEY not in "".join(answers.values()) + "".join(capfd.readouterr())


def test_a_lost_call_is_not_repeated_and_a_lost_listing_is(server: Scripted, client: Client) -> None:
    lost: list[str] = []

    def script(message: dict[str, Any]) -> Answer:
        if message["method"] in lost:
            return result(message["id"])
        lost.append(message["method"])
        return Answer(None)

    server.script = script
    client.send(request(1, "tools/call", name="store_memory"), request(2, "tools/list"))

    answers = {answer["id"]: answer for answer in client.answers()}
    assert "Whether the request was carried out is not known" in answers[1]["error"]["message"]
    assert answers[2]["result"] == {}
    assert sorted(json.loads(seen.body)["id"] for seen in server.seen) == [1, 2, 2]


def test_one_connection_serves_one_request_after_the_other_until_it_is_closed(server: Scripted, client: Client) -> None:
    def closing(message: dict[str, Any]) -> Answer:
        return replace(result(message["id"]), headers={"Connection": "close"} if message["id"] == 3 else {})

    server.script = closing
    for number in (1, 2, 3, 4):
        client.send(request(number, "tools/call", name="search"))
        assert client.next()["id"] == number

    assert client.end() == []
    first, second, third, fourth = (seen.client for seen in server.seen)
    assert first == second == third != fourth


def test_a_slow_request_does_not_hold_up_a_later_one(server: Scripted, client: Client) -> None:
    quick = threading.Event()

    def script(message: dict[str, Any]) -> Answer:
        if message["id"] == "slow":
            assert quick.wait(SECONDS)
        else:
            quick.set()
        return result(message["id"])

    server.script = script
    client.send(request("slow", "tools/call", name="search"), request("quick", "ping"))

    assert {answer["id"] for answer in client.answers()} == {"slow", "quick"}


def test_a_cancelled_request_is_not_answered(server: Scripted, client: Client) -> None:
    cancelled = threading.Event()

    def script(message: dict[str, Any]) -> Answer:
        assert cancelled.wait(SECONDS)
        return result(message["id"])

    server.script = script
    client.send(request(1, "tools/call", name="search"), request(2, "ping"))
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    cancelled.set()

    assert [answer["id"] for answer in client.answers()] == [2]
    assert len(server.seen) == 2


def test_a_call_that_is_cancelled_while_it_waits_is_not_sent(server: Scripted, client: Client) -> None:
    cancelled = threading.Event()

    def script(message: dict[str, Any]) -> Answer:
        assert cancelled.wait(SECONDS)
        return result(message["id"])

    server.script = script
    client.send(*(request(number, "tools/call", name="store_memory") for number in range(THREADS + 2)))
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": THREADS}})
    cancelled.set()

    kept = {*range(THREADS), THREADS + 1}
    assert {answer["id"] for answer in client.answers()} == kept
    assert {json.loads(seen.body)["id"] for seen in server.seen} == kept


def test_true_is_not_the_id_1(server: Scripted, client: Client) -> None:
    cancelled = threading.Event()

    def script(message: dict[str, Any]) -> Answer:
        assert cancelled.wait(SECONDS)
        return result(message["id"])

    server.script = script
    client.send(request(1, "ping"), request(True, "ping"))
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": True}})
    assert (told := client.next())["id"] is None
    assert told["error"]["code"] == -32600
    cancelled.set()

    assert client.answers() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.parametrize(
    "line",
    [
        *(b"[]", b"{}", b"5", b"null", b'"x"', b"[null]", b'{"id": 1}', b'{"jsonrpc": "2.0", "method": []}'),
        *(b'{"jsonrpc": "2.0", "method": "ping", "id": %b}' % id_ for id_ in (b"1.5", b"null", b"true", b"{}")),
        b'[{"jsonrpc": "2.0", "method": "a"}, {"jsonrpc": "2.0", "method": "ping", "id": null}]',
    ],
)
def test_a_line_that_is_no_message_is_refused_here(server: Scripted, client: Client, line: bytes) -> None:
    client.send(line)

    (told,) = client.answers()
    assert (told["id"], told["error"]["code"]) == (None, -32600)
    assert server.seen == []


def test_a_line_that_is_too_long_is_refused_here(server: Scripted, client: Client) -> None:
    # The server takes 5 MiB; of what is a little longer its own refusal is passed on.
    for length in (5 * 2**20 + 1_000, 5 * 2**20 + 65_536 + 1):
        line = json.dumps(request(1, "ping", padding="")).encode()
        client.send(line.replace(b'""', b'"%b"' % (b"x" * (length - len(line)))))

    answers = {answer["id"]: answer for answer in client.answers()}
    assert answers.keys() == {1, None}
    assert answers[None]["error"] == {
        "code": -32600, "message": "The line is longer than the 5,242,880 bytes that the server takes.",
    }  # fmt: skip
    assert [len(seen.body) for seen in server.seen] == [5 * 2**20 + 1_000]


def test_what_no_client_should_send_does_no_harm(server: Scripted, client: Client) -> None:
    strange = [{"id": 1, "result": {}}, request(2, "x", _meta=[]), {"id": 4, "method": []}]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}
    server.script = lambda _: Answer(400, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no"}}')
    client.send(*strange, cancel, {**cancel, "params": None}, request(3, "ping"))

    assert sorted(answer["id"] for answer in client.answers()) == [2, 3, 4]
    assert len(server.seen) == len(strange) + 1


@pytest.mark.parametrize("line", [b"{", b"\xff", b'{"jsonrpc": "2.0", "id": 1', b"[" * 100_000])
def test_a_line_that_is_no_json_is_refused_here(server: Scripted, client: Client, line: bytes) -> None:
    client.send(line)

    (told,) = client.answers()
    assert (told["id"], told["error"]["code"]) == (None, -32700)
    assert server.seen == []


def test_a_batch_is_one_request_and_fails_as_its_parts(server: Scripted, client: Client) -> None:
    batch = [request(1, "ping"), {"jsonrpc": "2.0", "method": "notifications/initialized"}, request(2, "ping")]
    server.script = lambda _: Answer(500, b"")
    client.send(batch)

    assert [(told["id"], told["error"]["data"]) for told in client.answers()] == [
        (1, {"status": 500}),
        (2, {"status": 500}),
    ]
    assert [json.loads(seen.body) for seen in server.seen] == [batch]
