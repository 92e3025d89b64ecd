"""The real server is killed again and again under contending clients; then their logs are held against the vault."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.contender import KEY
from tests.e2e.server import ROOT, Server

CLIENTS = 5
KILLS = 12
ALIVE_SECONDS = (0.3, 1.6)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def exported(client: httpx.Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = client.get("/v1/memory/export", params={"limit": 1000} | ({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200
        rows += [json.loads(line) for line in answer.text.splitlines()]
        cursor = answer.headers.get("X-Next-Cursor")
    return rows


def check_debt(client: httpx.Client, rows: list[dict[str, Any]]) -> None:
    """The debt block is what a recount of the export gives."""
    free = [row for row in rows if "consolidation" not in row]
    pools = {tier: [row for row in free if row["tier"] == tier] for tier in (1, 2)}
    tokens = {tier: sum(-(-len(row["content"].encode()) // 4) for row in pools[tier]) for tier in pools}
    told = client.get("/v1/memory/stats").json()["reflection"]["unconsolidated"]
    assert (told["raw"]["units"], told["raw"]["est_tokens"]) == (len(pools[1]), tokens[1])
    assert (told["tier2"]["count"], told["tier2"]["est_tokens"]) == (len(pools[2]), tokens[2])
    assert told["tier2"]["importance"] == sum(row["importance"] for row in pools[2])


def drain(client: httpx.Client) -> None:
    """Consolidate all that is left; leases of the dead run out within two seconds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = client.post("/v1/memory/consolidate/checkout", json={"tier": 1}).json()
        if found["batch_id"] is not None:
            body = {"batch_id": found["batch_id"], "entries": [{"text": "the rest", "importance": 1}]}
            assert client.post("/v1/memory/consolidate/commit", json=body).status_code == 200
        elif found["leased"] == 0:
            return
        else:
            time.sleep(0.1)
    raise AssertionError("leases of clients that are gone never ran out")


def logged(folder: Path) -> Iterator[dict[str, Any]]:
    for number in range(CLIENTS):
        for line in (folder / f"log-{number}.jsonl").read_text().splitlines():
            yield json.loads(line)


def check_log(log: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    """Nothing acknowledged is lost, nothing is stored or consolidated twice."""
    by_id = {row["id"]: row for row in rows}
    of = {what: [entry for entry in log if entry["what"] == what] for what in {entry["what"] for entry in log}}
    assert "surprise" not in of, of["surprise"]
    delete_tried = {entry["id"] for entry in of.get("delete-tried", [])}
    for entry in of["ingest"]:
        for memory_id, text in zip(entry["ids"], entry["texts"], strict=True):
            assert memory_id in delete_tried or by_id[memory_id]["content"] == text, "an acknowledged row is lost"
    assert not {entry["id"] for entry in of.get("delete", [])} & by_id.keys(), "a deleted row is back"
    raw = [row["content"] for row in rows if row["tier"] == 1]
    assert len(raw) == len(set(raw)), "a repeated request was stored twice"
    assert set(raw) <= {text for entry in of["ingest-tried"] for text in entry["texts"]}
    assert all(entry["found"] for entry in of.get("search", [])), "a row was not found by its word"
    answers: dict[str, tuple[list[str], int]] = {}
    for entry in of["commit"]:
        told = (entry["created"], entry["sources"])
        assert answers.setdefault(entry["batch"], told) == told, "one batch, two answers"
    assert not answers.keys() & {entry["batch"] for entry in of.get("refused", [])}, "refused, yet committed"
    for created, _ in answers.values():
        assert set(created) <= by_id.keys(), "an acknowledged reflection is lost"
    consolidated: dict[str, str] = {}
    for entry in of["checkout"]:
        if entry["batch"] in answers:
            for memory_id in entry["sources"]:
                other = consolidated.setdefault(memory_id, entry["batch"])
                assert other == entry["batch"] or memory_id in delete_tried, "a row was consolidated twice"
    for memory_id, batch in consolidated.items():
        assert memory_id not in by_id or by_id[memory_id]["consolidation"]["batch"]["id"] == batch


def check_lineage(rows: list[dict[str, Any]]) -> None:
    """After the drain every raw row is a source of one batch, and each batch's places add up."""
    places: dict[str, list[int]] = {}
    headers: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["tier"] == 1:
            batch = row["consolidation"]["batch"]
            headers[batch["id"]] = batch
            places.setdefault(batch["id"], []).append(row["consolidation"]["position"])
    for name, taken in places.items():
        assert len(set(taken)) == len(taken)
        assert len(taken) + headers[name]["sources_deleted"] == headers[name]["count"]


def test_nothing_is_lost_or_done_twice_when_the_server_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    port = free_port()
    settings = {"STRATA_EMBEDDER": "hashed-64", "STRATA_LEASE_SECONDS": "1", "STRATA_PORT": str(port)}
    server, draw = Server(tmp_path, settings), random.Random(7)
    server.start()
    arguments = [sys.executable, "-m", "tests.e2e.contender", server.url, str(tmp_path)]
    clients = [subprocess.Popen([*arguments, str(number)], cwd=ROOT) for number in range(CLIENTS)]
    try:
        for _ in range(KILLS):
            time.sleep(draw.uniform(*ALIVE_SECONDS))
            server.kill()
            server.start()
        time.sleep(1)
        (tmp_path / "stop").touch()
        for client in clients:
            assert client.wait(30) == 0
        with httpx.Client(base_url=server.url, headers={"X-Memory-Key": KEY}, timeout=30) as auditor:
            check_debt(auditor, exported(auditor))
            drain(auditor)
            rows = exported(auditor)
            check_debt(auditor, rows)
            log = list(logged(tmp_path))
            check_log(log, rows)
            check_lineage(rows)
        commits = len({entry["batch"] for entry in log if entry["what"] == "commit"})
        counts = {"kills": KILLS, "rows": len(rows), "answers": len(log), "commits": commits, "lost": 0}
        request.node.user_properties.append(("kill -9", counts))
        assert commits >= KILLS
    finally:
        for client in clients:
            client.kill()
        assert server.stop() == 0
