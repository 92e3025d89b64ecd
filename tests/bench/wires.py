"""The functions' own clients, whole, with what is behind their last line of code left out.

Requests are built, compressed, signed and parsed as they are when deployed. A stand-in answers where they would leave
the process, and the time that it takes counts as `Others`'.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import process_time
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.credentials import Credentials
from urllib3 import HTTPHeaderDict

from shared.adapters.bedrock.embedder import BedrockEmbedder
from shared.adapters.bedrock.models import model_named
from shared.adapters.opensearch.transport import Json, Transport
from shared.ports.embedder import SENTENCE_MODEL, Vectors
from shared.settings import BEDROCK_MODELS
from tests.bench.deployed import CountingEmbedder
from tests.bench.search_stand_in import SearchStandIn
from tests.dynamodb.table import MemoryTable
from tests.emulator.ministack import session
from tests.faults.local import LocalService, local_client

DIGITS = 8


class Others:
    """Processor seconds spent in what stands in for other services."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wrapped(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            start = process_time()
            answer = work(*args, **more)
            self.seconds += process_time() - start
            return answer

        return timed


class TimedService(LocalService):
    def __init__(self, table: MemoryTable, others: Others) -> None:
        super().__init__(table)
        self._timed = others.wrapped(super().send)

    def send(self, prepared: AWSPreparedRequest) -> AWSResponse:
        answer: AWSResponse = self._timed(prepared)
        return answer


def table_client(memory: MemoryTable, others: Others) -> Any:
    made = local_client(memory)
    made._endpoint.http_session = TimedService(memory, others)
    return made


class Body(io.BytesIO):
    """What botocore reads of an answer."""

    def stream(self, **more: object) -> Iterator[bytes]:
        yield self.read()


class TimedEmbedder(CountingEmbedder):
    """The default model, which gives every text the same vector."""

    def __init__(self, others: Others) -> None:
        super().__init__()
        model = model_named(BEDROCK_MODELS[0])
        vector = np.random.default_rng(1).standard_normal(model.dimension)
        answer = {"embedding": np.round(vector / np.linalg.norm(vector), DIGITS).tolist(), "inputTextTokenCount": 100}
        content = json.dumps(answer).encode()
        client = session().client("bedrock-runtime")

        def answered(request: AWSPreparedRequest, **more: object) -> AWSResponse:
            return AWSResponse(request.url, 200, {"Content-Type": "application/json"}, Body(content))

        client.meta.events.register("before-send", others.wrapped(answered))
        self._asking = BedrockEmbedder(model, lambda timeout_s: client)
        self.dimension, self.noise, self.nearness = model.dimension, model.noise, SENTENCE_MODEL

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._asking.embed_documents(texts)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return self._asking.embed_query(text)


class Response:
    """What the search client reads of an answer: compressed, as a domain sends it."""

    status = 200

    def __init__(self, body: Json) -> None:
        self._sent = gzip.compress(json.dumps(body, separators=(",", ":")).encode(), 1)
        self.headers = HTTPHeaderDict({"content-type": "application/json; charset=UTF-8"})

    @property
    def data(self) -> bytes:
        return gzip.decompress(self._sent)


class Pool:
    """Stands in for the connections to a domain."""

    def __init__(self, store: SearchStandIn, others: Others) -> None:
        self._store = store
        self._timed = others.wrapped(self._respond)

    def urlopen(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], **more: object
    ) -> Response:
        assert "Authorization" in headers
        answer: Response = self._timed(method, url, body)
        return answer

    def close(self) -> None:
        pass

    def _respond(self, method: str, url: str, body: bytes | None) -> Response:
        parts = urlsplit(url)
        index, _, kind = unquote(parts.path).strip("/").rpartition("/")
        sent = b"" if body is None else gzip.decompress(body)
        return Response(getattr(self, kind)(index, method, parts.path, parts.query, sent))

    def _mapping(self, index: str, method: str, path: str, query: str, sent: bytes) -> Json:
        return self._store.request(method, path)

    _alias = _mapping

    def _refresh(self, index: str, method: str, path: str, query: str, sent: bytes) -> Json:
        self._store.refresh(index)
        return {}

    def _search(self, index: str, method: str, path: str, query: str, sent: bytes) -> Json:
        found = self._store.search(index, None, json.loads(sent), "include_named_queries_score" in query)
        hits = found["hits"]
        hits["hits"] = [{"_index": f"{index}-000001", "_score": 0.5, **hit} for hit in hits.get("hits", ())]
        return {"took": 40, "timed_out": False, "_shards": {"total": 1, "successful": 1, "failed": 0}, **found}

    def _mget(self, index: str, method: str, path: str, query: str, sent: bytes) -> Json:
        asked = json.loads(sent)["docs"]
        held = {
            each["_id"]: each["_source"] for each in self._store.mget(index, "", [each["_id"] for each in asked], [])
        }
        return {
            "docs": [
                {
                    "_index": index, "_id": each["_id"], "found": each["_id"] in held,
                    "_source": {
                        name: value for name, value in held.get(each["_id"], {}).items() if name in each["_source"]
                    },
                }
                for each in asked
            ]
        }  # fmt: skip

    def _bulk(self, index: str, method: str, path: str, query: str, sent: bytes) -> Json:
        lines = iter(sent.decode().splitlines())
        pairs = [(action, None if "delete" in action else next(lines)) for action in map(json.loads, lines)]
        results = self._store.bulk(index, pairs, refresh=False)
        kinds = (next(iter(action)) for action, _ in pairs)
        return {"items": [{kind: {"_index": index, **each}} for kind, each in zip(kinds, results, strict=True)]}


def search_transport(store: SearchStandIn, others: Others) -> Transport:
    """As a domain is asked, over connections that lead to the stand-in."""
    made = Transport("https://search.invalid", Credentials("AKIAEXAMPLE", "secret", "token"), "us-east-1")
    for connection in made._client.transport.connection_pool.connections:
        connection.pool = Pool(store, others)
    return made
