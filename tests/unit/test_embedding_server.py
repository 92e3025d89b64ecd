"""Real sockets: the local embedding server, and what both remote embedders do when a connection misbehaves."""

from __future__ import annotations

import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import urllib3

from infra.local.embedding_server import MAX_BYTES, EmbeddingServer
from shared.adapters.bedrock.embedder import bedrock_embedder
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.openai_embeddings.embedder import OpenAiEmbedder
from shared.adapters.openai_embeddings.endpoint import Endpoint
from shared.domain.errors import Unavailable
from tests.contract.embedding_rigs import HASHES, VirtualTime, served

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.loopback


class Broken(HashingEmbedder):
    def embed_documents(self, texts: Any) -> Any:
        raise Unavailable("The model file is missing.", code="embedding_unavailable")


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with served(HASHES) as server:
        yield server


def post(url: str, body: object, path: str = "/embeddings") -> tuple[int, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with urllib3.PoolManager() as pool:
        response = pool.request("POST", url + path, body=content, retries=False)
        return response.status, response.json()


@pytest.mark.parametrize("text", ["red fox", ["red fox"]])
def test_a_text_or_a_list_is_embedded(server: EmbeddingServer, text: object) -> None:
    status, answer = post(server.url, {"model": "hashed-64", "input": text, "encoding_format": "float"})
    assert (status, answer["object"], answer["model"]) == (200, "list", "hashed-64")
    (row,) = answer["data"]
    assert (row["index"], row["object"]) == (0, "embedding")
    assert np.array_equal(np.array(row["embedding"], np.float32), HASHES.embed_query("red fox"))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_request"),
        (b"[]", 400, "invalid_request"),
        ({"model": "hashed-64"}, 400, "invalid_request"),
        ({"model": "hashed-64", "input": []}, 400, "invalid_request"),
        ({"model": "hashed-64", "input": ["a", ""]}, 400, "invalid_request"),
        ({"model": "hashed-64", "input": [1]}, 400, "invalid_request"),
        ({"model": "hashed-64", "input": "a", "dimensions": 32}, 400, "invalid_request"),
        ({"model": "other", "input": "a"}, 404, "model_not_found"),
    ],
)
def test_bad_requests_are_refused(server: EmbeddingServer, body: object, status: int, code: str) -> None:
    answered, answer = post(server.url, body)
    assert (answered, answer["error"]["code"]) == (status, code)


def test_other_paths_and_sizes_are_refused(server: EmbeddingServer) -> None:
    assert post(server.url, {}, "/chat")[0] == 404
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as client:
        client.sendall(f"POST /v1/embeddings HTTP/1.1\r\nContent-Length: {MAX_BYTES + 1}\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_missing_model_is_said_with_503() -> None:
    with served(Broken()) as server:
        status, answer = post(server.url, {"model": "hashed-64", "input": "a"})
    assert (status, answer["error"]["code"]) == (503, "embedding_unavailable")


def test_it_runs_until_it_is_told_to_stop() -> None:
    command = [sys.executable, "-m", "infra.local.embedding_server", "--model", "hashed-64", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"hashed-64 \(64\) at (http://127\.0\.0\.1:\d+/v1)\n", line)
            assert found, line
            assert post(found[1], {"model": "hashed-64", "input": "a"})[0] == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes] | None) -> Iterator[tuple[str, list[str]]]:
    """A server that gives one answer after another, the last one for ever; None is a connection closed in silence."""
    script, paths = list(answers), list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            answer = script.pop(0) if len(script) > 1 else script[0]
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer[0])
            for name, value in answer[1].items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer[2])

        def log_message(self, format: str, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}", paths
        finally:
            http.shutdown()
            thread.join()


@contextmanager
def endpoint(url: str, time: VirtualTime) -> Iterator[OpenAiEmbedder]:
    embedder = OpenAiEmbedder(Endpoint(url, "m", 2, 0.3), patience=time.patience)
    yield embedder
    embedder.close()


GOOD: tuple[int, dict[str, str], bytes] = (200, {}, b'{"data": [{"index": 0, "embedding": [0, 2]}]}')


def test_an_endpoint_is_asked_again_after_broken_connections() -> None:
    cut = (200, {"Content-Length": "1000"}, b'{"data": [')
    time = VirtualTime()
    with answering(None, cut, (503, {"Retry-After": "1"}, b""), GOOD) as (url, paths), endpoint(url, time) as embedder:
        assert embedder.embed_documents(["a"]).tolist() == [[0, 1]]
    assert paths == ["/embeddings"] * 4
    assert time.slept == [0.2, 0.4, 1.0]


def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with endpoint(address, VirtualTime()) as embedder, pytest.raises(Unavailable) as caught:
            embedder.embed_query("a")
    assert "NewConnectionError" in caught.value.message
    assert caught.value.retry_after == 5


def test_a_silent_endpoint_is_given_up() -> None:
    # Each look at the clock takes a second and a half, so that the call is left about as much.
    moments = itertools.count(start=0.0, step=1.45)
    patience = replace(VirtualTime().patience, clock=lambda: next(moments))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        embedder = OpenAiEmbedder(Endpoint(address, "m", 2, 0.3), patience=patience)
        with pytest.raises(Unavailable, match="ReadTimeoutError"):
            embedder.embed_query("a")
        embedder.close()


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", "none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


def test_bedrock_is_called_through_the_real_client(credentials: pytest.MonkeyPatch) -> None:
    busy = {"x-amzn-ErrorType": "ThrottlingException", "Retry-After": "0.05", "Content-Type": "application/json"}
    good = json.dumps({"embedding": [0.0] * 255 + [2.0], "inputTextTokenCount": 1}).encode()
    with answering((429, busy, b'{"message": "slow"}'), None, (200, {}, good)) as (url, paths):
        credentials.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", url)
        vector = bedrock_embedder("titan-embed-text-v2-256", "eu-central-1").embed_query("a")
    assert vector.tolist() == [0.0] * 255 + [1.0]
    assert paths == ["/model/amazon.titan-embed-text-v2%3A0/invoke"] * 3


def test_the_real_client_does_not_retry_by_itself(credentials: pytest.MonkeyPatch) -> None:
    busy = {"x-amzn-ErrorType": "ThrottlingException", "Retry-After": "60"}
    with answering((429, busy, b"{}")) as (url, paths):
        credentials.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", url)
        with pytest.raises(Unavailable, match="ThrottlingException") as caught:
            bedrock_embedder("titan-embed-text-v2-256", "eu-central-1").embed_documents(["a"])
    assert caught.value.retry_after == 60
    assert len(paths) == 1
