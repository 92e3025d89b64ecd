"""What `docs/mcp.md` gives to clients, tried on a real server; only addresses, paths and placeholders are replaced."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from mcp import StdioServerParameters

from shared.api.mcp.prompts import PROMPTS
from shared.api.mcp.resources import RESOURCES
from shared.api.mcp.tools import TOOLS
from tests.e2e.mcp_walk import MODERN, over_http, speaking
from tests.e2e.server import ROOT, Server

PAGE = (ROOT / "docs" / "mcp.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8787"
NAMES = [tool.name for tool in TOOLS]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def block(title: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), {"STRATA_EMBEDDER": "hashed-64"}) as running:
        yield running


def listed(server: Server, url: str, authorization: str) -> list[str]:
    """The tools that a client sees which was given this address and this header."""
    assert url == f"{ADDRESS}/mcp"
    scheme, _, key = authorization.partition(" ")
    assert scheme == "Bearer"

    async def run() -> list[str]:
        async with over_http(server.url, key, MODERN) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    return anyio.run(run)


def test_every_tool_stands_with_its_scopes() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section("Tools"), re.MULTILINE)

    assert [(name, set(re.findall(r"`([a-z:]+)`", scopes))) for name, scopes in rows] == [
        (tool.name, set(tool.scopes)) for tool in TOOLS
    ]
    assert all(f"`{each['uri']}`" in section("Tools") for each in RESOURCES)
    assert all(f"`{each['name']}`" in section("Tools") for each in PROMPTS)


def test_the_read_only_suffix(server: Server) -> None:
    (authorization,) = re.findall(r"`(Bearer \S+:read)`", section("Keys"))

    assert listed(server, f"{ADDRESS}/mcp", authorization) == [tool.name for tool in TOOLS if tool.read_only]


def test_claude_code_command(server: Server) -> None:
    words = shlex.split(block("Claude Code", "sh"))

    assert words[:5] == ["claude", "mcp", "add", "--transport", "http"]
    # What follows this option belongs to it.
    _name, url, option, header = words[5:]
    assert option == "--header"
    name, _, authorization = header.partition(": ")
    assert name == "Authorization"
    assert listed(server, url, authorization) == NAMES


@pytest.mark.parametrize(
    ("title", "servers", "placeholder", "more"),
    [
        ("Claude Code", "mcpServers", "${STRATA_KEY}", {"type": "http"}),
        ("Cursor", "mcpServers", "${env:STRATA_KEY}", {}),
        ("VS Code", "servers", "${input:strata-key}", {"type": "http"}),
    ],
)
def test_files_of_clients_with_http(
    server: Server, title: str, servers: str, placeholder: str, more: dict[str, str]
) -> None:
    described: dict[str, Any] = json.loads(block(title, "json"))
    entry = described[servers]["strata"]

    assert {name: entry[name] for name in entry.keys() - {"url", "headers"}} == more
    assert all(placeholder == f"${{input:{each['id']}}}" for each in described.get("inputs", ()))
    assert listed(server, entry["url"], entry["headers"]["Authorization"].replace(placeholder, "mk_demo")) == NAMES


def test_file_of_a_client_that_starts_programs(server: Server) -> None:
    text = block("Claude Desktop", "json").replace("/path/to/strata/.venv/bin/python", sys.executable)
    text = text.replace("/path/to/strata", str(ROOT)).replace(ADDRESS, server.url)
    entry = json.loads(text)["mcpServers"]["strata"]
    assert entry.keys() == {"command", "args", "env"}

    async def run() -> list[str]:
        async with speaking(MODERN, StdioServerParameters(**entry, cwd="/")) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert anyio.run(run) == NAMES


def test_tool_of_the_responses_api(server: Server) -> None:
    (tool,) = json.loads(block("OpenAI Responses API", "json"))["tools"]

    assert (tool["type"], tool["server_label"], tool["server_url"]) == (
        "mcp", "strata", "https://memory.example.com/mcp",
    )  # fmt: skip
    assert listed(server, f"{ADDRESS}/mcp", tool["headers"]["Authorization"]) == NAMES
    assert set(tool["allowed_tools"]) <= set(NAMES)
    unasked = set(tool["require_approval"]["never"]["tool_names"])
    assert unasked == {each.name for each in TOOLS if each.read_only and each.name in tool["allowed_tools"]}


def test_bridge_command(server: Server) -> None:
    command = block("Clients that only start programs", "sh").replace(ADDRESS, server.url)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    done = subprocess.run(
        ["sh", "-euc", command.replace(".venv/bin/python", sys.executable)],
        check=True, cwd=ROOT, input=json.dumps(ping), capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert done.stderr == ""
