"""What a call through `/mcp` costs over the REST call that does the same."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.local.gateway import Gateway, Response
from shared import bootstrap
from shared.settings import Settings
from tests.bench.report import Options, Row, at_most, ms, paired, times
from tests.bench.vaults import Prose

MODEL = "hashed-64"
KEY = "mk_measured-by-the-bench"
ROWS, QUICK_ROWS, AT_ONCE = 2_000, 400, 100
ROUNDS, QUICK_ROUNDS = 300, 60
CHARACTERS = 300
SOURCES, ENTRIES = 50, 8
MOST = 1.1
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


Made = Callable[[], Mapping[str, Any]]


class Caller:
    """Calls the gateway as a server does, each request a JSON text of its own."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._headers = [("Authorization", f"Bearer {KEY}"), ("Content-Type", "application/json")]

    def rest(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._sent(path, body, ()).body

    def tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        params = {"name": name, "arguments": arguments, "_meta": META}
        headers = (("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", name))
        return self._sent("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers).body

    def _sent(self, path: str, body: Mapping[str, Any], headers: Sequence[tuple[str, str]]) -> Response:
        raw = json.dumps(body).encode()
        answer = self._gateway.handle("POST", path, "", [*self._headers, *headers], raw)
        assert answer.status < 300, answer.body
        assert b'"isError":true' not in answer.body, answer.body
        return answer


def run(options: Options) -> Sequence[Row]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if options.quick else (ROWS, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        settings = Settings(data=Path(folder) / "data", embedder=MODEL, calls_per_minute=1_000_000)
        with bootstrap.Embedded(settings) as backend:
            bootstrap.activate(backend)
            try:
                return _measured(Caller(Gateway(backend.services)), rows, rounds)
            finally:
                bootstrap.activate(None)


def _measured(caller: Caller, rows: int, rounds: int) -> list[Row]:
    prose = Prose()
    ids: list[str] = []
    for _ in range(rows // AT_ONCE):
        messages = [{"role": "user", "content": prose.text(CHARACTERS)} for _ in range(AT_ONCE)]
        ids += json.loads(caller.rest("/v1/memory/ingest", {"messages": messages}))["ids"]
    entries = [{"text": prose.text(CHARACTERS), "importance": 5} for _ in range(ENTRIES)]
    source = {"tier": 1, "max_tokens": SOURCES * CHARACTERS // 4}

    def by_rest() -> None:
        batch = json.loads(caller.rest("/v1/memory/consolidate/checkout", source))["batch_id"]
        caller.rest("/v1/memory/consolidate/commit", {"batch_id": batch, "entries": entries})

    def by_tools() -> None:
        batch = json.loads(caller.tool("consolidate_memories", source))["result"]["structuredContent"]["batch_id"]
        caller.tool("commit_reflections", {"batch_id": batch, "entries": entries})

    by_rest()
    found = json.loads(caller.rest("/v1/memory/inspect", {"memory_id": ids[0]}))["consolidated_into"][0]["id"]

    def row(what: str, route: str, rounds: int, rest: Callable[[], object], tool: Callable[[], object]) -> Row:
        (_, plain), (_, called) = paired(rounds, (rest, tool))
        target, met = at_most(called / plain, MOST)
        return Row(what, ms(called), f"{ms(plain)}, {route}", times(called, plain), target, met)

    def pair(route: str, tool: str, body: Made, given: Made) -> Row:
        path = f"/v1/memory/{route}"
        return row(
            f"`{tool}`", f"POST {path}", rounds, lambda: caller.rest(path, body()), lambda: caller.tool(tool, given())
        )

    page = {"from": "2020-01-01", "max_tokens": 2_000}

    def message() -> str:
        return prose.text(CHARACTERS)

    return [
        pair("search", "search_memories", lambda: {"query": prose.question()}, lambda: {"query": prose.question()}),
        pair("date-search", "date_search_memories", lambda: page, lambda: page),
        pair("inspect", "inspect_memory", lambda: {"memory_id": found}, lambda: {"memory_id": found}),
        pair("inspect", "fetch", lambda: {"memory_id": ids[0]}, lambda: {"id": ids[0]}),
        pair(
            "ingest",
            "store_memory",
            lambda: {"messages": [{"role": "user", "content": message()}]},
            lambda: {"text": message()},
        ),
        row(
            "`consolidate_memories`, then `commit_reflections`",
            "checkout, then commit",
            len(ids) // SOURCES // 2 - 1,
            by_rest,
            by_tools,
        ),
    ]


TITLE = "Tools beside their REST calls"
NOTE = (
    f"CPU p50 of one call through the handlers, without a socket, in a vault of {ROWS:,} rows of {CHARACTERS}"
    " characters; both take turns. Words and vectors are the hashing model's, which costs nearly nothing: with a"
    " real model every search and every write costs some 10 ms more on both sides. A tool's answer says everything"
    f" twice, as JSON and as text. `inspect_memory` shows a reflection with its {SOURCES} sources; a batch has as many,"
    f" and {ENTRIES} entries. The origin, the envelope and the count of calls are part of it."
)
