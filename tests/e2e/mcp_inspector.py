"""The command line of the protocol's inspector, and a walk through all that ``/mcp`` offers with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.mcp_walk import BOAT, REFLECTION, RESOURCES, TOOLS, TUNER
from tests.e2e.server import ROOT

PROGRAM = ROOT / ".tools/inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
SECONDS = 120


@dataclass(frozen=True)
class Inspector:
    """Runs it on the endpoint below `url`, once for each request. `era` is ``modern`` or ``legacy``.

    `home` is the folder that it keeps its own files in.
    """

    url: str
    key: str
    era: str
    home: Path

    def run(self, method: str, *arguments: str) -> dict[str, Any]:
        """The result of a request. A refused one, a failed tool, or a schema that clients stumble over fails here."""
        node = shutil.which("node")
        assert node is not None, "install Node.js 20 or newer"
        assert PROGRAM.exists(), "run `make .tools/inspector/installed`"
        done = subprocess.run(
            [
                *(node, str(PROGRAM), "--cli", "--transport", "http", "--server-url", f"{self.url}/mcp"),
                *("--header", f"Authorization: Bearer {self.key}", "--protocol-era", self.era, "--stored-auth-only"),
                *("--format", "json", "--method", method, *arguments),
            ],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=SECONDS,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout)["result"]
        return result

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        result = self.run("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(given))
        assert result["content"][0]["text"]
        found: dict[str, Any] = result["structuredContent"]
        return found


def inspect(inspector: Inspector) -> None:
    """From an empty vault back to an empty one: every listing, tool, resource and prompt."""
    listed = inspector.run("tools/list", "--strict")["tools"]
    assert tuple(tool["name"] for tool in listed) == TOOLS
    assert tuple(each["uri"] for each in inspector.run("resources/list")["resources"]) == RESOURCES
    assert [prompt["name"] for prompt in inspector.run("prompts/list")["prompts"]] == ["consolidate"]

    for text in (TUNER, BOAT):
        assert inspector.call("store_memory", text=text)["stored"] == 1
    assert inspector.call("memory_status")["totalMemories"] == 2
    row = inspector.call("search_memories", query="blue boat", limit=1)["memories"][0]
    assert row["content"] == BOAT
    day = {"from": row["date"][:10], "order": "oldest_first"}
    assert [each["content"] for each in inspector.call("date_search_memories", **day)["memories"]] == [TUNER, BOAT]
    first = inspector.call("search", query="piano tuner")["results"][0]
    assert inspector.call("fetch", id=first["id"])["text"] == TUNER

    batch = inspector.call("consolidate_memories", tier=1)
    assert batch["count"] == 2
    entries = [{"text": REFLECTION, "importance": 6}]
    assert inspector.call("commit_reflections", batch_id=batch["batch_id"], entries=entries)["entries_created"] == 1
    (parent,) = inspector.call("inspect_memory", memory_id=row["id"])["consolidated_into"]
    assert (parent["tier"], parent["importance"]) == (2, 6)

    stats, recent = (inspector.run("resources/read", "--uri", uri)["contents"][0]["text"] for uri in RESOURCES)
    assert json.loads(stats)["tiers"] == {"1": 2, "2": 1, "3": 0}
    assert REFLECTION in recent
    (message,) = inspector.run("prompts/get", "--prompt-name", "consolidate", "--prompt-args", "tier=2")["messages"]
    assert '{"tier": 2}' in message["content"]["text"]

    assert inspector.call("delete_memories", ids=[row["id"]])["deleted"] == 1
    inspector.call("forget_all_memories", confirmation="DELETE ALL MEMORIES")
    assert inspector.call("memory_status")["totalMemories"] == 0
