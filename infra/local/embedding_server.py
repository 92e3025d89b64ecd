"""A local model behind an OpenAI-compatible ``/v1/embeddings``, for the emulated deployment and for tests."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from shared import bootstrap
from shared.domain.errors import StrataError
from shared.ports.embedder import Embedder

PATH = "/v1/embeddings"
MAX_BYTES = 8 * 1024 * 1024
MAX_TEXTS = 2048


class EmbeddingServer(ThreadingHTTPServer):
    """Serves one model under its own name; port 0 takes a free one. Listens from its construction on."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, embedder: Embedder, host: str = "127.0.0.1", port: int = 0) -> None:
        self.embedder = embedder
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """The base that clients are given."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}{PATH.removesuffix('/embeddings')}"


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave in one packet each; waiting for the first one's receipt costs 40 ms an answer.
    disable_nagle_algorithm = True
    server: EmbeddingServer

    def do_POST(self) -> None:
        try:
            body = self._body()
            if self.path != PATH:
                raise _Refused(404, "not_found", f"Only {PATH} is served.")
            answer = self._embed(body)
        except _Refused as refused:
            self._send(refused.status, {"error": {"message": str(refused), "code": refused.code}})
        except StrataError as error:
            self._send(503, {"error": {"message": error.message, "code": error.code}})
        else:
            self._send(200, answer)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BYTES:
            self.close_connection = True
            raise _Refused(413, "too_large", f"A request has a Content-Length of at most {MAX_BYTES}.")
        return self.rfile.read(int(length))

    def _embed(self, body: bytes) -> dict[str, object]:
        embedder = self.server.embedder
        try:
            asked = json.loads(body)
            model, texts = asked["model"], asked["input"]
        except (ValueError, LookupError, TypeError):
            raise _Refused(400, "invalid_request", "Send a JSON object with model and input.") from None
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, list) or not 1 <= len(texts) <= MAX_TEXTS or not all(map(_is_text, texts)):
            raise _Refused(400, "invalid_request", f"input: a text or 1 to {MAX_TEXTS} texts, none of them empty.")
        if model != embedder.name:
            raise _Refused(404, "model_not_found", f"The only model is {embedder.name}.")
        if asked.get("dimensions", embedder.dimension) != embedder.dimension:
            raise _Refused(400, "invalid_request", f"The model's vectors have {embedder.dimension} dimensions.")
        rows = [
            {"object": "embedding", "index": index, "embedding": vector.tolist()}
            for index, vector in enumerate(embedder.embed_documents(texts))
        ]
        return {"object": "list", "model": model, "data": rows}

    def _send(self, status: int, answer: dict[str, object]) -> None:
        content = json.dumps(answer).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM. The line that names the address comes when the model is loaded."""
    models = bootstrap.local_embedders()
    parser = argparse.ArgumentParser(prog="embedding_server")
    parser.add_argument("--model", choices=sorted(models), default="minilm-l6-v2")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args(arguments)
    embedder = models[chosen.model]
    embedder.load()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with EmbeddingServer(embedder, chosen.host, chosen.port) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"{embedder.name} ({embedder.dimension}) at {server.url}", flush=True)
        stop.wait()
        server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
