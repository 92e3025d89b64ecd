"""The published LangChain package against the real server, through its own clients, store, nodes and tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_memoryrouter import (
    AsyncMemoryRouterClient,
    MemoryRouterClient,
    MemoryRouterStore,
    create_memory_tools,
    create_recall_node,
    create_retain_node,
)

from tests.e2e.server import Server

HARBOUR = "The harbour meeting moved to Tuesday at nine."
CAT = "My cat is called Biscuit and hates rain."


def contents(answer: dict[str, Any]) -> list[str]:
    return [row["content"] for row in answer["memories"]]


def test_client_stores_searches_and_prepares(shared_server: Server, key: str) -> None:
    client = MemoryRouterClient(key, base_url=shared_server.url)

    stored = client.ingest([{"role": "user", "content": HARBOUR}, {"role": "assistant", "content": CAT}])

    assert stored["stored"] == 2
    assert len(set(stored["ids"])) == 2
    assert stored["reflection"]["unconsolidated"]["raw"]["units"] == 2

    found = client.search("When is the harbour meeting?")
    assert contents(found)[0] == HARBOUR
    assert found["memories"][0]["id"] == stored["ids"][0]
    assert found["memories"][0]["tier"] == 1
    assert found["memories"][0]["role"] == "user"
    assert contents(client.search("harbour", limit=1)) == [HARBOUR]

    prepared = client.prepare([{"role": "user", "content": "what is my cat called"}], density="low", context_limit=1)
    assert CAT in prepared["context"]
    assert HARBOUR not in prepared["context"]
    assert prepared["memories_found"] == 1


def test_client_prepares_nothing_in_an_empty_vault(shared_server: Server, key: str) -> None:
    client = MemoryRouterClient(key, base_url=shared_server.url)

    prepared = client.prepare([{"role": "user", "content": "hello"}])

    assert prepared["context"] == ""
    assert prepared["memories_found"] == 0
    assert contents(client.search("hello")) == []


def test_client_keeps_vaults_and_sessions_apart(shared_server: Server, key: str) -> None:
    client = MemoryRouterClient(key, base_url=shared_server.url)
    client.ingest([{"role": "user", "content": HARBOUR}], session_id="one")
    client.ingest([{"role": "user", "content": CAT}])

    assert contents(client.search("harbour cat", session_id="one")) != []
    assert set(contents(client.search("harbour cat", session_id="one"))) == {HARBOUR, CAT}
    assert contents(client.search("harbour cat", session_id="two")) == [CAT]
    assert set(contents(client.search("harbour cat"))) == {HARBOUR, CAT}
    assert contents(client.search("harbour cat", memory_key=f"{key}-somebody-else")) == []


def test_client_raises_for_a_key_that_is_none(shared_server: Server) -> None:
    client = MemoryRouterClient("not-a-memory-key", base_url=shared_server.url)

    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.search("anything")

    assert refused.value.response.status_code == 401


def test_async_client(shared_server: Server, key: str) -> None:
    client = AsyncMemoryRouterClient(key, base_url=shared_server.url)

    async def talk() -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
        stored = await asyncio.gather(
            *(client.aingest([{"role": "user", "content": f"Fact number {n} is about topic{n}."}]) for n in range(8))
        )
        found = await asyncio.gather(*(client.asearch(f"topic{n}", limit=1) for n in range(8)))
        prepared = await client.aprepare([{"role": "user", "content": "topic3"}], context_limit=1, session_id="s")
        return stored[0], list(found), prepared

    stored, found, prepared = asyncio.run(talk())

    assert stored["stored"] == 1
    assert [contents(answer) for answer in found] == [[f"Fact number {n} is about topic{n}."] for n in range(8)]
    assert "Fact number 3" in prepared["context"]


def test_store(shared_server: Server, key: str) -> None:
    store = MemoryRouterStore(key, base_url=shared_server.url, session_id="thread")

    assert store.mget(["colour"]) == [None]
    store.mset([("colour", "ultramarine"), ("address", {"street": "Canal Road", "number": 7})])

    assert store.mget(["colour", "address"]) == [
        "colour: ultramarine",
        'address: {"street": "Canal Road", "number": 7}',
    ]
    assert [row["content"] for row in store.search("ultramarine", limit=1)] == ["colour: ultramarine"]
    store.mdelete(["colour"])
    assert store.mget(["colour"]) == ["colour: ultramarine"]
    assert list(store.yield_keys()) == []


def test_async_store(shared_server: Server, key: str) -> None:
    store = MemoryRouterStore(key, base_url=shared_server.url)

    async def talk() -> list[Any]:
        await store.amset([("colour", "ultramarine")])
        return await store.amget(["colour"])

    assert asyncio.run(talk()) == ["colour: ultramarine"]


def test_retain_and_recall_nodes(shared_server: Server, key: str) -> None:
    retain = create_retain_node(base_url=shared_server.url)
    recall = create_recall_node(base_url=shared_server.url, context_limit=5)
    config: Any = {"configurable": {"memory_key": key, "thread_id": "th"}}
    spoken = [
        SystemMessage("Answer in verse."),
        HumanMessage("The vault door code is tangerine."),
        AIMessage(content="", tool_calls=[{"name": "look", "args": {}, "id": "1"}]),
        ToolMessage("a tool's answer", tool_call_id="1"),
        AIMessage("Noted: tangerine."),
    ]

    assert retain({"messages": spoken}, config) == {}
    context = recall({"messages": [HumanMessage("What is the door code?")]}, config)["memory_context"]

    assert "The vault door code is tangerine." in context
    rows = MemoryRouterClient(key, base_url=shared_server.url).search("tangerine verse tool", limit=50)["memories"]
    assert sorted((row["role"], row["content"]) for row in rows) == [
        ("assistant", "Noted: tangerine."),
        ("user", "The vault door code is tangerine."),
    ]
    assert {row["session_id"] for row in rows} == {"th"}


def test_nodes_find_the_vault_by_the_user(shared_server: Server, key: str) -> None:
    config: Any = {"configurable": {"user_id": key}}

    create_retain_node(base_url=shared_server.url)({"messages": [{"role": "user", "content": CAT}]}, config)

    mine = MemoryRouterClient(key, base_url=shared_server.url)
    assert contents(mine.search("cat")) == [CAT]
    assert create_recall_node(base_url=shared_server.url)({"messages": []}, config) == {"memory_context": None}


def test_tools(shared_server: Server, key: str) -> None:
    retain, recall = create_memory_tools(key, base_url=shared_server.url, default_limit=1)

    assert recall.invoke({"query": "cat"}) == "No relevant memories found."
    kept = retain.func([HumanMessage(CAT), AIMessage("A fine name.")]) if retain.func else None

    assert kept == "Retained 2 conversation message(s)."
    assert recall.invoke({"query": "cat called Biscuit"}) == CAT
    assert json.loads(json.dumps(recall.args))["query"]["type"] == "string"
