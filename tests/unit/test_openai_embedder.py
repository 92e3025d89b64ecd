"""An OpenAI-compatible endpoint's faults: what is tried again, how often and how long, and what is said in the end."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import urllib3
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProtocolError, ReadTimeoutError, SSLError

from shared.adapters.openai_embeddings.embedder import OpenAiEmbedder, openai_embedder
from shared.adapters.openai_embeddings.endpoint import Endpoint
from shared.domain.errors import Unavailable
from tests.contract.embedding_rigs import VirtualTime

KEY = "sk-secret"
TEXT = "the words of the text"
ENDPOINT = Endpoint("https://models.example.com/v1/", "some-model", 2, 0.3, KEY)

Script = Callable[[dict[str, Any]], urllib3.BaseHTTPResponse | Exception]


def response(status: int, body: object, **headers: str) -> urllib3.BaseHTTPResponse:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return urllib3.HTTPResponse(io.BytesIO(content), status=status, headers=named, preload_content=False)


def vectors_of(body: dict[str, Any]) -> urllib3.BaseHTTPResponse:
    rows = [{"index": index, "embedding": [len(text), 1]} for index, text in enumerate(body["input"])]
    return response(200, {"data": rows})


class Pool:
    """Answers from a list, the last one for ever, and opens no connection."""

    def __init__(self, *script: Script) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []

    def request(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse:
        body = json.loads(options.pop("body"))
        self.requests.append({"method": method, "url": url, **options, "body": body})
        answer = (self.script.pop(0) if len(self.script) > 1 else self.script[0])(body)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def clear(self) -> None:
        self.requests.clear()


def embedder(pool: Pool, time: VirtualTime | None = None, endpoint: Endpoint = ENDPOINT) -> OpenAiEmbedder:
    return OpenAiEmbedder(endpoint, pool, (time or VirtualTime()).patience)


def status(code: int, body: object = None, **headers: str) -> Script:
    return lambda _body: response(code, {"error": {"message": f"{TEXT} {KEY}"}} if body is None else body, **headers)


def fault(error: Callable[[Any], Exception]) -> Script:
    return lambda _body: error(urllib3.HTTPSConnectionPool("models.example.com"))


PASSING: dict[str, Script] = {
    **{f"status {code}": status(code) for code in (408, 425, 429, 500, 502, 503, 504)},
    "ReadTimeoutError": fault(lambda pool: ReadTimeoutError(pool, "/v1", "late")),
    "ConnectTimeoutError": fault(lambda _pool: ConnectTimeoutError("late")),
    "ProtocolError": fault(lambda _pool: ProtocolError("closed")),
    "NewConnectionError": fault(lambda pool: NewConnectionError(pool, "refused")),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_fault_is_tried_again(name: str) -> None:
    pool, time = Pool(PASSING[name], PASSING[name], vectors_of), VirtualTime()
    vectors = embedder(pool, time).embed_documents(["abc"])
    assert vectors.tolist() == pytest.approx(np.array([[3, 1]]) / 10**0.5)
    assert time.slept == [0.2, 0.4]
    assert [request["body"] for request in pool.requests] == [pool.requests[0]["body"]] * 3


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_stays_ends_in_unavailable(name: str) -> None:
    pool, time = Pool(PASSING[name]), VirtualTime()
    with pytest.raises(Unavailable) as caught:
        embedder(pool, time).embed_documents([TEXT])
    assert (caught.value.code, caught.value.retry_after) == ("embedding_unavailable", 5)
    assert name in caught.value.message
    assert len(pool.requests) == 6
    assert sum(time.slept) == pytest.approx(6.2)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(401, {"error": {"message": f"wrong key {KEY}", "code": "invalid_api_key"}}), "401 (invalid_api_key)"),
        (status(400, {"error": {"message": TEXT, "code": None, "type": "bad.request"}}), "400 (bad.request)"),
        (status(400, {"error": {"code": f"{TEXT} {KEY}"}}), "status 400."),
        (status(404, {"error": TEXT}), "status 404."),
        (status(404, [TEXT]), "status 404."),
        (status(413, b"<html>"), "status 413."),
        (status(422, {"detail": TEXT}), "status 422."),
        (status(301, b"", Location="https://elsewhere.example.com"), "status 301."),
        (status(204, b""), "status 204."),
        (fault(lambda _pool: SSLError(f"{TEXT} {KEY}")), "SSLError"),
    ],
)
def test_a_lasting_fault_is_said_once_and_quotes_nothing(answer: Script, said: str) -> None:
    pool, time = Pool(answer), VirtualTime()
    with pytest.raises(Unavailable) as caught:
        embedder(pool, time).embed_documents([TEXT])
    assert (caught.value.code, caught.value.retry_after) == ("embedding_unavailable", 5)
    assert said in caught.value.message
    for secret in (TEXT, KEY, "example.com"):
        assert secret not in f"{caught.value.message} {caught.value.hint}"
    assert (len(pool.requests), time.slept) == (1, [])


def test_the_endpoint_says_when_to_come_back() -> None:
    pool, time = Pool(status(429, Retry_After="2"), vectors_of), VirtualTime()
    embedder(pool, time).embed_documents(["abc"])
    assert time.slept == [2.0]
    with pytest.raises(Unavailable) as caught:
        embedder(Pool(status(503, Retry_After="30")), time).embed_documents(["abc"])
    assert caught.value.retry_after == 30
    assert time.slept == [2.0]


def test_a_query_gives_up_sooner_than_documents() -> None:
    pool, time = Pool(status(503)), VirtualTime()
    with pytest.raises(Unavailable):
        embedder(pool, time).embed_query(TEXT)
    assert time.slept == pytest.approx([0.2, 0.4, 0.8])
    assert [request["timeout"].read_timeout for request in pool.requests] == pytest.approx([3.0, 2.8, 2.4, 1.6])


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "Expecting value"),
        (b"{\xff}", "decode"),
        ([], "no list of vectors"),
        ({"data": None}, "no list of vectors"),
        ({"data": [[1, 2], [3, 4]]}, "no list of vectors"),
        ({"data": [{"index": 0, "embedding": [1, 2]}]}, "1 vectors for 2 texts"),
        ({"data": [{"index": index, "embedding": [1, 2]} for index in range(3)]}, "3 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1, 2]}] * 2}, "without an index each"),
        ({"data": [{"index": index, "embedding": [1, 2]} for index in (1, 2)]}, "without an index each"),
        ({"data": [{"index": index, "embedding": [1, 2]} for index in ("0", "1")]}, "without an index each"),
        ({"data": [{"index": [0], "embedding": [1, 2]}] * 2}, "without an index each"),
        ({"data": [{"index": index, "embedding": [1, 2, 3]} for index in (0, 1)]}, "3 numbers in place of 2"),
        ({"data": [{"index": index, "embedding": "AACAPwAAAEA="} for index in (0, 1)]}, "no list of numbers"),
        ({"data": [{"index": index} for index in (0, 1)]}, "no list of numbers"),
        ({"data": [{"index": index, "embedding": [0, 0]} for index in (0, 1)]}, "without a direction"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(answer: object, problem: str) -> None:
    pool = Pool(status(200, answer))
    with pytest.raises(Unavailable) as caught:
        embedder(pool).embed_documents(["one", "two"])
    assert problem in caught.value.message
    assert (caught.value.code, len(pool.requests)) == ("embedding_unavailable", 1)


def test_vectors_out_of_order_are_put_in_order() -> None:
    rows = [{"index": 2, "embedding": [0, 3]}, {"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [0, -1]}]
    vectors = embedder(Pool(status(200, {"data": rows}))).embed_documents(["a", "b", "c"])
    assert vectors.tolist() == [[1, 0], [0, -1], [0, 1]]


def test_a_request_is_what_such_endpoints_take() -> None:
    pool = Pool(vectors_of)
    embedder(pool).embed_documents(["é", "two"])
    (sent,) = pool.requests
    assert (sent["method"], sent["url"]) == ("POST", "https://models.example.com/v1/embeddings")
    assert sent["headers"]["Authorization"] == f"Bearer {KEY}"
    assert sent["headers"]["Content-Type"] == "application/json"
    assert (sent["retries"], sent["redirect"]) == (False, False)
    assert sent["body"] == {"model": "some-model", "input": ["é", "two"], "encoding_format": "float"}


def test_the_key_and_the_dimension_are_sent_when_they_are_set() -> None:
    pool = Pool(vectors_of)
    endpoint = Endpoint("http://localhost:1", "some-model", 2, 0.3, shorten=True)
    embedder(pool, endpoint=endpoint).embed_query("words")
    assert "Authorization" not in pool.requests[0]["headers"]
    assert pool.requests[0]["body"]["dimensions"] == 2


def test_batches_are_small_and_texts_are_cut() -> None:
    pool = Pool(vectors_of)
    embedder(pool).embed_documents(["x" * 5000] * 150)
    inputs = [request["body"]["input"] for request in pool.requests]
    assert sorted(map(len, inputs)) == [6, 48, 48, 48]
    assert {len(text) for texts in inputs for text in texts} == {2048}
    pool.clear()
    embedder(pool).embed_documents(["short"] * 150)
    assert sorted(len(request["body"]["input"]) for request in pool.requests) == [22, 64, 64]


@pytest.mark.parametrize(
    ("model", "dimension", "name"),
    [
        ("text-embedding-3-small", 1536, "text-embedding-3-small-1536"),
        ("BAAI/bge-m3", 1024, "baai-bge-m3-1024"),
        ("hashed-64", 64, "hashed-64"),
        ("nomic-embed-text:v1.5", 768, "nomic-embed-text-v1.5-768"),
        ("模型", 8, "model-8"),
    ],
)
def test_the_name_carries_model_and_dimension(model: str, dimension: int, name: str) -> None:
    made = openai_embedder(Endpoint("http://localhost:1", model, dimension, 0.3))
    assert (made.name, made.dimension, made.ready()) == (name, dimension, True)
    made.close()


def test_the_key_is_not_shown() -> None:
    assert KEY not in repr(ENDPOINT)
