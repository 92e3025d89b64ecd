"""Every embedder under test, and a Bedrock that keeps the service's documented rules without a network."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from botocore.exceptions import ClientError

from infra.local.embedding_server import EmbeddingServer
from shared.adapters.bedrock.embedder import BedrockEmbedder
from shared.adapters.bedrock.models import MODELS
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from shared.adapters.local_embedder.static import StaticEmbedder
from shared.adapters.openai_embeddings.embedder import OpenAiEmbedder
from shared.adapters.openai_embeddings.endpoint import Endpoint
from shared.domain.retry import Patience
from shared.ports.embedder import Embedder

LOCAL: dict[str, Callable[[], Embedder]] = {
    "minilm-l6-v2": MiniLmEmbedder,
    "wordllama-256": StaticEmbedder,
    "hashed-64": HashingEmbedder,
}
HASHES = HashingEmbedder()
TITAN_SIZES = (256, 512, 1024)
COHERE_V4_SIZES = (256, 512, 1024, 1536)


class VirtualTime:
    """A clock that only sleeping moves; `slept` lists every wait. `draw` is constant, so waits can be computed."""

    def __init__(self, draw: float = 0.0) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._lock = threading.Lock()
        self.patience = Patience(lambda: self.now, self._sleep, lambda: draw)

    def _sleep(self, seconds: float) -> None:
        with self._lock:
            self.now += seconds
            self.slept.append(seconds)


def service_error(code: str, status: int, headers: Mapping[str, str] | None = None) -> ClientError:
    """As boto3 raises it for an answer of the service."""
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": dict(headers or {})}
    error = {"Code": code, "Message": "the words of the text"}
    return ClientError({"Error": error, "ResponseMetadata": metadata}, "InvokeModel")


class FakeBedrock:
    """Refuses what the service refuses. Vectors are hashes at another length than one; queries lean to one side."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.failures: list[Exception] = []
        self.answer: Callable[[dict[str, Any]], bytes] | None = None
        self._lock = threading.Lock()

    def invoke_model(self, **request: str) -> Mapping[str, Any]:
        assert request["contentType"] == request["accept"] == "application/json"
        body = json.loads(request["body"])
        with self._lock:
            self.calls.append({"modelId": request["modelId"], **body})
            if self.failures:
                raise self.failures.pop(0)
        if self.answer is not None:
            return {"body": io.BytesIO(self.answer(body))}
        answers = {
            "amazon.titan-embed-text-v2:0": self._titan,
            "cohere.embed-multilingual-v3": self._cohere_v3,
            "cohere.embed-v4:0": self._cohere_v4,
        }
        return {"body": io.BytesIO(json.dumps(answers[request["modelId"]](body)).encode())}

    def _titan(self, body: dict[str, Any]) -> dict[str, object]:
        text = body["inputText"]
        _insist(set(body) <= {"inputText", "dimensions", "normalize", "embeddingTypes"})
        _insist(1 <= len(text) <= 50_000 and len(text.encode()) <= 8192 and bool(text.strip()))
        _insist(body["dimensions"] in TITAN_SIZES)
        (row,) = _hashes([text], body["dimensions"], False)
        return {"embedding": row, "inputTextTokenCount": len(text.split()), "embeddingsByType": {"float": row}}

    def _cohere_v3(self, body: dict[str, Any]) -> dict[str, object]:
        _insist(set(body) <= {"texts", "input_type", "truncate", "embedding_types"})
        _insist(body.get("truncate", "NONE") in ("NONE", "START", "END"))
        _insist(all(len(text) <= 2048 for text in body["texts"]))
        rows = self._cohere_rows(body, 1024)
        return {"id": "1", "response_type": "embeddings_floats", "texts": body["texts"], "embeddings": rows}

    def _cohere_v4(self, body: dict[str, Any]) -> dict[str, object]:
        _insist(set(body) <= {"texts", "input_type", "truncate", "embedding_types", "output_dimension", "max_tokens"})
        _insist(body.get("truncate", "NONE") in ("NONE", "LEFT", "RIGHT"))
        _insist(body["output_dimension"] in COHERE_V4_SIZES)
        _insist(sum(len(text.encode()) for text in body["texts"]) <= 128_000)
        rows = {kind: self._cohere_rows(body, body["output_dimension"]) for kind in body["embedding_types"]}
        return {"id": "1", "response_type": "embeddings_by_type", "texts": body["texts"], "embeddings": rows}

    def _cohere_rows(self, body: dict[str, Any], dimension: int) -> list[list[float]]:
        _insist(1 <= len(body["texts"]) <= 96 and all(text.strip() for text in body["texts"]))
        _insist(body["input_type"] in ("search_document", "search_query"))
        return _hashes(body["texts"], dimension, body["input_type"] == "search_query")


def _insist(condition: bool) -> None:
    if not condition:
        raise service_error("ValidationException", 400)


def _hashes(texts: list[str], dimension: int, query: bool) -> list[list[float]]:
    vectors = np.tile(HASHES.embed_documents(texts), dimension // HASHES.dimension) * 3
    if query:
        vectors[:, 0] += 1
    rows: list[list[float]] = vectors.tolist()
    return rows


def bedrock(name: str, service: FakeBedrock | None = None, time: VirtualTime | None = None) -> BedrockEmbedder:
    client = service or FakeBedrock()
    return BedrockEmbedder(MODELS[name], lambda _timeout: client, patience=(time or VirtualTime()).patience)


@contextmanager
def served(embedder: Embedder) -> Iterator[EmbeddingServer]:
    with EmbeddingServer(embedder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@cache
def local(name: str) -> Embedder:
    """One of each for all tests: some take a while to load."""
    return LOCAL[name]()


@contextmanager
def rigged(name: str) -> Iterator[Embedder]:
    """The embedder of a rig's name; ``openai`` is served over HTTP from this process."""
    if name == "openai":
        with served(HASHES) as server:
            embedder = OpenAiEmbedder(Endpoint(server.url, HASHES.name, HASHES.dimension, HASHES.noise))
            yield embedder
            embedder.close()
    elif name in MODELS:
        yield bedrock(name)
    else:
        yield local(name)
