"""What every operation asks of every service: ``python -m tests.bench.units`` writes ``infra/costs/measured.json``.

A script of requests runs through the deployed handlers on a table and a search store in memory. Counts are the same in
every run; a test counts again and compares. Times belong to the machine that took them (``--counts`` keeps them).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.deployed import TABLE, Count, Deployed, answering
from tests.bench.vaults import Prose
from tests.dynamodb.sizes import item_size

FILE = Path(__file__).resolve().parents[2] / "infra" / "costs" / "measured.json"
CHARACTERS, REFLECTION_CHARACTERS = 420, 600
HELD, SESSION_ROWS = 1_000, 40
SOURCES, ENTRIES = 100, 10
TOP = 10
LARGE_VAULT = 20_000
MINUTE, HOUR = 60_000, 3_600_000
ITEM_OVERHEAD = 100
"""Bytes that the table bills beside an item, and beside each entry of an index."""

Counts = dict[str, dict[str, Count]]


def script(on: Deployed) -> Counts:
    """Every operation once, in a vault of `HELD` memories with a model's vectors.

    Requests that read come an hour apart, so that each of them notes the key's use; those that write a minute.
    """
    prose = Prose()
    found: Counts = {}

    def message() -> dict[str, str]:
        return {"role": "user", "content": prose.text(CHARACTERS)}

    def ingest(number: int, session: int) -> Callable[[], object]:
        body = {"messages": [message() for _ in range(number)], "session_id": f"session {session}"}
        return lambda: count("POST", "/v1/memory/ingest", body)

    def count(
        method: str, path: str, body: object = None, lines: bool = False, after: int = MINUTE
    ) -> tuple[Any, Count, Count]:
        on.clock.now += after
        answer, now = on.call(method, path, body, lines)
        return answer, now, on.follow()

    def note(name: str, *args: Any, **more: Any) -> Any:
        answer, now, later = count(*args, **more)
        found[name] = {"answer": now, "indexing": later}
        return answer

    for first in range(0, HELD, SESSION_ROWS):
        ingest(min(SESSION_ROWS, HELD - first), first // SESSION_ROWS)()

    question = prose.question()
    asked = {"query": question, "limit": TOP}
    note("search", "POST", "/v1/memory/search", asked, after=HOUR)
    on.search.population = LARGE_VAULT
    note("search_large_vault", "POST", "/v1/memory/search", asked, after=HOUR)
    on.search.population = None
    turns = {"messages": [{"role": "user", "content": question}]}
    note("prepare", "POST", "/v1/memory/prepare", turns, after=HOUR)
    note("date_search", "POST", "/v1/memory/date-search", {"from": "2026-02-01", "max_tokens": 2_000}, after=HOUR)
    note("stats", "GET", "/v1/memory/stats", after=HOUR)
    note("usage", "GET", "/v1/account/usage", after=HOUR)

    body = {"messages": [message() for _ in range(25)], "session_id": "talk"}
    note("ingest_25", "POST", "/v1/memory/ingest", body)
    on.clock.now -= MINUTE
    note("search_after_ingest_25", "POST", "/v1/memory/search", asked)
    body = {"messages": [message()], "session_id": "talk"}
    single = note("ingest_1", "POST", "/v1/memory/ingest", body)
    text = "\n".join(json.dumps({"content": prose.text(CHARACTERS), "role": "user"}) for _ in range(100))
    note("upload_100", "POST", "/v1/memory/upload", text.encode(), lines=True)
    note("inspect", "POST", "/v1/memory/inspect", {"memory_id": single["ids"][0]})
    note("delete_1", "POST", "/v1/memory/delete-ids", {"ids": single["ids"]})

    tokens = SOURCES * -(-CHARACTERS // 4)
    batch = note("checkout_100", "POST", "/v1/memory/consolidate/checkout", {"tier": 1, "max_tokens": tokens})
    assert batch["count"] == SOURCES, batch["count"]
    entries = [{"text": prose.text(REFLECTION_CHARACTERS), "importance": 5} for _ in range(ENTRIES)]
    done = note(
        "commit_100_to_10", "POST", "/v1/memory/consolidate/commit", {"batch_id": batch["batch_id"], "entries": entries}
    )
    assert done["sources_consolidated"] == SOURCES, done
    batch = note("checkout_released", "POST", "/v1/memory/consolidate/checkout", {"tier": 1, "max_tokens": tokens})
    note("renew", "POST", "/v1/memory/consolidate/renew", {"batch_id": batch["batch_id"]})
    note("release", "POST", "/v1/memory/consolidate/release", {"batch_id": batch["batch_id"]})
    return found


def storage(on: Deployed) -> dict[str, int]:
    """Bytes that the table bills for what the script left, by kind: items and their entries in the local indexes."""
    indexes = on.memory.indexes(TABLE)
    sizes: dict[str, list[int]] = {}
    for item in on.memory.snapshot(TABLE):
        kind = _kind(item)
        entries = [entry for index in indexes if (entry := index.entry(item)) is not None]
        size = sum(item_size(each) + ITEM_OVERHEAD for each in (item, *entries))
        sizes.setdefault(kind, []).append(size)
    return {kind: round(sum(each) / len(each)) for kind, each in sorted(sizes.items()) if kind}


def _kind(item: dict[str, Any]) -> str:
    sort = item["sk"]["S"]
    if sort.startswith("M#"):
        tier = item["t"]["N"]
        return "reflection" if tier != "1" else "memory_consolidated" if "by" in item else "memory_waiting"
    if sort.startswith("B#"):
        return "batch_sources" if sort.endswith("#S0") else "batch_header"
    return ""


def counted() -> dict[str, Any]:
    """Everything that is the same in every run, as it stands in the file."""
    with answering(Deployed()) as on:
        operations = script(on)
        return {
            "vault_memories": HELD,
            "memory_characters": CHARACTERS,
            "reflection_characters": REFLECTION_CHARACTERS,
            "consolidation": {"sources": SOURCES, "entries": ENTRIES},
            "stored_bytes": storage(on),
            "operations": {
                name: {part: asdict(each) for part, each in parts.items()} for name, parts in operations.items()
            },
        }


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.units", description=__doc__)
    options.add_argument("--counts", action="store_true", help="count only, and keep the times that the file has")
    chosen = options.parse_args()
    if chosen.counts:
        times = json.loads(FILE.read_text("utf-8"))["times"]
    else:
        from tests.bench.handler_times import measured

        times = {"date": f"{datetime.now(UTC):%Y-%m-%d}", **measured()}
    FILE.write_text(json.dumps({**counted(), "times": times}, indent=1) + "\n", "utf-8")
    print(f"{FILE.name}: {len(fields(Count))} numbers for each part of an operation")


if __name__ == "__main__":
    main()
