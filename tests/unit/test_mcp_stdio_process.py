"""The bridge as a program that a client starts: how it begins and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.scripted_rpc import KEY, SECONDS, Answer, Scripted, request, result

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.loopback


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted().listening() as scripted:
        yield scripted


def started(url: str, *more: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "infra.local.mcp_stdio", "--url", url, *more],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_it_ends_when_what_was_asked_is_answered(server: Scripted, tmp_path: Path, how: str) -> None:
    arrived, ended = threading.Event(), threading.Event()

    def script(message: dict[str, Any]) -> Answer:
        arrived.set()
        assert ended.wait(SECONDS)
        return result(message["id"])

    server.script = script
    (tmp_path / "key").write_text(f"{KEY}\n")
    with started(server.url.removesuffix("/mcp"), "--key-file", str(tmp_path / "key")) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(request(1, "ping")).encode() + (b"\n" if how == "SIGTERM" else b""))
        process.stdin.flush()
        if how == "SIGTERM":
            assert arrived.wait(SECONDS)
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
            assert arrived.wait(SECONDS)
        ended.set()
        assert process.wait(SECONDS) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.read()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert process.stderr.read() == b""
    assert server.seen[0].headers["Authorization"] == f"Bearer {KEY}"


def test_a_second_signal_ends_it_at_once(server: Scripted) -> None:
    arrived, ended = threading.Event(), threading.Event()

    def script(message: dict[str, Any]) -> Answer:
        arrived.set()
        assert ended.wait(SECONDS)
        return Answer(None)

    server.script = script
    with started(server.url, STRATA_KEY=KEY) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(request(1, "ping")).encode() + b"\n")
        process.stdin.flush()
        assert arrived.wait(SECONDS)
        # Two that come together are one: the second is sent until it ends the process.
        for _ in range(SECONDS * 20):
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                break
        ended.set()
        assert process.wait(SECONDS) == -signal.SIGTERM


def test_a_long_line_does_not_hold_up_the_next_one(server: Scripted) -> None:
    with started(server.url, STRATA_KEY=KEY) as process:
        lines = b"\n".join((b"[" * (24 * 2**20), json.dumps(request(1, "ping")).encode()))
        written, told = process.communicate(lines, timeout=SECONDS)

    assert [answer["id"] for answer in map(json.loads, written.splitlines())] == [None, 1]
    assert told == b"strata: The line is longer than the 5,242,880 bytes that the server takes.\n"


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        ([], {}, "there is no memory key: set STRATA_KEY or give --key-file"),
        ([], {"STRATA_KEY": "sk-provider"}, "STRATA_KEY"),
        (["--key-file", "no-such-file"], {"STRATA_KEY": KEY}, "no-such-file"),
        (["--url", "ftp://host"], {"STRATA_KEY": KEY}, "an address such as http://127.0.0.1:8787"),
    ],
)
def test_it_says_why_it_cannot_start(arguments: list[str], environment: dict[str, str], says: str) -> None:
    with started("http://127.0.0.1:9", *arguments, **environment) as process:
        written, told = process.communicate(timeout=SECONDS)

    assert (process.returncode, written) == (2, b"")
    assert says in told.decode()
    assert "sk-provider" not in told.decode()
