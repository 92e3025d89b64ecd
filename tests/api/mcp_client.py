"""A client of `/mcp` that writes its requests by hand: the official one is used where a socket is open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.api.client import Answer, Client

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}


@dataclass(frozen=True)
class Mcp:
    """Speaks `version`; `headers` are added to every request."""

    client: Client
    version: str = MODERN
    headers: Mapping[str, str] | None = None

    def using(self, key: str | None) -> Mcp:
        return Mcp(self.client.using(key), self.version, self.headers)

    def send(self, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        return self.client.post("/mcp", body, headers={**(self.headers or {}), **(headers or {})})

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        given = dict(params or {})
        headers = {"MCP-Protocol-Version": self.version}
        if self.version == MODERN:
            headers["Mcp-Method"] = method
            if method in NAMED_BY:
                headers["Mcp-Name"] = str(given.get(NAMED_BY[method], ""))
            given["_meta"] = META
        return self.send({"jsonrpc": "2.0", "id": "q-1", "method": method, "params": given}, headers)

    def result(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer = self.ask(method, params)
        assert answer.status == 200, answer.body
        assert answer.headers["Content-Type"] == "application/json"
        body = answer.json
        assert (body["jsonrpc"], body["id"]) == ("2.0", "q-1")
        found: dict[str, Any] = body["result"]
        return found

    def tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of a call that succeeded."""
        found = self.result("tools/call", {"name": name, "arguments": dict(arguments or {})})
        assert found["isError"] is False, found
        return found

    def data(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = self.tool(name, arguments)["structuredContent"]
        return found

    def failure(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """The text of a call that the tool refused."""
        found = self.result("tools/call", {"name": name, "arguments": dict(arguments or {})})
        assert found["isError"] is True, found
        assert "structuredContent" not in found
        (content,) = found["content"]
        return str(content["text"])


def text_of(result: Mapping[str, Any]) -> str:
    (content,) = result["content"]
    assert content["type"] == "text"
    return str(content["text"])


def everything(answer: Mapping[str, Any]) -> str:
    """All that a model could see of an answer."""
    return json.dumps(answer, ensure_ascii=False)
