"""Any endpoint that answers ``POST …/embeddings`` as OpenAI's does. Nothing is opened before the first text."""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import urllib3

from shared.adapters.openai_embeddings.endpoint import Endpoint
from shared.domain.errors import Unavailable
from shared.domain.retry import Again, Patience, asked_wait
from shared.ports.embedder import SENTENCE_MODEL
from shared.retrieval.remote import Floats, batches, shortened, side_by_side, unit_vectors

# A search must still answer by its words in good time when the model does not.
QUERY_S = 3.0
DOCUMENTS_S = 20.0
CALL_S = 10.0
CONNECT_TIMEOUT_S = 2.0
CALLS_AT_ONCE = 4
TEXTS = 64
CALL_BYTES = 100_000
# Small models behind such endpoints often take 512 tokens, and many refuse what is longer.
TEXT_BYTES = 2048
RETRY_AFTER_S = 5
PASSING_STATUS = (408, 409, 425, 429)
REFUSED_STATUS = 401
_WORD = re.compile(r"[\w.-]{1,64}", re.ASCII)


class Pool(Protocol):
    """What is used of urllib3's pool manager, which threads may share."""

    def request(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse: ...

    def clear(self) -> None: ...


class Token(Protocol):
    """A bearer token that may be replaced while the process runs. Threads share it."""

    def current(self) -> str:
        """Raises `Unavailable`."""
        ...

    def refused(self, token: str) -> bool:
        """Tell that `token` was refused; whether there is another one by now."""
        ...


class OpenAiEmbedder:
    """Makes no difference between documents and queries. A `token` stands in for the endpoint's key."""

    def __init__(
        self,
        endpoint: Endpoint,
        pool: Pool | None = None,
        patience: Patience | None = None,
        token: Token | None = None,
    ) -> None:
        self.name = endpoint.name
        self.dimension = endpoint.dimension
        self.noise = endpoint.noise
        self.nearness = SENTENCE_MODEL
        self._endpoint = endpoint
        self._token = token
        self._url = endpoint.url.rstrip("/") + "/embeddings"
        self._pool: Pool = pool or urllib3.PoolManager(maxsize=CALLS_AT_ONCE, block=False)
        self._patience = patience or Patience(time.monotonic, time.sleep, random.random)

    def ready(self) -> bool:
        return True

    def load(self) -> None:
        return None

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        cut = [shortened(text, TEXT_BYTES) for text in texts]
        parts = list(batches(cut, TEXTS, CALL_BYTES))
        return side_by_side(lambda part: self._vectors(part, DOCUMENTS_S), parts, self.dimension, CALLS_AT_ONCE)

    def embed_query(self, text: str) -> Floats:
        vector: Floats = self._vectors([shortened(text, TEXT_BYTES)], QUERY_S)[0]
        return vector

    def close(self) -> None:
        """Close the idle connections; the next text opens new ones."""
        self._pool.clear()

    def _vectors(self, texts: list[str], within_s: float) -> Floats:
        body: dict[str, object] = {"model": self._endpoint.model, "input": texts, "encoding_format": "float"}
        if self._endpoint.shorten:
            body["dimensions"] = self.dimension
        content = json.dumps(body).encode("ascii")
        until = self._patience.clock() + within_s
        try:
            answer = self._patience.insist(lambda left: self._post(content, left), until)
            return unit_vectors(_rows(json.loads(answer)), len(texts), self.dimension)
        except Again as again:
            raise _unavailable(f"did not answer in time ({again.reason})", again.asked_s) from again
        except urllib3.exceptions.HTTPError as error:
            raise _unavailable(f"cannot be called ({type(error).__name__})") from error
        except ValueError as problem:
            raise _unavailable(f"gave an answer that cannot be used: {problem}") from problem

    def _post(self, content: bytes, left_s: float) -> bytes:
        until = self._patience.clock() + left_s
        key = self._endpoint.key if self._token is None else self._token.current()
        response = self._answer(content, key, until)
        if response.status == REFUSED_STATUS and self._token is not None and key and self._token.refused(key):
            response = self._answer(content, self._token.current(), until)
        if response.status == 200:
            return response.data
        if response.status in PASSING_STATUS or response.status >= 500:
            raise Again(f"status {response.status}", asked_wait(response.headers.get("Retry-After")))
        raise _unavailable(f"refused the request with status {response.status}{_reason(response.data)}")

    def _answer(self, content: bytes, key: str | None, until: float) -> urllib3.BaseHTTPResponse:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        left_s = until - self._patience.clock()
        seconds = max(0.05, min(left_s, CALL_S))
        timeout = urllib3.Timeout(connect=min(seconds, CONNECT_TIMEOUT_S), read=seconds)
        try:
            return self._pool.request(
                "POST", self._url, body=content, headers=headers, timeout=timeout, retries=False, redirect=False
            )
        except (
            urllib3.exceptions.TimeoutError,
            urllib3.exceptions.ProtocolError,
            urllib3.exceptions.NewConnectionError,
        ) as error:
            # Only the kind: the error's own text names the address.
            raise Again(type(error).__name__) from error


def _rows(answer: object) -> object:
    """The vectors in the order of the texts, which an answer need not keep. Raises `ValueError`."""
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(data, list) or not all(isinstance(entry, Mapping) for entry in data):
        raise ValueError("no list of vectors")
    by_index = {entry.get("index"): entry.get("embedding") for entry in data if type(entry.get("index")) is int}
    if sorted(by_index) != list(range(len(data))):
        raise ValueError("vectors without an index each")
    return [by_index[index] for index in range(len(data))]


def _reason(content: bytes) -> str:
    """The endpoint's machine-readable code. Its sentence is left out: it may quote the text or the key."""
    try:
        error = json.loads(content)["error"]
        word = error.get("code") or error.get("type")
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    return f" ({word})" if isinstance(word, str) and _WORD.fullmatch(word) else ""


def _unavailable(problem: str, asked_s: float | None = None) -> Unavailable:
    return Unavailable(
        f"The embedding endpoint {problem}.",
        code="embedding_unavailable",
        hint="Try again later. If it stays, the operator should look at the endpoint's address, key and model.",
        retry_after=max(1, math.ceil(asked_s)) if asked_s is not None else RETRY_AFTER_S,
    )


def openai_embedder(endpoint: Endpoint, token: Token | None = None) -> OpenAiEmbedder:
    """The embedder of an endpoint, with connections of its own."""
    return OpenAiEmbedder(endpoint, token=token)
