"""Imports of what no single quiet export wrote: pages read while the vault lived on, sent at once, or made by hand."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.api.client import Answer, Client

EXPORT, IMPORT, INSPECT = "/v1/memory/export", "/v1/memory/import", "/v1/memory/inspect"
STATS, REOPEN = "/v1/memory/stats", "/v1/memory/consolidate/reopen"


def send(client: Client, page: bytes, finish: bool = False) -> Answer:
    return client.post(IMPORT + ("?finish=true" if finish else ""), page, content_type="application/x-ndjson")


def page_of(rows: list[dict[str, Any]]) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows)


@pytest.fixture
def other(client: Client) -> Client:
    return client.using("mk_the-new-home")


def test_an_export_of_a_vault_that_lives_on_comes_back_sound(client: Client, other: Client) -> None:
    """Every row that was there throughout appears once, and what inspect counts adds up."""
    client.ingest(*(f"row {number}" for number in range(40)))
    batch, made = client.consolidate("of forty rows")
    throughout = {row["id"] for row in client.export()}
    parts: list[bytes] = []
    cursor: str | None = ""
    turn = 0
    while cursor is not None:
        answer = client.get(f"{EXPORT}?limit=5" + (f"&cursor={cursor}" if cursor else ""))
        parts.append(answer.body)
        cursor = answer.headers.get("X-Next-Cursor")
        live = [row["id"] for row in client.export() if row["tier"] == 1 and row["content"].startswith("row")]
        gone = [live[0], live[-1]]
        client.post("/v1/memory/delete-ids", {"ids": gone})
        throughout -= set(gone)
        client.ingest(f"new {turn}")
        turn += 1
    ids = [json.loads(line)["id"] for line in b"".join(parts).splitlines()]
    assert len(ids) == len(set(ids))
    assert set(ids) >= throughout
    for part in parts[:-1]:
        assert send(other, part).status == 200
    assert send(other, parts[-1], finish=True).json["total"] == len(ids)
    shown = other.post(INSPECT, {"memory_id": made[0]}).json
    assert len(shown["sources"]) + shown["sources_deleted"] == shown["sources_total"] == 40
    assert 0 < shown["sources_deleted"] < 40
    undone = other.post(REOPEN, {"batch_id": batch}).json
    assert undone["sources_returned"] == len(shown["sources"])


def test_pages_may_be_sent_at_once(client: Client, other: Client) -> None:
    for turn in range(4):
        client.ingest(*(f"row {turn} {number}" for number in range(30)))
        client.consolidate(f"reflected {turn}")
    whole = client.get(f"{EXPORT}?limit=5000").body
    lines = whole.splitlines(keepends=True)
    parts = [b"".join(lines[start : start + 8]) for start in range(0, len(lines), 8)]
    statuses: set[tuple[int, str]] = set()

    def work(number: int) -> None:
        for part in parts[number % 4 :: 4]:
            answer = send(other, part)
            statuses.add((answer.status, answer.json["status"]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == {(200, "open")}
    assert send(other, b"", finish=True).json == {"status": "complete", "stored": 0, "total": len(lines)}
    assert other.get(f"{EXPORT}?limit=5000").body == whole
    assert other.get(STATS).json["reflection"] == client.get(STATS).json["reflection"]


@pytest.mark.parametrize("name", ["tier", "count"])
def test_lines_that_disagree_about_a_batch_are_not_taken(name: str, client: Client, other: Client) -> None:
    """Taken, they would break the sums of the pools when the batch is undone."""
    client.ingest("one", "two", "three")
    client.consolidate("of three")
    client.consolidate("of one reflection", tier=2)
    rows = client.export()
    reflection = next(row for row in rows if row["tier"] == 2)
    raw = next(row for row in rows if row["tier"] == 1 and row["consolidation"]["position"] == 2)
    if name == "tier":
        # The raw row says that it went into the batch that consolidated the reflection.
        raw["consolidation"]["batch"] = reflection["consolidation"]["batch"] | {"tier": 1, "count": 10}
    else:
        first = next(row for row in rows if row["tier"] == 1 and row["consolidation"]["position"] == 0)
        first["consolidation"]["batch"]["count"] = 2
        rows.remove(first)
        rows.insert(0, first)
    for row in rows:
        assert send(other, page_of([row])).status == 200
    answer = send(other, b"", finish=True)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert "disagree" in answer.json["error"]
    assert other.export() == []
    assert other.delete("/v1/memory").status == 200
    assert send(other, page_of(client.export()), finish=True).status == 200


def test_lines_of_tier_1_can_be_fed_back_to_upload(client: Client, other: Client) -> None:
    client.ingest("one", "two")
    client.post("/v1/memory/ingest", {"messages": [{"role": "Ada", "content": " three ", "timestamp": 5}]})
    client.consolidate("of three")
    raw = [row for row in client.export() if row["tier"] == 1]
    answer = other.post("/v1/memory/upload", page_of(raw), content_type="text/plain")
    assert answer.json["stats"]["stored"] == 3
    fields = ("content", "role", "date")
    assert [[row[name] for name in fields] for row in other.export()] == [[row[name] for name in fields] for row in raw]
    refused = other.post("/v1/memory/upload", page_of(client.export()), content_type="text/plain")
    assert (refused.status, len(other.export())) == (400, 3)
