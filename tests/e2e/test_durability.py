"""An acknowledged write is on the disk: its log was synced before the first byte of the answer was sent."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.adapters.sqlite.directory import SqliteDirectory
from shared.adapters.sqlite.files import VaultFiles
from shared.domain.memory import VaultRef
from shared.ports.directory import KeyRecord
from tests.e2e.server import Server

STRACE = shutil.which("strace")
CALLS = "fsync,fdatasync,pwrite64,write,sendto,sendmsg,writev"
VAULT_LOG = re.compile(r"<[^>]*/vaults/[^>]*\.sqlite3-wal>")
ANSWER = re.compile(r'"HTTP/1\.1 2\d\d ')
FULL = 2


@dataclass
class Trace:
    """What the server's threads did to vault logs between two answers: (writes, finished syncs that followed one).

    The search index is derived, so its own writes, which come after those of the rows, need no sync.
    """

    answers: list[tuple[int, int]] = field(default_factory=list)
    writes: int = 0
    syncs: int = 0

    def read(self, lines: list[str]) -> None:
        waiting: dict[str, str] = {}
        for line in lines:
            thread, _, call = line.partition(" ")
            call = call.lstrip()
            if call.startswith("<..."):
                started = waiting.pop(thread, "")
                if "sync" in started and VAULT_LOG.search(started):
                    self._synced(call)
                continue
            finished = "<unfinished" not in call
            if not finished:
                waiting[thread] = call
            if call.startswith(("pwrite64", "write")) and VAULT_LOG.search(call):
                self.writes += 1
            elif call.startswith(("fsync", "fdatasync")) and VAULT_LOG.search(call):
                if finished:
                    self._synced(call)
            elif ANSWER.search(call):
                self.answers.append((self.writes, self.syncs))
                self.writes = self.syncs = 0

    def _synced(self, call: str) -> None:
        self.syncs += bool(self.writes) and call.rstrip().endswith("= 0")


@contextmanager
def traced(server: Server, output: Path) -> Iterator[None]:
    assert STRACE is not None
    with subprocess.Popen(
        [STRACE, "-f", "-y", "-s", "32", "-e", f"trace={CALLS}", "-o", str(output), "-p", str(server.pid)],
        stderr=subprocess.PIPE,
    ) as tracer:
        assert tracer.stderr is not None
        assert b"attached" in tracer.stderr.readline()
        time.sleep(0.5)
        try:
            yield
        finally:
            tracer.terminate()
            tracer.wait(10)


def requests(client: httpx.Client) -> Iterator[httpx.Response]:
    """Every kind of write that is acknowledged, one after the other."""

    def post(path: str, body: Any) -> httpx.Response:
        return client.post(f"/v1/memory/{path}", json=body)

    messages = {"messages": [{"role": "user", "content": f"row {number}"} for number in range(3)]}
    for _ in range(2):
        yield post("ingest", messages)
    stored = post("ingest", messages)
    yield stored
    leased = post("consolidate/checkout", {"tier": 1})
    yield leased
    name = leased.json()["batch_id"]
    yield post("consolidate/renew", {"batch_id": name})
    yield post("consolidate/commit", {"batch_id": name, "entries": [{"text": "insight", "importance": 5}]})
    yield post("consolidate/reopen", {"batch_id": name})
    again = post("consolidate/checkout", {"tier": 1})
    yield again
    yield post("consolidate/release", {"batch_id": again.json()["batch_id"]})
    yield post("delete-ids", {"ids": stored.json()["ids"]})
    yield client.post("/v1/memory/upload", content='{"content":"a line"}\n', headers={"Content-Type": "text/plain"})


def check_every_answer_waited_for_the_disk(folder: Path) -> None:
    output = folder / "strace"
    with Server(folder, {"STRATA_EMBEDDER": "hashed-64"}) as server:
        with httpx.Client(base_url=server.url, headers={"X-Memory-Key": "mk_durable"}, timeout=60) as client:
            assert client.post("/v1/memory/ingest", json={"messages": []}).status_code in (202, 400)
            with traced(server, output):
                answers = [answer.status_code for answer in requests(client)]
        trace = Trace()
        trace.read(output.read_text(errors="replace").splitlines())
    assert set(answers) <= {200, 202}
    assert len(trace.answers) == len(answers)
    for number, (writes, syncs) in enumerate(trace.answers):
        assert writes, f"answer {number} was sent though nothing was written"
        assert syncs, f"answer {number} was sent before its log was synced"


# The operating system's own word, where its tracer is installed. Everywhere else the settings below must do.
CHECKS: list[Callable[[Path], None]] = [check_every_answer_waited_for_the_disk] if STRACE else []


def check_the_settings_of_a_vault_file(folder: Path) -> None:
    directory = SqliteDirectory(folder)
    files = VaultFiles(folder, directory)
    directory.add(KeyRecord("k", "0" * 64, "v", "", frozenset(), 0))
    for database in (files.database(VaultRef("v", directory.vault("v").epoch)), directory.database):
        with database.write() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    files.close()
    directory.database.close()


@pytest.mark.parametrize("check", [check_the_settings_of_a_vault_file, *CHECKS])
def test_an_acknowledged_write_is_on_the_disk(check: Callable[[Path], None], tmp_path: Path) -> None:
    check(tmp_path)
