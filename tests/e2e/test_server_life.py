"""The real process: how it starts and refuses to, how it ends, and what its folder keeps from one run to the next."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server import ROOT, Server

KEY = {"Authorization": "Bearer mk_the-life-of-a-server"}
INGEST, SEARCH, STATS = "/v1/memory/ingest", "/v1/memory/search", "/v1/memory/stats"
CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
LIGHT = {"STRATA_EMBEDDER": "hashed-64"}


def to(server: Server, key: str = "mk_the-life-of-a-server") -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


def tell(http: httpx.Client, *texts: str, **more: Any) -> list[str]:
    answer = http.post(INGEST, json={"messages": [{"role": "user", "content": text} for text in texts]}, **more)
    assert answer.status_code == 202, answer.text
    ids = answer.json()["ids"]
    assert isinstance(ids, list)
    return ids


def attempt(environment: Mapping[str, str], data: Path) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    settings = {"STRATA_PORT": "0", "STRATA_DATA": str(data), **LIGHT, **environment}
    return subprocess.run(
        [sys.executable, "-m", "infra.local.server"],
        cwd=ROOT,
        env=clean | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("STRATA_PORT", "65536", "0 to 65535"),
        ("STRATA_PORT", "-1", "0 to 65535"),
        ("STRATA_PORT", "", "0 to 65535"),
        ("STRATA_HOST", "", "host"),
        ("STRATA_DATA", ":memory:", "on disk"),
        ("STRATA_DATA", "", "folder"),
        ("STRATA_AUTO_PROVISION_KEYS", "yes", "0 or 1"),
        ("STRATA_LEASE_SECONDS", "0", "1 to"),
        ("STRATA_LEASE_SECONDS", "15.5", "integer"),
        ("STRATA_EMBEDDER", "gpt", "minilm-l6-v2"),
        ("STRATA_LOG_LEVEL", "loud", "DEBUG"),
        ("STRATA_DATABASE", "x", "STRATA_DATA"),
        ("STRATA_data", "x", "STRATA_DATA"),
    ],
)
def test_a_bad_setting_stops_the_start_with_its_name_its_value_and_what_is_allowed(
    name: str, value: str, allowed: str, tmp_path: Path
) -> None:
    ended = attempt({name: value}, tmp_path / "data")
    assert (ended.returncode, ended.stdout) == (2, "")
    for part in (name, repr(value), allowed):
        assert part in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "data").exists()


def test_a_second_server_on_the_folder_is_refused_and_harms_nothing(server: Server) -> None:
    with to(server) as http:
        tell(http, "before")
        ended = attempt({}, server.data)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert str(server.data) in ended.stderr
        assert "in use by another strata server" in ended.stderr
        assert "STRATA_DATA" in ended.stderr
        assert "Traceback" not in ended.stderr
        tell(http, "after")
        assert http.get(STATS).json()["memories"] == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_open(number: signal.Signals, tmp_path: Path) -> None:
    server = Server(tmp_path, LIGHT)
    server.start()
    lines = b"".join(b'{"content": "line number %d of a long file"}\n' % line for line in range(10_000))
    answers: list[httpx.Response] = []

    def upload() -> None:
        with to(server) as http:
            answers.append(http.post("/v1/memory/upload", content=lines, headers={"Content-Type": "text/plain"}))

    thread = threading.Thread(target=upload)
    thread.start()
    while not list((server.data / "vaults").glob("*.sqlite3")):
        assert thread.is_alive()
    assert server._end(number) == 0
    thread.join()
    assert (answers[0].status_code, answers[0].json()["stats"]["stored"]) == (200, 10_000)
    with Server(tmp_path, LIGHT) as again, to(again) as http:
        assert http.get(STATS).json()["memories"] == 10_000


def test_the_folder_keeps_everything_from_run_to_run(tmp_path: Path) -> None:
    server = Server(tmp_path, LIGHT)
    server.start()
    body = {"messages": [{"role": "user", "content": "a heron on the weir"}]}
    once = {"Idempotency-Key": "once"}
    with to(server) as http:
        first = http.post(INGEST, json=body, headers=once).json()["ids"]
        tell(http, *(f"leased {number}" for number in range(10)))
        batch = http.post(CHECKOUT, json={"tier": 1}).json()
        minted = http.post("/v1/keys", json={"vault": "same", "scopes": ["memories:read"]}).json()
        deleted = http.post("/v1/keys", json={}).json()
        assert http.delete(f"/v1/keys/{deleted['key_id']}").status_code == 200
        usage = http.get("/v1/account/usage").json()
        before = http.post(SEARCH, json={"query": "heron", "limit": 50}).json()["memories"]
    server.kill()
    server.start()
    with to(server) as http:
        assert http.post(SEARCH, json={"query": "heron", "limit": 50}).json()["memories"] == before
        assert http.post(INGEST, json=body, headers=once).json()["ids"] == first
        empty = http.post(CHECKOUT, json={"tier": 1}).json()
        assert (empty["batch_id"], empty["leased"], empty["next_expiry"]) == (None, 11, batch["lease_expires_at"])
        assert (
            http.get("/v1/account/usage").json()["summary"]["operations"]["ingest"]["requests"]
            >= (usage["summary"]["operations"]["ingest"]["requests"])
        )
        with to(server, minted["key"]) as reader, to(server, deleted["key"]) as nobody:
            assert reader.get(STATS).json()["memories"] == 11
            assert reader.post(INGEST, json=body).status_code == 403
            assert nobody.get(STATS).status_code == 401
    server.kill()
    server.start()
    with to(server) as http:
        entries = [{"text": "herons", "importance": 5}]
        commit = {"batch_id": batch["batch_id"], "entries": entries}
        done = http.post(COMMIT, json=commit).json()
        assert (done["sources_consolidated"], done["already_committed"]) == (11, False)
    server.kill()
    server.start()
    with to(server) as http:
        again = http.post(COMMIT, json=commit).json()
        assert again["created"] == done["created"]
        assert again["already_committed"] is True
    assert server.stop() == 0


def test_vectors_that_waited_are_filled_in_after_the_start(tmp_path: Path) -> None:
    server = Server(tmp_path, {"STRATA_EMBEDDER": "minilm-l6-v2"})
    server.start()
    with to(server) as http:
        tell(http, *(f"{number}: " + "the heron stood on the weir and waited. " * 20 for number in range(60)))
    server.kill()
    server.start()
    with to(server) as http:
        stats = http.get(STATS).json()
        assert stats["totalVectors"] >= 60
        deadline = time.monotonic() + 60
        while http.get(STATS).json()["waiting_vectors"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert server.stop() == 0


def test_a_damaged_vault_answers_503_while_the_others_work(tmp_path: Path) -> None:
    server = Server(tmp_path, LIGHT)
    with server, to(server, "mk_damaged") as http:
        tell(http, "a")
    (file,) = (server.data / "vaults").glob("*.sqlite3")
    file.write_bytes(b"\xff" * 50_000)
    with server, to(server, "mk_damaged") as damaged, to(server) as other:
        for _ in range(2):
            for method, path, body in (
                ("GET", STATS, None),
                ("POST", INGEST, {"messages": [{"role": "user", "content": "b"}]}),
                ("POST", SEARCH, {"query": "b"}),
                ("POST", CHECKOUT, {"tier": 1}),
            ):
                answer = damaged.request(method, path, json=body)
                assert (answer.status_code, answer.json()["code"]) == (503, "storage_unavailable")
                assert file.name in answer.json()["error"]
                assert int(answer.headers["Retry-After"]) > 0
            tell(other, "works")
            assert other.post(SEARCH, json={"query": "works"}).status_code == 200
        # Emptying the vault is the way out.
        assert damaged.delete("/v1/memory").status_code == 200
        tell(damaged, "anew")
        assert damaged.get(STATS).json()["memories"] == 1
    assert "Traceback" not in server.log.read_text()


def test_an_import_that_was_killed_half_way_goes_on(tmp_path: Path) -> None:
    server = Server(tmp_path, LIGHT)
    server.start()
    with to(server) as http:
        for _ in range(4):
            tell(http, *(f"line {number} of the harbour log" for number in range(500)))
        batch = http.post(CHECKOUT, json={"tier": 1}).json()["batch_id"]
        http.post(COMMIT, json={"batch_id": batch, "entries": [{"text": "harbour", "importance": 7}]})
        parts, cursor = [], ""
        while True:
            answer = http.get("/v1/memory/export", params={"limit": 150, **({"cursor": cursor} if cursor else {})})
            parts.append(answer.content)
            if "X-Next-Cursor" not in answer.headers:
                break
            cursor = answer.headers["X-Next-Cursor"]
        debt = http.get(STATS).json()["reflection"]

    def send(part: bytes, finish: bool = False) -> httpx.Response | None:
        try:
            with to(server, "mk_new-home") as home:
                return home.post(
                    "/v1/memory/import",
                    params={"finish": "true"} if finish else {},
                    content=part,
                    headers={"Content-Type": "application/x-ndjson"},
                )
        except httpx.TransportError:
            return None

    done = 0
    for kill_after in (0.0, 0.01, 0.03, 0.1):
        killer = threading.Timer(kill_after, server.kill)
        killer.start()
        # Sends until it hears nothing any more, then goes on where it was.
        while done < len(parts) - 1 and (heard := send(parts[done])) is not None:
            assert heard.status_code == 200, heard.text
            done += 1
        killer.join()
        server.start()
        with to(server, "mk_new-home") as home:
            assert home.post(SEARCH, json={"query": "harbour"}).json()["memories"] == []
    for part in parts[done:-1]:
        assert send(part) is not None
    killer = threading.Timer(0.02, server.kill)
    killer.start()
    last = send(parts[-1], finish=True)
    killer.join()
    server.start()
    again = send(parts[-1], finish=True)
    assert again is not None
    assert again.json()["status"] == "complete"
    assert last is None or last.json()["status"] == "complete"
    with to(server, "mk_new-home") as home:
        assert home.get("/v1/memory/export", params={"limit": 5_000}).content == b"".join(parts)
        assert home.get(STATS).json()["reflection"] == debt
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", INGEST, json.dumps({"messages": [{"role": "user", "content": "half"}]}).encode()),
        ("POST", "/v1/memory/upload", b'{"content": "half"}\n{"content": "whole"}\n'),
        ("POST", "/v1/memory/delete-ids", b'{"ids": ["%s"]}'),
        ("DELETE", "/v1/memory", b"{}"),
        ("POST", CHECKOUT, b'{"tier": 1}'),
    ],
)
def test_who_leaves_in_the_middle_of_a_body_changes_nothing(
    method: str, path: str, body: bytes, chunked: bool, server: Server
) -> None:
    with to(server) as http:
        (own,) = tell(http, "mine")
        body = body.replace(b"%s", own.encode())
        host, port = server.url.removeprefix("http://").split(":")
        how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body) + 2}"
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {KEY['Authorization']}\r\n{how}\r\n\r\n"
        sent = b"%x\r\n%s\r\n" % (len(body), body) if chunked else body
        with socket.create_connection((host, int(port))) as plain:
            plain.sendall(head.encode() + sent)
        time.sleep(0.05)
        stats = http.get(STATS).json()
        assert (stats["memories"], stats["reflection"]["unconsolidated"]["raw"]["units"]) == (1, 1)
        assert http.post(CHECKOUT, json={"tier": 1}).json()["count"] == 1


@pytest.mark.parametrize("kind", ["idle", "silent", "slow"])
def test_no_client_keeps_the_server_from_stopping(kind: str, tmp_path: Path) -> None:
    """One that keeps its connection does not, nor one that fell silent; one that still sends is heard to the end."""
    server = Server(tmp_path, LIGHT)
    server.start()
    host, port = server.url.removeprefix("http://").split(":")
    body = b'{"messages": [{"role": "user", "content": "a"}]}'
    head = f"POST {INGEST} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {KEY['Authorization']}\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        if kind == "idle":
            plain.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert plain.recv(65_536).startswith(b"HTTP/1.1 200")
        else:
            plain.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:10])
            time.sleep(0.3)
        codes: list[int] = []
        start = time.monotonic()
        thread = threading.Thread(target=lambda: codes.append(server.stop()))
        thread.start()
        if kind == "slow":
            for number in range(10, len(body), 8):
                time.sleep(0.5)
                plain.sendall(body[number : number + 8])
            assert plain.recv(65_536).startswith(b"HTTP/1.1 202")
        elif kind == "silent":
            assert plain.recv(65_536).startswith(b"HTTP/1.1 503")
        thread.join()
    assert codes == [0]
    assert time.monotonic() - start < 15
    assert "Traceback" not in server.log.read_text()
