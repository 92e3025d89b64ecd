"""Tool × scope × suffix, against a table written down apart from the code's own."""

from __future__ import annotations

import pytest

from shared.api.mcp.tools import TOOLS
from shared.domain.keys import SCOPES, hash_key
from shared.ports.directory import KeyRecord
from tests.api.backends import EMBEDDED_ONLY
from tests.api.client import Client
from tests.api.mcp_client import Mcp

READ, WRITE, REFLECT, DELETE = "memories:read", "memories:write", "memories:reflect", "memories:delete"
NEEDED = {
    "search_memories": READ,
    "date_search_memories": READ,
    "inspect_memory": READ,
    "search": READ,
    "fetch": READ,
    "memory_status": READ,
    "store_memory": WRITE,
    "consolidate_memories": REFLECT,
    "commit_reflections": REFLECT,
    "delete_memories": DELETE,
    "forget_all_memories": DELETE,
}
AFTER_SUFFIX = {"": set(SCOPES), ":read": {READ}, ":write": {WRITE}, ":off": set()}
KEYS = [set(), *({scope} for scope in sorted(SCOPES)), set(SCOPES)]
NOBODY = "0199d1f0-0000-7000-8000-000000000001"
# What a tool needs at least, so that being let in shows as an answer of the tool and nothing is lost for the next key.
LEAST: dict[str, dict[str, object]] = {
    "search_memories": {"query": "meeting"},
    "date_search_memories": {"from": "2026-01-01"},
    "inspect_memory": {"memory_id": NOBODY},
    "search": {"query": "meeting"},
    "fetch": {"id": NOBODY},
    "memory_status": {},
    "store_memory": {"text": "Kept."},
    "consolidate_memories": {},
    "commit_reflections": {"batch_id": "cb_none", "entries": [{"text": "Kept.", "importance": 5}]},
    "delete_memories": {"ids": [NOBODY]},
    "forget_all_memories": {"confirmation": "DELETE ALL MEMORIES"},
}
ABSENT = {"inspect_memory", "fetch", "commit_reflections"}
"""Let in, these answer that there is no such thing."""


def scoped(client: Client, number: int, scopes: set[str]) -> str:
    name = f"mk_scoped-{number}"
    record = KeyRecord(f"key-{number}", hash_key(name), "vault", name, frozenset(scopes), 0)
    client.services.directory.add(record)
    return name


def test_every_tool_stands_in_the_expected_table() -> None:
    assert {tool.name: set(tool.scopes) for tool in TOOLS} == {name: {scope} for name, scope in NEEDED.items()}
    assert LEAST.keys() == NEEDED.keys()


@EMBEDDED_ONLY
def test_key_and_suffix_decide_which_tools_are_seen_and_called(client: Client) -> None:
    for number, scopes in enumerate(KEYS):
        name = scoped(client, number, scopes)
        for suffix, left in AFTER_SUFFIX.items():
            mcp = Mcp(client.using(name + suffix))
            has = scopes & left
            seen = [tool["name"] for tool in mcp.result("tools/list")["tools"]]
            assert seen == [tool for tool, needed in NEEDED.items() if needed in has]
            assert bool(mcp.result("resources/list")["resources"]) is (READ in has)
            assert bool(mcp.result("prompts/list")["prompts"]) is (REFLECT in has)


@EMBEDDED_ONLY
@pytest.mark.parametrize("tool", NEEDED)
def test_a_tool_is_refused_without_its_scope_and_runs_with_it(tool: str, client: Client) -> None:
    for number, scopes in enumerate(KEYS):
        name = scoped(client, number, scopes)
        for suffix, left in AFTER_SUFFIX.items():
            mcp = Mcp(client.using(name + suffix))
            answer = mcp.ask("tools/call", {"name": tool, "arguments": LEAST[tool]})
            if NEEDED[tool] in scopes & left:
                assert answer.status == 200, (scopes, suffix, answer.body)
                assert answer.json["result"]["isError"] is (tool in ABSENT), answer.body
            else:
                assert answer.status == 403, (scopes, suffix)
                assert answer.json["error"]["data"]["missing"] == [NEEDED[tool]]
                challenge = answer.headers["WWW-Authenticate"]
                assert challenge.startswith(f'Bearer error="insufficient_scope", scope="{NEEDED[tool]}"')


def test_what_is_refused_for_its_scope_changes_nothing(client: Client) -> None:
    mcp = Mcp(client)
    mcp.data("store_memory", {"text": "The kettle is blue."})
    before = client.get("/v1/memory/stats").json
    for suffix in (":read", ":write", ":off"):
        weak = mcp.using(f"{client.key}{suffix}")
        for tool, scope in NEEDED.items():
            if scope not in AFTER_SUFFIX[suffix]:
                assert weak.ask("tools/call", {"name": tool, "arguments": LEAST[tool]}).status == 403
    assert {**client.get("/v1/memory/stats").json, "lastAccess": 0} == {**before, "lastAccess": 0}


@pytest.mark.parametrize(
    ("method", "params", "scope"),
    [
        ("resources/read", {"uri": "memory://vault/stats"}, READ),
        ("resources/read", {"uri": "memory://vault/recent"}, READ),
        ("resources/read", {"uri": "memory://vault/none"}, READ),
        ("prompts/get", {"name": "consolidate"}, REFLECT),
    ],
)
def test_resources_and_prompts_have_scopes_too(client: Client, method: str, params: dict[str, str], scope: str) -> None:
    mcp = Mcp(client)
    refused = mcp.using(f"{client.key}:off").ask(method, params)
    assert refused.status == 403
    assert refused.json["error"]["data"]["missing"] == [scope]
    assert mcp.ask(method, params).status == (400 if "none" in str(params) else 200)


def test_each_tool_works_with_exactly_its_declared_defaults(client: Client) -> None:
    """What a form fills in: every default that a schema declares, and what is required."""
    mcp = Mcp(client)
    client.ingest("We meet on Thursday.")
    for tool in mcp.result("tools/list")["tools"]:
        properties = tool["inputSchema"]["properties"]
        defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
        required = {name: LEAST[tool["name"]][name] for name in tool["inputSchema"].get("required", ())}
        for arguments in (required, {**defaults, **required}):
            result = mcp.result("tools/call", {"name": tool["name"], "arguments": arguments})
            assert result["isError"] is (tool["name"] in ABSENT), (tool["name"], result)


def test_no_key_no_answer(client: Client) -> None:
    for key in (None, "sk-provider", "mk_", "mk_bad key", "mk_known:admin", "mk_known:"):
        for method in ("tools/list", "server/discover", "tools/call"):
            answer = Mcp(client.using(key)).ask(method, {"name": "memory_status"})
            assert (answer.status, answer.json["error"]["code"]) == (401, 401), key
            assert answer.json["error"]["data"]["code"] == "unauthorized"
            assert answer.headers["WWW-Authenticate"].startswith("Bearer resource_metadata=")
