"""The shapes that existing clients were written for, one test for each documented call."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.api.client import Client

CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")
NO_DEBT = {
    "unconsolidated": {
        "raw": {"units": 0, "est_tokens": 0, "importance_equiv": 0},
        "tier2": {"count": 0, "importance": 0, "est_tokens": 0},
    },
    "threshold_tokens": 50000,
    "threshold_importance": 150,
    "suggestion": None,
}


def debt(units: int, tokens: int, count: int = 0, importance: int = 0, tier2_tokens: int = 0) -> dict[str, Any]:
    raw = {"units": units, "est_tokens": tokens, "importance_equiv": tokens * 3 // 1000}
    tier2 = {"count": count, "importance": importance, "est_tokens": tier2_tokens}
    return NO_DEBT | {"unconsolidated": {"raw": raw, "tier2": tier2}}


@pytest.fixture
def talk(client: Client) -> list[str]:
    """Three rows of 2026, 5 + 6 + 4 tokens."""
    turns = [
        ("user", "We keep tokens as JWT.", "2026-02-01T04:11:09Z"),
        ("assistant", "Postgres holds the users.", 1770662422000),
        ("user", "Ship it on Monday.", "2026-02-10T12:00:00+02:00"),
    ]
    messages = [{"role": role, "content": text, "timestamp": time} for role, text, time in turns]
    answer = client.post("/v1/memory/ingest", {"messages": messages})
    assert answer.status == 202
    ids = answer.json["ids"]
    assert isinstance(ids, list)
    return ids


def test_ingest(client: Client) -> None:
    messages = [
        {"role": "user", "content": "four characters a token"},
        {"role": "assistant", "content": "not this one", "memory": False},
        {"role": "tool", "content": None},
        {
            "role": "Ann",
            "content": [{"type": "text", "text": "one"}, {"type": "image_url"}, {"type": "text", "text": "two"}],
        },
    ]
    answer = client.post("/v1/memory/ingest", {"messages": messages, "session_id": "t1", "model": "my-app"})
    body = answer.json
    assert (answer.status, body["status"], body["stored"], body["session_id"]) == (202, "accepted", 2, "t1")
    assert all(UUID.fullmatch(each) for each in body["ids"])
    assert body["ids"] == sorted(body["ids"])
    assert body["reflection"] == debt(2, 6 + 2)
    assert [(row["role"], row["content"]) for row in client.export()] == [
        ("user", "four characters a token"),
        ("Ann", "one\ntwo"),
    ]


def test_checkout_and_commit(client: Client, talk: list[str]) -> None:
    out = client.post(CHECKOUT, {"tier": 1, "max_tokens": 50000}).json
    assert re.fullmatch(r"cb_[0-9a-f]{32}", out["batch_id"])
    assert (out["tier"], out["count"], out["est_tokens"]) == (1, 3, 6 + 7 + 5)
    assert out["covers"] == {"from": "2026-02-01T04:11:09.000Z", "to": "2026-02-10T10:00:00.000Z"}
    assert TIME.fullmatch(out["lease_expires_at"])
    assert out["memories"][0] == {"text": "We keep tokens as JWT.", "date": "2026-02-01T04:11:09.000Z"}
    assert [set(memory) for memory in out["memories"]] == [{"text", "date"}] * 3
    assert out["source_ids"] == talk
    contract = out["reflection_contract"]
    assert contract["version"] >= 2
    assert (contract["target_tier"], contract["min_entries"], contract["max_entries"]) == (2, 1, 100)
    assert contract["recommended_entries"] == "5-10"
    assert set(contract["entry_schema"]) == {"text", "importance"}
    assert set(out["tier_definitions"]) == {"target_tier", "instruction"}
    shown = json.dumps([contract, out["tier_definitions"], out["memories"]])
    assert not any(memory_id in shown for memory_id in talk)

    entries = [
        {"text": "They chose JWT and Postgres.", "importance": 8},
        {"text": "It ships on Monday.", "importance": 6},
    ]
    done = client.post(COMMIT, {"batch_id": out["batch_id"], "entries": entries}).json
    assert (done["batch_id"], done["committed"], done["already_committed"]) == (out["batch_id"], True, False)
    assert (done["tier"], done["sources_consolidated"]) == (2, 3)
    assert [created["importance"] for created in done["created"]] == [8, 6]
    assert done["reflection"] == debt(0, 0, 2, 14, 7 + 5)

    again = client.post(COMMIT, {"batch_id": out["batch_id"], "entries": entries[:1]})
    assert (again.status, again.json["already_committed"], again.json["created"]) == (200, True, done["created"])


def test_nothing_to_consolidate_ends_the_loop(client: Client) -> None:
    answer = client.post(CHECKOUT, {"tier": 2})
    assert answer.status == 200
    expected = {"batch_id": None, "count": 0, "message": "nothing unconsolidated", "tier": 2}
    assert expected.items() <= answer.json.items()


def test_inspect_leads_down_and_up(client: Client, talk: list[str]) -> None:
    batch_id, (reflection,) = client.consolidate("They chose JWT.")
    down = client.post("/v1/memory/inspect", {"memory_id": reflection.upper()}).json
    assert (down["memory_id"], down["tier"], down["batch_id"]) == (reflection, 2, batch_id)
    assert down["covers"] == {"from": "2026-02-01T04:11:09.000Z", "to": "2026-02-10T10:00:00.000Z"}
    assert (down["sources_total"], down["sources_deleted"], down["truncated"]) == (3, 0, False)
    assert [source["id"] for source in down["sources"]] == talk
    assert down["sources"][0] == {
        "id": talk[0],
        "tier": 1,
        "content": "We keep tokens as JWT.",
        "role": "user",
        "importance": None,
        "date": "2026-02-01T04:11:09.000Z",
    }
    up = client.post("/v1/memory/inspect", {"memory_id": talk[0]}).json
    assert (up["memory_id"], up["tier"], up["content"]) == (talk[0], 1, "We keep tokens as JWT.")
    assert [(each["id"], each["tier"], each["importance"]) for each in up["consolidated_into"]] == [(reflection, 2, 7)]

    client.post("/v1/memory/delete-ids", {"ids": talk[:1]})
    gap = client.post("/v1/memory/inspect", {"memory_id": reflection}).json
    assert (gap["sources_total"], gap["sources_deleted"], len(gap["sources"])) == (3, 1, 2)


def test_search_and_its_filters(client: Client, talk: list[str]) -> None:
    client.consolidate("They chose JWT for tokens.", "Monday is the day.")
    found = client.post("/v1/memory/search", {"query": "JWT tokens", "limit": 10}).json
    assert set(found) >= {"memories", "reflection"}
    assert {row["tier"] for row in found["memories"][:3]} >= {1, 2}
    assert all(("importance" in row) == (row["tier"] > 1) for row in found["memories"])
    scores = [row["score"] for row in found["memories"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    rated = client.post("/v1/memory/search", {"query": "tokens", "importance": 7}).json["memories"]
    assert {row["tier"] for row in rated} == {2}
    raw = client.post("/v1/memory/search", {"query": "tokens", "tiers": [1]}).json["memories"]
    assert {row["tier"] for row in raw} == {1}
    assert client.post("/v1/memory/search", {"query": "tokens", "tiers": [1], "importance": 1}).json["memories"] == []


def test_prepare(client: Client, talk: list[str]) -> None:
    body = {"messages": [{"role": "user", "content": "Which database holds the users?"}], "density": "low"}
    answer = client.post("/v1/memory/prepare", body).json
    assert "Postgres holds the users." in answer["context"]
    assert answer["memories_found"] >= 1
    assert answer["tokens"] == -(-len(answer["context"].encode()) // 4)
    assert answer["reflection"] == debt(3, 18)
    assert "[Mon 9 Feb 2026, 18:40] assistant: Postgres holds the users." in answer["context"]
    nothing = client.post("/v1/memory/prepare", body | {"context_limit": 0}).json
    assert (nothing["context"], nothing["memories_found"]) == ("", 0)
    blank = client.post("/v1/memory/prepare", {"messages": [{"role": "user", "content": None}]}).json
    assert blank["context"] == ""


def test_date_search_pages_both_ways(client: Client, talk: list[str]) -> None:
    window = {"from": "2026-02-01", "to": "2026-02-09"}
    newest = client.post("/v1/memory/date-search", window).json
    assert [row["id"] for row in newest["memories"]] == [talk[1], talk[0]]
    assert newest["truncated"] is False
    assert newest["returned"] == {"from": "2026-02-01T00:00:00.000Z", "to": "2026-02-10T00:00:00.000Z"}
    oldest = client.post("/v1/memory/date-search", window | {"order": "oldest_first"}).json
    assert [row["id"] for row in oldest["memories"]] == talk[:2]
    ranked = client.post("/v1/memory/date-search", window | {"query": "Postgres"}).json
    assert ranked["memories"][0]["id"] == talk[1]

    client.ingest(*(f"{number} " + "x" * 1200 for number in range(9)))
    request: dict[str, Any] = {"from": "2026-01-01", "max_tokens": 1000}
    seen: list[str] = []
    for _ in range(20):
        page = client.post("/v1/memory/date-search", request).json
        seen += [row["id"] for row in page["memories"]]
        if not page["truncated"]:
            break
        request["to"] = page["returned"]["from"]
    assert sorted(seen) == sorted(row["id"] for row in client.export())


def test_delete_ids(client: Client, talk: list[str]) -> None:
    unknown = "0199d1f0-0000-7000-8000-000000000001"
    answer = client.post("/v1/memory/delete-ids", {"ids": [talk[0].upper(), unknown]})
    assert answer.json == {
        "requested": 2,
        "deleted": 1,
        "do_deleted": 1,
        "not_found": 1,
        "legacy_fallback_used": 0,
        "failed": [],
    }
    assert talk[0] not in [row["id"] for row in client.export()]


def test_upload(client: Client) -> None:
    lines = b'{"content": "first line", "role": "assistant", "timestamp": 1770662422000}\n{"content": "second"}\n'
    body = client.post("/v1/memory/upload", lines, content_type="text/plain", headers={"X-Session-ID": "s"}).json
    assert (body["status"], body["vault"], body["sessionId"]) == ("complete", "session", "s")
    stats = {"inputItems": 2, "inputTokens": 3 + 2, "stored": 2, "failed": 0, "total": 2, "processed": 2}
    assert stats.items() <= body["stats"].items()
    assert client.export()[0]["date"] == "2026-02-09T18:40:22.000Z"
    assert {row["session_id"] for row in client.export()} == {"s"}


def test_keys(client: Client) -> None:
    made = client.post("/v1/keys")
    assert made.status == 201
    assert re.fullmatch(r"mk_[A-Za-z0-9_-]{32}", made.json["key"])
    assert TIME.fullmatch(made.json["created_at"])
    own = client.using(made.json["key"])
    own.ingest("in a vault of its own")
    assert client.export() == []
    reader = client.post("/v1/keys", {"name": "reader", "scopes": ["memories:read"], "vault": "same"}).json
    client.ingest("shared")
    assert len(client.using(reader["key"]).export()) == 1
    assert client.using(reader["key"]).post("/v1/memory/ingest", b"").status == 403
    listed = client.get("/v1/keys").json["keys"]
    assert {made.json["key_id"], reader["key_id"]} <= {key["key_id"] for key in listed}
    assert all("key" not in key for key in listed)
    assert client.delete(f"/v1/keys/{reader['key_id']}").status == 200
    assert client.using(reader["key"]).get("/v1/memory/stats").status == 401
    assert client.delete(f"/v1/keys/{reader['key_id']}").status == 404


def test_stats_warmup_usage_and_health(client: Client, talk: list[str]) -> None:
    stats = client.get("/v1/memory/stats").json
    assert (stats["memories"], stats["totalTokens"], stats["total_tokens"]) == (3, 18, 18)
    assert (stats["oldest"], stats["oldestItem"]) == ("2026-02-01T04:11:09.000Z", 1769919069000)
    assert stats["reflection"] == debt(3, 18)
    warm = client.post("/v1/memory/warmup").json
    assert (warm["status"], warm["memories_loaded"], warm["vaults"][0]["vault"]) == ("warm", 3, "core")
    usage = client.get("/v1/account/usage").json
    assert usage["summary"]["requestCount"] == 1
    assert client.get("/health").json["status"] == "healthy"


def test_release_renew_reopen(client: Client, talk: list[str]) -> None:
    batch_id = client.post(CHECKOUT, {"tier": 1}).json["batch_id"]
    renewed = client.post("/v1/memory/consolidate/renew", {"batch_id": batch_id}).json
    assert (renewed["batch_id"], renewed["state"]) == (batch_id, "leased")
    released = client.post("/v1/memory/consolidate/release", {"batch_id": batch_id}).json
    assert (released["state"], released["returned"], released["reflection"]) == ("released", 3, debt(3, 18))
    entry = {"text": "late", "importance": 1}
    late = client.post(COMMIT, {"batch_id": batch_id, "entries": [entry]})
    assert late.status == 409
    second, _ = client.consolidate("They chose.")
    reopened = client.post("/v1/memory/consolidate/reopen", {"batch_id": second}).json
    assert (reopened["state"], reopened["reflections_removed"], reopened["sources_returned"]) == ("reopened", 1, 3)
    refused = client.post(COMMIT, {"batch_id": second, "entries": [entry]})
    assert (refused.status, refused.code) == (409, "reopened")


def test_a_retry_with_an_idempotency_key_stores_once(client: Client) -> None:
    body = {"messages": [{"role": "user", "content": "once"}]}
    key = {"Idempotency-Key": "request 1"}
    first = client.post("/v1/memory/ingest", body, headers=key)
    again = client.post("/v1/memory/ingest", body, headers=key)
    assert first.json["ids"] == again.json["ids"]
    assert len(client.export()) == 1
    other = client.post("/v1/memory/ingest", {"messages": [{"role": "user", "content": "two"}]}, headers=key)
    assert (other.status, other.code) == (409, "idempotency_mismatch")
    session = client.post("/v1/memory/ingest", body, headers=key | {"X-Session-ID": "s"})
    assert session.status == 409
    assert client.post("/v1/memory/ingest", body, headers={"Idempotency-Key": ""}).status == 400
    assert client.post("/v1/memory/ingest", body, headers={"Idempotency-Key": "k" * 256}).status == 400


def test_export_pages_and_comes_back(client: Client, talk: list[str]) -> None:
    client.consolidate("They chose JWT.")
    first = client.get("/v1/memory/export?limit=3")
    assert first.headers["Content-Type"] == "application/x-ndjson"
    rest = client.get(f"/v1/memory/export?cursor={first.headers['X-Next-Cursor']}")
    assert "X-Next-Cursor" not in rest.headers
    other = client.using("mk_another-vault")
    assert other.get(f"/v1/memory/export?cursor={first.headers['X-Next-Cursor']}").status == 400
    opened = other.post("/v1/memory/import", first.body, content_type="application/x-ndjson").json
    assert opened["status"] == "open"
    closed = other.post("/v1/memory/import?finish=true", rest.body, content_type="application/x-ndjson").json
    assert (closed["status"], closed["total"]) == ("complete", 4)
    assert other.export() == client.export()
