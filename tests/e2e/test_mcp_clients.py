"""Published clients of the protocol against a served process: over HTTP, and through the bridge for standard input."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters

from tests.e2e.mcp_inspector import Inspector, inspect
from tests.e2e.mcp_walk import MODERN, REVISIONS, over_http, speaking, walk
from tests.e2e.server import ROOT, Server

every_revision = pytest.mark.parametrize("revision", REVISIONS)


def bridge(url: str, key: str) -> StdioServerParameters:
    """How a client that only starts programs starts the bridge."""
    variables = {"STRATA_KEY": key, "PYTHONPATH": str(ROOT)}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "infra.local.mcp_stdio", "--url", url], env=variables
    )


@every_revision
def test_the_official_client_uses_everything(shared_server: Server, key: str, revision: str) -> None:
    async def run() -> None:
        async with over_http(shared_server.url, key, revision) as client:
            await walk(client, revision)

    anyio.run(run)


@every_revision
def test_so_it_does_through_the_bridge(shared_server: Server, key: str, revision: str) -> None:
    async def run() -> None:
        async with speaking(revision, bridge(shared_server.url, key)) as client:
            await walk(client, revision)

    anyio.run(run)


@every_revision
def test_a_key_sees_and_does_what_its_suffix_leaves(shared_server: Server, key: str, revision: str) -> None:
    async def run() -> None:
        async with over_http(shared_server.url, f"{key}:read", revision) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert "search_memories" in tools
            assert "store_memory" not in tools
            assert (await client.list_prompts()).prompts == []
            with pytest.raises(MCPError, match="memories:write"):
                await client.call_tool("store_memory", {"text": "Nobody may write this."})
            status = (await client.call_tool("memory_status", {})).structured_content
            assert (status["totalMemories"], status["grantedScopes"]) == (0, ["memories:read"])

    anyio.run(run)


def test_many_calls_at_once_through_one_bridge(shared_server: Server, key: str) -> None:
    texts = [f"Fact number {number} is about lanterns." for number in range(40)]

    async def run() -> None:
        async with speaking(MODERN, bridge(shared_server.url, key)) as client:
            async with anyio.create_task_group() as calls:
                for text in texts:
                    calls.start_soon(partial(client.call_tool, "store_memory", {"text": text}))
            found = await client.call_tool("search_memories", {"query": "lanterns", "limit": 100})
            assert sorted(row["content"] for row in found.structured_content["memories"]) == sorted(texts)

    anyio.run(run)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_uses_everything(shared_server: Server, key: str, era: str, tmp_path: Path) -> None:
    inspect(Inspector(shared_server.url, key, era, tmp_path))


@pytest.mark.parametrize(
    ("variables", "code", "says"),
    [
        ({"STRATA_AUTO_PROVISION_KEYS": "0"}, 401, "This memory key is unknown or was deleted."),
        ({"STRATA_CALLS_PER_MINUTE": "2"}, 429, "This key may call 2 times a minute."),
    ],
)
def test_who_is_refused_learns_why(tmp_path: Path, variables: dict[str, str], code: int, says: str) -> None:
    async def run(connected: AbstractAsyncContextManager[Client]) -> None:
        async with connected as client:
            for _ in range(3):
                await client.list_tools()

    def refused(error: MCPError) -> bool:
        return error.code == code and error.message.startswith(says)

    with Server(tmp_path, {"STRATA_EMBEDDER": "hashed-64", **variables}) as server:
        for connected in (
            over_http(server.url, "mk_by-http", MODERN),
            speaking(MODERN, bridge(server.url, "mk_by-bridge")),
        ):
            with pytest.RaisesGroup(pytest.RaisesExc(MCPError, check=refused), flatten_subgroups=True):
                anyio.run(run, connected)
