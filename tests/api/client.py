"""A client of the gateway that needs no socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from infra.local.gateway import Headers, Response
from shared.usecases.services import Services

ALL = "mk_everything-allowed"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        code = self.json["code"]
        assert isinstance(code, str)
        return code

    @property
    def fields(self) -> list[str]:
        return [each["field"] for each in self.json.get("details", [])]


class Answering(Protocol):
    """The gateway in this process, or one over HTTP."""

    def handle(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Response: ...


class Client:
    def __init__(self, gateway: Answering, services: Services, key: str | None = ALL) -> None:
        self.gateway = gateway
        self.services = services
        self.key = key

    def using(self, key: str | None) -> Client:
        return Client(self.gateway, self.services, key)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = "application/json",
    ) -> Answer:
        """`body` is bytes as they are, or anything to send as JSON. `path` may have a query."""
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = [] if self.key is None else [("Authorization", f"Bearer {self.key}")]
        if content_type is not None and body is not None:
            sent.append(("Content-Type", content_type))
        sent.extend((headers or {}).items())
        plain, _, query = path.partition("?")
        response = self.gateway.handle(method, plain, query, sent, raw)
        return Answer(response.status, dict(response.headers), response.body)

    def post(self, path: str, body: object = None, **more: Any) -> Answer:
        return self.call("POST", path, body, **more)

    def get(self, path: str, **more: Any) -> Answer:
        return self.call("GET", path, **more)

    def delete(self, path: str, **more: Any) -> Answer:
        return self.call("DELETE", path, **more)

    def ingest(self, *texts: str, **more: Any) -> list[str]:
        """Ids of new messages with these texts."""
        answer = self.post("/v1/memory/ingest", {"messages": [{"role": "user", "content": t} for t in texts]}, **more)
        assert answer.status == 202, answer.body
        ids = answer.json["ids"]
        assert isinstance(ids, list)
        return ids

    def export(self) -> list[dict[str, Any]]:
        answer = self.get("/v1/memory/export?limit=5000")
        assert answer.status == 200, answer.body
        return [json.loads(line) for line in answer.body.splitlines()]

    def consolidate(self, *texts: str, tier: int = 1) -> tuple[str, list[str]]:
        """The batch and the ids of reflections with these texts, of everything that is unconsolidated."""
        batch_id = self.post("/v1/memory/consolidate/checkout", {"tier": tier}).json["batch_id"]
        entries = [{"text": text, "importance": 7} for text in texts]
        answer = self.post("/v1/memory/consolidate/commit", {"batch_id": batch_id, "entries": entries})
        assert answer.status == 200, answer.body
        return batch_id, [created["id"] for created in answer.json["created"]]
