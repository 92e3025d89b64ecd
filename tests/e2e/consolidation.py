"""The `consolidate` command as a process, the vault it works on, and a line to the vault that loses answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from tests.e2e.server import ROOT

RUN_SECONDS = 120
MODEL_KEY = "token-of-the-model"


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    errors: str


class Vault:
    """One vault, seen from outside."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key
        self._client = httpx.Client(base_url=f"{url}/v1/memory", headers={"X-Memory-Key": key}, timeout=60)

    def post(self, path: str, body: object) -> dict[str, Any]:
        answer = self._client.post(path, json=body)
        assert answer.is_success, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def tell(self, *texts: str) -> list[str]:
        """Ids of new raw memories with these texts."""
        ids: list[str] = []
        for start in range(0, len(texts), 500):
            messages = [{"role": "user", "content": text} for text in texts[start : start + 500]]
            ids += self.post("ingest", {"messages": messages})["ids"]
        return ids

    def debt(self) -> dict[str, Any]:
        told: dict[str, Any] = self._client.get("stats").json()["reflection"]["unconsolidated"]
        return told

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = self._client.get("export", params={"limit": 5000} | ({"cursor": cursor} if cursor else {}))
            assert answer.is_success, answer.text
            rows += [json.loads(line) for line in answer.text.splitlines()]
            cursor = answer.headers.get("X-Next-Cursor")
        return rows

    def tiers(self) -> Counter[int]:
        return Counter(row["tier"] for row in self.rows())

    def free(self, tier: int = 1) -> int:
        """How many rows of a tier a checkout takes now; they are given back."""
        found = self.post("consolidate/checkout", {"tier": tier, "max_tokens": 200_000})
        if found["batch_id"] is not None:
            self.post("consolidate/release", {"batch_id": found["batch_id"]})
        return int(found["count"])

    def sources(self, memory_id: str) -> list[dict[str, Any]]:
        """All sources of a reflection, page by page."""
        page = self.post("inspect", {"memory_id": memory_id})
        found: list[dict[str, Any]] = page["sources"]
        while page["next_offset"] is not None:
            page = self.post("inspect", {"memory_id": memory_id, "offset": page["next_offset"]})
            found += page["sources"]
        assert len(found) == page["sources_total"]
        assert page["sources_deleted"] == 0
        return found

    def close(self) -> None:
        self._client.close()


class Consolidate:
    """``python -m infra.consolidate`` on one vault, with a state folder of its own."""

    def __init__(self, folder: Path, vault: Vault) -> None:
        self.log = folder / "consolidate.log"
        self._state = folder / "state"
        self._vault = vault

    def start(self, *options: str, url: str | None = None, key: str | None = None) -> subprocess.Popen[str]:
        environment = os.environ | {
            "XDG_STATE_HOME": str(self._state),
            "STRATA_KEY": key or self._vault.key,
            "STRATA_MODEL_KEY": MODEL_KEY,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "infra.consolidate", "--url", url or self._vault.url, *options],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str, url: str | None = None, key: str | None = None) -> Ended:
        return ended(self.start(*options, url=url, key=key))


def ended(process: subprocess.Popen[str]) -> Ended:
    with process:
        try:
            out, errors = process.communicate(timeout=RUN_SECONDS)
        finally:
            process.kill()
    assert "Traceback" not in errors, errors
    return Ended(process.returncode, out, errors)


class Line(ThreadingHTTPServer):
    """Passes requests on to a vault. `busy` paths are first refused with 503, of `lossy` ones the first answer is lost.

    `answered` is told of each path before its answer goes back; `passed` are those that reached the vault, in order.
    """

    daemon_threads = True

    def __init__(self, url: str, busy: Sequence[str] = (), lossy: Sequence[str] = ()) -> None:
        self.target = url
        self.busy = list(busy)
        self.lossy = list(lossy)
        self.passed: list[str] = []
        self.answered: Callable[[str], None] = lambda path: None
        super().__init__(("127.0.0.1", 0), _Forward)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Line:
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Forward(BaseHTTPRequestHandler):
    server: Line

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        line, path = self.server, self.path.removeprefix("/v1/memory/")
        content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if path in line.busy:
            line.busy.remove(path)
            self._send(503, b'{"error": "busy", "code": "busy"}', {"Retry-After": "1"})
            return
        headers = {name: self.headers[name] for name in ("X-Memory-Key", "Content-Type") if name in self.headers}
        answer = httpx.request(self.command, line.target + self.path, headers=headers, content=content, timeout=60)
        line.passed.append(path)
        line.answered(path)
        if path in line.lossy:
            line.lossy.remove(path)
            self.close_connection = True
            return
        self._send(answer.status_code, answer.content, {})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        return None
