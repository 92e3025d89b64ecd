"""What stands behind the bridge in its tests: a server that answers as each test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "mk_a-key-that-nobody-shows"
SECONDS = 20


@dataclass(frozen=True)
class Answer:
    """None as a status closes the connection without an answer."""

    status: int | None = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    headers: dict[str, str]
    body: bytes
    client: object


class Scripted(ThreadingHTTPServer):
    """Answers with `script`, by default with the id of the request and an empty result, and records what it saw."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: Callable[[dict[str, Any]], Answer] = lambda message: result(message["id"])
        self.seen: list[Seen] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/mcp"

    @contextmanager
    def listening(self) -> Iterator[Scripted]:
        with self:
            thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            yield self
            self.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Scripted

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(Seen(dict(self.headers), body, self.client_address))
        answer = self.server.script(json.loads(body))
        if answer.status is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def result(id_: object, **found: object) -> Answer:
    return Answer(body=json.dumps({"jsonrpc": "2.0", "id": id_, "result": found}).encode())


def request(id_: object, method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
