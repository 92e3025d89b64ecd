"""The real process on a real socket: start, limits, disconnects, a graceful end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024
KEY = {"Authorization": "Bearer mk_server-test", "Content-Type": "application/json"}

pytestmark = [pytest.mark.loopback, pytest.mark.slow]


def run(module: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    env = {**os.environ, "STRATA_EMBEDDER": "hashed-64", "STRATA_PORT": "0", **variables}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@dataclass
class Running:
    process: subprocess.Popen[str]
    line: str
    port: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def call(self, method: str, path: str, body: object = None, headers: dict[str, str] = KEY) -> tuple[int, Any]:
        connection = self.connect()
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, raw, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, json.loads(content) if content else None

    def memories(self) -> int:
        count = self.call("GET", "/v1/memory/stats")[1]["memories"]
        assert isinstance(count, int)
        return count


def start(data: Path, **variables: str) -> Running:
    process = run("infra.local.server", STRATA_DATA=str(data), **variables)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+) ", line)
    if found is None:
        process.kill()
        raise AssertionError((line, process.communicate()))
    return Running(process, line, int(found[1]))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    running = start(tmp_path / "data")
    yield running
    if running.process.poll() is None:
        running.process.kill()
    running.process.communicate()


def test_one_line_says_where_it_listens_and_the_end_is_clean(server: Running, tmp_path: Path) -> None:
    assert server.line == f"strata is ready on http://127.0.0.1:{server.port} (data: {tmp_path / 'data'})\n"
    assert server.call("GET", "/health", headers={})[0] == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.process.communicate(timeout=30) == ("", "")
    assert server.process.returncode == 0


def test_ctrl_c_finishes_open_requests(server: Running, tmp_path: Path) -> None:
    lines = b"".join(b'{"content": "line number %d"}\n' % number for number in range(5000))
    answers: list[tuple[int, Any]] = []
    sent = threading.Event()

    def upload() -> None:
        connection = server.connect()
        connection.request("POST", "/v1/memory/upload", lines, KEY)
        sent.set()
        response = connection.getresponse()
        answers.append((response.status, json.loads(response.read())))
        connection.close()

    thread = threading.Thread(target=upload)
    thread.start()
    sent.wait()
    # The server has begun to answer once something of the vault is on the disk.
    while not list((tmp_path / "data" / "vaults").glob("*.sqlite3")):
        assert thread.is_alive()
    server.process.send_signal(signal.SIGINT)
    thread.join()
    server.process.communicate(timeout=60)
    assert server.process.returncode == 0
    assert (answers[0][0], answers[0][1]["stats"]["stored"]) == (200, 5000)

    again = start(tmp_path / "data")
    try:
        assert again.memories() == 5000
    finally:
        again.process.send_signal(signal.SIGTERM)
        again.process.communicate(timeout=60)


def test_a_second_server_on_the_folder_stops_and_says_why(server: Running, tmp_path: Path) -> None:
    for module in ("infra.local.server", "infra.admin_key"):
        second = run(module, STRATA_DATA=str(tmp_path / "data"))
        out, err = second.communicate(timeout=60)
        assert (second.returncode, out) == (2, "")
        assert "in use" in err
        assert str(tmp_path / "data") in err
        assert "Traceback" not in err


def test_a_server_of_the_embedded_back_end_serves_no_other(tmp_path: Path) -> None:
    aws = {"STRATA_BACKEND": "aws", "STRATA_TABLE": "memories", "STRATA_SEARCH_URL": "http://127.0.0.1:1"}
    out, err = run("infra.local.server", STRATA_DATA=str(tmp_path), **aws).communicate(timeout=60)
    assert out == ""
    assert "STRATA_BACKEND='aws' is not served here: `make serve-aws`" in err
    assert "Traceback" not in err


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as blocker:
        port = str(blocker.getsockname()[1])
        process = run("infra.local.server", STRATA_PORT=port, STRATA_DATA=str(tmp_path))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "in use" in err
    assert port in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "value"), [("STRATA_PORT", "http"), ("STRATA_DATA", ":memory:"), ("STRATA_DATA", "pyproject.toml")]
)
def test_what_cannot_start_says_why(name: str, value: str, tmp_path: Path) -> None:
    process = run("infra.local.server", **{"STRATA_DATA": str(tmp_path), name: value})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert value in err
    assert "Traceback" not in err


def test_a_first_admin_key_opens_a_vault_where_keys_are_not_made_on_sight(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    made = run("infra.admin_key", "me", STRATA_DATA=data).communicate(timeout=60)[0]
    assert re.fullmatch(r"mk_[A-Za-z0-9_-]{32}\n", made)
    running = start(tmp_path / "data", STRATA_AUTO_PROVISION_KEYS="0")
    try:
        assert running.call("GET", "/v1/keys", headers={"X-Memory-Key": made.strip()})[1]["keys"][0]["name"] == "me"
        assert running.call("GET", "/v1/keys")[0] == 401
    finally:
        running.process.send_signal(signal.SIGTERM)
        running.process.communicate(timeout=60)


def test_bodies_over_the_limit(server: Running) -> None:
    too_much = b'{"query": "' + b"a" * (5 * MIB) + b'"}'
    status, body = server.call("POST", "/v1/memory/search", too_much)
    assert (status, body["code"]) == (413, "too_large")
    connection = server.connect()
    connection.request("POST", "/v1/memory/search", iter([too_much[:MIB]] * 7), KEY, encode_chunked=True)
    response = connection.getresponse()
    assert (response.status, response.getheader("connection")) == (413, "close")
    assert json.loads(response.read())["code"] == "too_large"
    connection.close()
    assert server.call("POST", "/v1/memory/search", {"query": "still there"})[0] == 200


def test_half_a_request_is_no_request(server: Running) -> None:
    line = b'{"content": "half"}\n'
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        head = "POST /v1/memory/upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mk_server-test\r\n"
        plain.sendall(f"{head}Content-Length: {len(line) * 2}\r\n\r\n".encode() + line)
    assert server.memories() == 0


def test_many_at_once(server: Running) -> None:
    statuses: list[int] = []

    def work(number: int) -> None:
        for turn in range(5):
            body = {"messages": [{"role": "user", "content": f"worker {number}, turn {turn}"}]}
            statuses.append(server.call("POST", "/v1/memory/ingest", body)[0])
            statuses.append(server.call("POST", "/v1/memory/search", {"query": f"worker {number}"})[0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(statuses)) == [200, 202]
    assert server.memories() == 60


def test_text_in_headers_is_utf_8_and_head_has_no_body(server: Running) -> None:
    body = {"messages": [{"role": "user", "content": "a"}]}
    headers: dict[str, Any] = {**KEY, "X-Session-ID": "Köln 🎉".encode()}
    assert server.call("POST", "/v1/memory/ingest", body, headers)[1]["session_id"] == "Köln 🎉"
    connection = server.connect()
    connection.request("HEAD", "/openapi.json")
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"")
    assert int(response.getheader("content-length") or 0) > 1000
    connection.request("OPTIONS", "/v1/keys")
    assert connection.getresponse().status == 204
    connection.close()
