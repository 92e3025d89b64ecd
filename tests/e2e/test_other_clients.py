"""What other published clients put on the wire, sent as they send it, and what they look for in the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.server import Server


@pytest.fixture
def http(shared_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared_server.url, timeout=30) as client:
        yield client


@pytest.fixture
def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Hermes:
    """An agent plug-in: session by header only, every failure counts as no memory."""

    def __init__(self, http: httpx.Client, bearer: dict[str, str], session: str | None = None) -> None:
        self._http = http
        self._headers = bearer | {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "hermes-memoryrouter/0.1.0",
        }
        if session is not None:
            self._headers["X-Session-ID"] = session

    def capture(self, user: str, assistant: str) -> int:
        body = {"messages": [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]}
        answer = self._http.post("/v1/memory/ingest", headers=self._headers, content=json.dumps(body), timeout=10)
        return answer.status_code

    def recall(self, prompt: str, **more: object) -> tuple[str | None, int]:
        body = {"messages": [{"role": "user", "content": prompt}], "density": "default", **more}
        answer = self._http.post("/v1/memory/prepare", headers=self._headers, content=json.dumps(body), timeout=2.5)
        assert answer.status_code == 200
        said = answer.json()
        assert isinstance(said["memories_found"], int)
        return said["context"].strip() or None, said["memories_found"]


def test_hermes_captures_and_recalls(http: httpx.Client, bearer: dict[str, str]) -> None:
    hermes = Hermes(http, bearer)

    assert hermes.recall("where is the ladder") == (None, 0)
    assert hermes.capture("The ladder stands behind the barn.", "I will remember the barn.") == 202

    context, found = hermes.recall("where is the ladder", context_limit=50)
    assert context is not None
    assert "The ladder stands behind the barn." in context
    assert found >= 1
    assert hermes.recall("where is the ladder", context_limit=0) == (None, 0)


@pytest.mark.parametrize("density", ["low", "default", "high", "xhigh"])
def test_hermes_densities(http: httpx.Client, bearer: dict[str, str], density: str) -> None:
    Hermes(http, bearer).capture("The ladder stands behind the barn.", "Noted.")

    context, _ = Hermes(http, bearer).recall("where is the ladder", density=density)

    assert context is not None
    assert "The ladder stands behind the barn." in context


def test_hermes_session_vault(http: httpx.Client, bearer: dict[str, str]) -> None:
    Hermes(http, bearer, "agent-1").capture("The ladder stands behind the barn.", "Noted.")

    assert Hermes(http, bearer, "agent-2").recall("where is the ladder") == (None, 0)
    assert Hermes(http, bearer, "agent-1").recall("where is the ladder")[0] is not None


def test_open_webui_upload(http: httpx.Client, bearer: dict[str, str]) -> None:
    start = 1_753_000_000_000
    lines = [
        {
            "content": f"Chat line {n}: " + "word " * 1_500,
            "role": "user" if n % 2 else "assistant",
            "timestamp": start + n,
        }
        for n in range(100)
    ]

    answer = http.post(
        "/v1/memory/upload",
        headers=bearer | {"Content-Type": "text/plain"},
        content="\n".join(json.dumps(line) for line in lines),
    )

    assert answer.status_code == 200
    stats = answer.json()["stats"]
    assert (stats["stored"], stats["inputItems"], stats["failed"]) == (100, 100, 0)
    newest = http.post(
        "/v1/memory/date-search", headers=bearer, json={"from": "2025-07-20", "max_tokens": 1_000}
    ).json()["memories"][0]
    assert newest["content"] == lines[-1]["content"]
    assert newest["role"] == "user"
    assert newest["date"] == "2025-07-20T08:26:40.099Z"


def test_open_webui_upload_with_a_bad_line_stores_nothing(http: httpx.Client, bearer: dict[str, str]) -> None:
    content = '{"content": "a line that is fine and long enough", "role": "user"}\n{"role": "user"}\n'

    answer = http.post("/v1/memory/upload", headers=bearer | {"Content-Type": "text/plain"}, content=content)

    assert answer.status_code == 400
    assert "2" in answer.json()["error"]
    assert http.get("/v1/memory/stats", headers=bearer).json()["totalVectors"] == 0


def test_openclaw_command_line(http: httpx.Client, bearer: dict[str, str], key: str) -> None:
    assert http.get("/health", timeout=5).status_code == 200
    carried = {"X-Memory-Key": key, "Authorization": "Bearer sk-a-provider-key"}
    http.post(
        "/v1/memory/upload",
        headers=carried | {"Content-Type": "text/plain"},
        content=json.dumps({"content": "A note about the north wall.", "role": "user", "timestamp": 1_753_000_000_000}),
    )

    stats = http.get("/v1/memory/stats", headers=bearer).json()

    assert stats["totalVectors"] == 1
    assert stats["totalTokens"] == 7
    assert "sessions" in stats
    gone = http.request("DELETE", "/v1/memory", headers=bearer)
    assert gone.status_code == 200
    assert gone.json()["deleted"] is True
    assert isinstance(gone.json()["message"], str)
    assert http.get("/v1/memory/stats", headers=bearer).json()["totalVectors"] == 0


def test_key_carriers_of_provider_clients(http: httpx.Client, bearer: dict[str, str], key: str) -> None:
    stored = http.post(
        "/v1/memory/ingest", headers=bearer, json={"messages": [{"role": "user", "content": "tangerine"}]}
    )
    assert stored.status_code == 202

    for headers in (
        {"x-api-key": key},
        {"x-goog-api-key": key},
        {"Authorization": f"bearer {key}"},
        {"Authorization": "Bearer sk-provider", "x-api-key": key},
    ):
        found = http.post("/v1/memory/search", headers=headers, json={"query": "tangerine"}).json()
        assert [row["content"] for row in found["memories"]] == ["tangerine"]
