"""What a tool asks of AWS: what its REST route asks, and one write that counts the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.bench.deployed import Count, Deployed, answering
from tests.bench.vaults import Prose

TEXT = {"role": "user", "content": "The kettle is blue."}


def counted(path: str, body: Mapping[str, Any]) -> Count:
    """Of one request in a vault of 20 memories, an hour after the last one."""
    with answering(Deployed()) as on:
        prose = Prose()
        for _ in range(20):
            on.call("POST", "/v1/memory/ingest", {"messages": [{"role": "user", "content": prose.text(200)}]})
        on.follow()
        on.clock.now += 3_600_000
        _, count = on.call("POST", path, body)
        return count


def tool(name: str, arguments: Mapping[str, Any]) -> Count:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return counted("/mcp", asked)


@pytest.mark.parametrize(
    ("route", "body", "name", "arguments"),
    [
        ("search", {"query": "kettle"}, "search_memories", {"query": "kettle"}),
        ("date-search", {"from": "2020-01-01", "max_tokens": 10_000}, "date_search_memories", {"from": "2020-01-01"}),
        ("ingest", {"messages": [TEXT]}, "store_memory", {"text": TEXT["content"]}),
        ("consolidate/checkout", {"tier": 1, "max_tokens": 10_000}, "consolidate_memories", {}),
    ],
)
def test_a_call_costs_what_its_route_costs_and_one_write(
    route: str, body: Mapping[str, Any], name: str, arguments: Mapping[str, Any]
) -> None:
    rest, called = counted(f"/v1/memory/{route}", body), tool(name, arguments)
    sizes = {"request_bytes": called.request_bytes, "answer_bytes": called.answer_bytes}
    counting = {
        "table_requests": rest.table_requests + 1,
        "write_units": rest.write_units + 1,
        "items_written": rest.items_written + 1,
    }
    assert called == replace(rest, **sizes, **counting)
