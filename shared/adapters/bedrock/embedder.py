"""A Bedrock model behind the embedder port. Nothing is opened before the first text is embedded."""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnection

from shared.adapters.bedrock.models import BedrockModel, model_named
from shared.domain.errors import Unavailable
from shared.domain.retry import Again, Patience, asked_wait
from shared.ports.embedder import SENTENCE_MODEL
from shared.retrieval.remote import Floats, batches, shortened, side_by_side, unit_vectors

# A search must still answer by its words in good time when the model does not.
QUERY_S = 3.0
QUERY_TIMEOUT_S = 2.0
DOCUMENTS_S = 20.0
DOCUMENTS_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 2.0
CALLS_AT_ONCE = 8
CALL_BYTES = 100_000
RETRY_AFTER_S = 5
# Beside every 5xx: the model ran out of time, failed inside, or is throttled or not loaded yet.
PASSING_STATUS = (408, 424, 429)


class RuntimeClient(Protocol):
    """What is used of botocore's ``bedrock-runtime`` client, which threads may share."""

    def invoke_model(self, **request: str) -> Mapping[str, Any]: ...


Connect = Callable[[float], RuntimeClient]
"""A client whose reads time out after so many seconds and that never retries by itself."""


class BedrockEmbedder:
    """`model_id` overrides the model's own, for an inference profile of the same model."""

    def __init__(
        self, model: BedrockModel, connect: Connect, model_id: str | None = None, patience: Patience | None = None
    ) -> None:
        self.name = model.name
        self.dimension = model.dimension
        self.noise = model.noise
        self.nearness = SENTENCE_MODEL
        self._model = model
        self._model_id = model_id or model.model_id
        self._connect = connect
        self._patience = patience or Patience(time.monotonic, time.sleep, random.random)
        self._lock = threading.Lock()
        self._clients: dict[float, RuntimeClient] = {}

    def ready(self) -> bool:
        return True

    def load(self) -> None:
        return None

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        cut = [shortened(text, self._model.text_bytes) for text in texts]
        return side_by_side(
            lambda part: self._vectors(part, query=False),
            list(batches(cut, self._model.texts, CALL_BYTES)),
            self.dimension,
            CALLS_AT_ONCE,
        )

    def embed_query(self, text: str) -> Floats:
        vector: Floats = self._vectors([shortened(text, self._model.text_bytes)], query=True)[0]
        return vector

    def _vectors(self, texts: list[str], query: bool) -> Floats:
        until = self._patience.clock() + (QUERY_S if query else DOCUMENTS_S)
        body = json.dumps(self._model.request(texts, query, self.dimension))
        try:
            client = self._client(QUERY_TIMEOUT_S if query else DOCUMENTS_TIMEOUT_S)
            answer = self._patience.insist(lambda _left: self._invoke(client, body), until)
            return unit_vectors(self._model.rows(answer), len(texts), self.dimension)
        except Again as again:
            raise _unavailable(f"did not answer in time ({again.reason})", again.asked_s) from again
        except ValueError as problem:
            raise _unavailable(f"gave an answer that cannot be used: {problem}") from problem
        except BotoCoreError as error:
            # Credentials or region, mostly: nothing that another try mends.
            raise _unavailable(f"cannot be called ({type(error).__name__})") from error

    def _client(self, timeout_s: float) -> RuntimeClient:
        with self._lock:
            if timeout_s not in self._clients:
                self._clients[timeout_s] = self._connect(timeout_s)
            return self._clients[timeout_s]

    def _invoke(self, client: RuntimeClient, body: str) -> Mapping[str, object]:
        try:
            response = client.invoke_model(
                modelId=self._model_id, body=body, contentType="application/json", accept="application/json"
            )
            content = response["body"].read()
        except ClientError as error:
            raise _of_service(error) from error
        except (HTTPClientError, NoConnection) as error:
            raise Again(type(error).__name__) from error
        answer = json.loads(content)
        if not isinstance(answer, dict):
            raise ValueError("no JSON object")
        return answer


def _of_service(error: ClientError) -> Again | Unavailable:
    code = str(error.response.get("Error", {}).get("Code", "unknown"))
    metadata = error.response.get("ResponseMetadata", {})
    status = metadata.get("HTTPStatusCode", 0)
    if status in PASSING_STATUS or status >= 500:
        headers = {name.lower(): value for name, value in metadata.get("HTTPHeaders", {}).items()}
        return Again(code, asked_wait(headers.get("retry-after")))
    # The service's own sentence is left out: it may quote the text.
    return _unavailable(f"refused the request ({code})")


def _unavailable(problem: str, asked_s: float | None = None) -> Unavailable:
    return Unavailable(
        f"The embedding model on Bedrock {problem}.",
        code="embedding_unavailable",
        hint="Try again later. If it stays, the operator should look at the model's access, region and quotas.",
        retry_after=max(1, math.ceil(asked_s)) if asked_s is not None else RETRY_AFTER_S,
    )


def bedrock_embedder(name: str, region: str | None = None, model_id: str | None = None) -> BedrockEmbedder:
    """The model of a public name, in `region` or the process's own. Raises `InvalidRequest` for an unknown name."""

    def connect(read_timeout_s: float) -> RuntimeClient:
        # Imported here: a process that never embeds does not pay for it.
        from botocore.config import Config
        from botocore.session import get_session

        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=read_timeout_s,
            retries={"total_max_attempts": 1},
            max_pool_connections=CALLS_AT_ONCE,
        )
        client: RuntimeClient = get_session().create_client("bedrock-runtime", region_name=region, config=config)
        return client

    return BedrockEmbedder(model_named(name), connect, model_id)
