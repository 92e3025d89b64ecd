"""The functions of a deployment in one process, each in its turn, with everything that they ask of AWS recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from functions.indexer.handler import handler as indexer
from infra.local import gateway
from shared import bootstrap
from shared.adapters.bedrock.embedder import BedrockEmbedder
from shared.adapters.bedrock.models import MODELS
from shared.adapters.openai_embeddings.embedder import OpenAiEmbedder
from shared.adapters.openai_embeddings.endpoint import Endpoint
from shared.adapters.opensearch.transport import Transport
from shared.adapters.secrets_manager import token as secret_token
from shared.adapters.secrets_manager.token import SecretToken
from shared.adapters.system.clock import RandomIds, SystemClock
from shared.bootstrap import upgrade
from shared.domain import keys
from shared.domain.memory import Memory, VaultRef
from shared.ports.directory import KeyRecord
from shared.ports.embedder import Embedder
from shared.settings import AWS, Settings
from tests.api.client import Answer, Client
from tests.dynamodb.rig import Rig
from tests.infra.recorder import Recorder
from tests.unit.test_openai_embedder import Pool, response

SECRET, QUEUE = "strata/token", "strata-dead-letters"
BEDROCK, BEHIND_ENDPOINT = "titan-embed-text-v2-256", "some-model-2"
LEASE_S = 900


class Clock(SystemClock):
    """The machine's, put forward."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@dataclass(frozen=True)
class World:
    """Where a deployment runs. `client` makes a client by a service's name; `queue` is an address."""

    client: Callable[[str], Any]
    streams: Any
    transport: Callable[[], Transport]
    table: str
    indexes: str
    queue: str


class Deployment:
    """As it is deployed: nothing follows the stream but `deliver`, which hands its records to the indexer."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recorder = Recorder()
        self.clock = Clock()
        self._world = world
        # Every use reads the secret, so that whoever uses it is seen to.
        monkeypatch.setattr(secret_token, "KEPT_S", 0.0)
        settings = Settings(
            backend=AWS, embedder=BEDROCK, table=world.table, dead_letters=world.queue, lease_seconds=LEASE_S
        )
        self.backend = _Watched(settings, self.recorder, world)
        self.backend.clock = self.clock
        self.backend.services = replace(self.backend.services, clock=self.clock, ids=RandomIds(self.clock))
        self._rig = Rig(world.client("dynamodb"), world.streams, world.table)
        self._position = self._rig.position("TRIM_HORIZON")
        original = gateway.handler_of
        monkeypatch.setattr(
            gateway, "handler_of", lambda folder: self.recorder.wrapped(folder, original(folder)), raising=True
        )
        self._gateway = gateway.Gateway(self.backend.services)

    def vault(self, model: str | None = None) -> Vault:
        return Vault(self, str(uuid4()), model)

    def anybody(self) -> Client:
        return Client(self._gateway, self.backend.services, None)

    def client(self, vault_id: str) -> Client:
        """With a key that was never used: a key's first use is noted, which takes a write."""
        text = f"mk_{uuid4().hex}"
        record = KeyRecord(str(uuid4()), keys.hash_key(text), vault_id, "", frozenset(keys.SCOPES), self.clock.now_ms())
        self.backend.directory.add(record)
        return Client(self._gateway, self.backend.services, text)

    def deliver(self) -> list[str]:
        """Have the indexer take every record of the stream that it was not given yet; the numbers of those it wants
        again.
        """
        return self.index({"Records": self.passed_over()})

    def passed_over(self) -> list[dict[str, Any]]:
        """The records that would be delivered next, and are not any more."""
        records: list[dict[str, Any]] = []
        while fresh := (answer := self._rig.streams.get_records(ShardIterator=self._position))["Records"]:
            records += fresh
            self._position = answer["NextShardIterator"]
        return records

    def index(self, event: dict[str, Any]) -> list[str]:
        """Have the indexer take an event, in a process that is just starting."""
        self.starting()
        with self.recorder.inside("indexer"):
            reply = indexer(event)
        return [each["itemIdentifier"] for each in reply["batchItemFailures"]]

    def starting(self) -> None:
        """Forget what a function remembers of the domain: each runs in a process of its own."""
        self.backend.index.close()

    def provision(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What the deployment's custom resource does with the search domain."""
        with monkeypatch.context() as patched, self.recorder.inside("provision"):
            patched.setattr(upgrade, "load", lambda: None)
            patched.setattr(upgrade, "Aws", lambda _settings: self.backend)
            upgrade.provisioned(1)

    @contextmanager
    def refusing(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """An index that takes no row, and never will."""

        def refuse(_self: Any, _vault: VaultRef, memories: Sequence[Memory]) -> None:
            raise ValueError(f"{len(memories)} rows cannot be indexed")

        with monkeypatch.context() as patched:
            patched.setattr(type(self.backend.index), "put_words", refuse)
            yield


class Vault:
    """A vault and who calls for it: every call with a key of its own, and in a process that is just starting."""

    def __init__(self, deployment: Deployment, vault_id: str, model: str | None) -> None:
        self._deployment, self.vault_id, self._model = deployment, vault_id, model

    def call(
        self, method: str, path: str, body: object = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """`body` is a list of lines, or one object. A header's name may be spelled with underscores."""
        named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        if self._model is not None and method == "POST":
            named["X-Embedding-Model"] = self._model
        lines = isinstance(body, list)
        sent = "".join(json.dumps(line) + "\n" for line in body).encode() if isinstance(body, list) else body
        kind = "application/x-ndjson" if lines else "application/json"
        self._deployment.starting()
        client = self._deployment.client(self.vault_id)
        answer = client.call(method, path, sent, headers=named, content_type=kind)
        assert answer.status == status, answer.body
        return answer

    def post(self, path: str, body: object = None, status: int = 200, **headers: str) -> Any:
        return self.call("POST", path, body, status, headers).json

    def get(self, path: str, status: int = 200) -> Answer:
        return self.call("GET", path, status=status)

    def delete(self, path: str, **headers: str) -> Any:
        return self.call("DELETE", path, headers=headers).json

    def ingest(self, count: int = 1, status: int = 202, **headers: str) -> Any:
        messages = [{"role": "user", "content": f"what was said, number {number}"} for number in range(count)]
        return self.post("/v1/memory/ingest", {"messages": messages}, status, **headers)

    def checkout(self, tier: int = 1) -> Any:
        return self.post("/v1/memory/consolidate/checkout", {"tier": tier})

    def commit(self, batch_id: str, count: int = 2, status: int = 200) -> Any:
        entries = [{"text": f"what it means, number {number}", "importance": 7} for number in range(count)]
        return self.post("/v1/memory/consolidate/commit", {"batch_id": batch_id, "entries": entries}, status)

    def tool(self, name: str, arguments: Mapping[str, Any] | None = None, error: bool = False) -> Any:
        """What an MCP tool answers."""
        result = self._rpc("tools/call", {"name": name, "arguments": arguments or {}})
        assert result["isError"] is error, result
        return result.get("structuredContent")

    def resource(self, uri: str) -> Any:
        return self._rpc("resources/read", {"uri": uri})["contents"]

    def _rpc(self, method: str, params: Mapping[str, Any]) -> Any:
        return self.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})["result"]

    def batch(self, verb: str, batch_id: str, status: int = 200) -> Any:
        return self.post(f"/v1/memory/consolidate/{verb}", {"batch_id": batch_id}, status)


class _Transport(Transport):
    """Tells the recorder of every request."""

    def __init__(self, recorder: Recorder, behind: Transport) -> None:
        self._recorder, self._behind = recorder, behind
        self._attempts, self._sleep = 4, lambda _: None

    def request(self, method: str, path: str, body: Any = None, params: Any = None) -> dict[str, Any]:
        self._recorder.requested(method, path)
        return self._behind.request(method, path, body, params)

    def close(self) -> None:
        self._behind.close()


class _Watched(bootstrap.Aws):
    def __init__(self, settings: Settings, recorder: Recorder, world: World) -> None:
        def connect(service: str) -> Any:
            return recorder.watch(world.client(service))

        def bedrock(_timeout_s: float) -> Any:
            client = connect("bedrock-runtime")
            client.meta.events.register("before-send", _embedded)
            return client

        endpoint = Endpoint("https://models.example.com/v1", "some-model", 2, 0.3)
        behind = OpenAiEmbedder(endpoint, Pool(_vectors), token=SecretToken(partial(connect, "secretsmanager"), SECRET))
        embedders: dict[str, Embedder] = {BEDROCK: BedrockEmbedder(MODELS[BEDROCK], bedrock), behind.name: behind}
        self._recorder, self._world = recorder, world
        super().__init__(settings, connect=connect, embedders=embedders, indexes=world.indexes)

    def transport(self) -> Transport:
        return _Transport(self._recorder, self._world.transport())


def _vectors(body: dict[str, Any]) -> Any:
    return response(200, {"data": [{"index": place, "embedding": [3, 4]} for place in range(len(body["input"]))]})


def _embedded(request: AWSPreparedRequest, **_: object) -> AWSResponse:
    """The answer of a Titan model."""
    return answered(request, {"embedding": [1.0] * MODELS[BEDROCK].dimension})


class _Raw:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_: object, **__: object) -> list[bytes]:
        return [self._content]

    def read(self, *_: object, **__: object) -> bytes:
        content, self._content = self._content, b""
        return content


def answered(request: AWSPreparedRequest, body: object) -> AWSResponse:
    """What a service answers, without it."""
    return AWSResponse(request.url, 200, {"Content-Type": "application/json"}, _Raw(json.dumps(body).encode()))
