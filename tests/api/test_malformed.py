"""Bad requests: 4xx that names the field and the problem, nothing changed, never a 5xx."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.api.client import Client

INGEST, UPLOAD, SEARCH = "/v1/memory/ingest", "/v1/memory/upload", "/v1/memory/search"
PREPARE, BY_DATE, INSPECT = "/v1/memory/prepare", "/v1/memory/date-search", "/v1/memory/inspect"
CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
DELETE_IDS, KEYS, IMPORT = "/v1/memory/delete-ids", "/v1/keys", "/v1/memory/import"
UUID = "0199d1f0-0000-7000-8000-000000000001"
NESTED = b'{"query": ' + b"[" * 65 + b"]" * 65 + b"}"


def message(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "text"} | fields]}


NO_INTEGERS: tuple[Any, ...] = (5.0, True, "5")
NO_LISTS: tuple[Any, ...] = ([], 1, "1", {"1": 1})

BROKEN: list[tuple[bytes, str]] = [
    (b"", "body"),
    (b"  \r\n", "body"),
    (b"{", "body"),
    (b"[]", "body"),
    (b'{"query": "a", "x": [' + b"[]," * 100_000 + b"[]]}", "body"),
    (b'"text"', "body"),
    (b"null", "body"),
    (b"{} {}", "body"),
    (b'{"query": "\xff"}', "body"),
    (b'{"query": "\xed\xa0\x80"}', "body"),
    (b'{"query": "a", "query": "b"}', "body"),
    (b'{"query": "a", "tiers": [{"x": 1, "x": 2}]}', "body"),
    (b'{"query": "a", "x": NaN}', "body"),
    (b'{"query": "a", "x": -Infinity}', "body"),
    (b'{"query": "a", "x": {"y": 1e400}}', "x.y"),
    (b'{"query": "a", "x": [0, 9223372036854775808]}', "x.1"),
    (b'{"query": "a", "x": ' + b"9" * 5000 + b"}", "body"),
    (b'{"query": "\\ud800"}', "query"),
    (b'{"query": "a", "x": ["\\udfff\\ud800"]}', "x.0"),
    (b'{"query": "a\\u0000b"}', "query"),
    (b'{"query": "a", "\\ud83d": 1}', "body"),
    (b'{"query": "a", "x": {"\\u0000": 1}}', "x"),
    (b'{"query": "a\x01b"}', "body"),
    (b"[" * 200_000, "body"),
    (b'{"a":' * 200_000, "body"),
    (gzip.compress(b'{"query": "a"}'), "body"),
]


@pytest.mark.parametrize(("raw", "field"), BROKEN, ids=range(len(BROKEN)))
def test_json_that_is_not_json_enough(raw: bytes, field: str, client: Client) -> None:
    answer = client.post(SEARCH, raw)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.fields == [field]


def test_nesting_is_limited(client: Client) -> None:
    assert client.post(SEARCH, NESTED).status == 400
    shallow = b'{"query": "a", "x": ' + b"[" * 60 + b"]" * 60 + b"}"
    assert client.post(SEARCH, shallow).status == 200


def test_pairs_of_surrogates_and_a_byte_order_mark_are_fine(client: Client) -> None:
    raw = b'\xef\xbb\xbf{"messages": [{"role": "user", "content": "\\ud83c\\udf89 \\u2028"}]}'
    assert client.post(INGEST, raw).status == 202
    assert [row["content"] for row in client.export()] == ["🎉 \u2028"]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (INGEST, {}, "messages"),
    (INGEST, {"messages": []}, "messages"),
    (INGEST, {"messages": {}}, "messages"),
    (INGEST, {"messages": ["text"]}, "messages.0"),
    (INGEST, {"messages": [message()["messages"][0]] * 501}, "messages"),
    (INGEST, message(role=1), "messages.0.role"),
    (INGEST, message(content=5), "messages.0.content"),
    (INGEST, message(content={"type": "text", "text": "a"}), "messages.0.content"),
    (INGEST, message(content=[1]), "messages.0.content"),
    (INGEST, message(content=[{"type": "text"}]), "messages.0.content"),
    (INGEST, message(timestamp=True), "messages.0.timestamp"),
    (INGEST, message(timestamp=1.5), "messages.0.timestamp"),
    (INGEST, message(timestamp="yesterday"), "messages.0.timestamp"),
    (INGEST, message(timestamp="2026-02-30T00:00:00Z"), "messages.0.timestamp"),
    (INGEST, message(timestamp=253402300800000), "messages.0.timestamp"),
    (INGEST, message(timestamp=-62135596800001), "messages.0.timestamp"),
    (INGEST, message(memory="no"), "messages.0.memory"),
    (INGEST, message() | {"session_id": 7}, "session_id"),
    (INGEST, message() | {"embeddings": 7}, "embeddings"),
    (SEARCH, {}, "query"),
    (SEARCH, {"query": ""}, "query"),
    (SEARCH, {"query": " \u2003\n"}, "query"),
    (SEARCH, {"query": ["a"]}, "query"),
    *((SEARCH, {"query": "a", "limit": bad}, "limit") for bad in (0, 501, -1, *NO_INTEGERS)),
    *((SEARCH, {"query": "a", "tiers": bad}, "tiers") for bad in NO_LISTS),
    *((SEARCH, {"query": "a", "tiers": [1, bad]}, "tiers.1") for bad in (0, 4, True, 1.0, "1", None)),
    *((SEARCH, {"query": "a", "importance": bad}, "importance") for bad in (0, 11, 7.0, True, "7", [7])),
    (PREPARE, {}, "messages"),
    (PREPARE, message() | {"density": "max"}, "density"),
    *((PREPARE, message() | {"context_limit": bad}, "context_limit") for bad in (-1, 251, 1.0, True, "1")),
    *((PREPARE, message() | {"context_tokens": bad}, "context_tokens") for bad in (0, 199, 200_001, 500.0, True)),
    (PREPARE, message() | {"tiers": []}, "tiers"),
    (BY_DATE, {}, "from"),
    (BY_DATE, {"from": 1}, "from"),
    (BY_DATE, {"from": "soon"}, "from"),
    (BY_DATE, {"from": "2026-02-30"}, "from"),
    (BY_DATE, {"from": "2026-02-02", "to": "later"}, "to"),
    (BY_DATE, {"from": "2026-02-02", "to": "2026-02-01"}, "to"),
    (BY_DATE, {"from": "2026-02-02", "order": "random"}, "order"),
    (BY_DATE, {"from": "2026-02-02", "query": " "}, "query"),
    (BY_DATE, {"from": "2026-02-02", "after_id": "x"}, "after_id"),
    (BY_DATE, {"from": "2026-02-02", "cursor": "x"}, "cursor"),
    *((BY_DATE, {"from": "2026-02-02", "max_tokens": bad}, "max_tokens") for bad in ("5", True, [1])),
    (INSPECT, {}, "memory_id"),
    *((INSPECT, {"memory_id": bad}, "memory_id") for bad in ("", "x", 1, UUID[:-1], "{" + UUID + "}", UUID + "\n")),
    (INSPECT, {"memory_id": UUID, "offset": -1}, "offset"),
    (INSPECT, {"memory_id": UUID, "offset": 1.0}, "offset"),
    (INSPECT, {"memory_id": UUID, "depth": 2}, "depth"),
    (CHECKOUT, {}, "tier"),
    *((CHECKOUT, {"tier": bad}, "tier") for bad in (0, 3, True, 1.0, "1", None)),
    (CHECKOUT, {"tier": 1, "max_tokens": "many"}, "max_tokens"),
    (CHECKOUT, {"tier": 1, "max_rows": 2}, "max_rows"),
    (COMMIT, {"batch_id": "cb_x"}, "entries"),
    (COMMIT, {"batch_id": 1, "entries": [{"text": "a", "importance": 1}]}, "batch_id"),
    (COMMIT, {"batch_id": "cb_x", "entries": []}, "entries"),
    (COMMIT, {"batch_id": "cb_x", "entries": [{"text": "a", "importance": 1}] * 101}, "entries"),
    (COMMIT, {"batch_id": "cb_x", "entries": [{"text": "a"}]}, "entries.0.importance"),
    (COMMIT, {"batch_id": "cb_x", "entries": [{"text": "\u00a0", "importance": 1}]}, "entries.0.text"),
    (COMMIT, {"batch_id": "cb_x", "entries": [{"text": "a" * 8001, "importance": 1}]}, "entries.0.text"),
    (COMMIT, {"batch_id": "cb_x", "entries": [{"text": "a", "importance": 1, "id": UUID}]}, "entries.0.id"),
    *(
        (COMMIT, {"batch_id": "cb_x", "entries": [{"text": "a", "importance": bad}]}, "entries.0.importance")
        for bad in (0, 11, 5.0, True, "5")
    ),
    *((f"/v1/memory/consolidate/{verb}", {"batch_id": None}, "batch_id") for verb in ("release", "renew", "reopen")),
    *(
        (f"/v1/memory/consolidate/{verb}", {"batch_id": "x", "force": True}, "force")
        for verb in ("release", "renew", "reopen")
    ),
    (DELETE_IDS, {"ids": []}, "ids"),
    (DELETE_IDS, {"ids": UUID}, "ids"),
    (DELETE_IDS, {"ids": [UUID, UUID.upper()]}, "ids"),
    (DELETE_IDS, {"ids": [UUID, "x"]}, "ids.1"),
    (DELETE_IDS, {"ids": [f"0199d1f0-0000-7000-8000-{n:012d}" for n in range(501)]}, "ids"),
    (KEYS, {"name": 1}, "name"),
    (KEYS, {"scopes": []}, "scopes"),
    (KEYS, {"scopes": ["memories:everything"]}, "scopes.0"),
    (KEYS, {"vault": "other"}, "vault"),
    (KEYS, {"owner": "me"}, "owner"),
    ("/v1/memory/warmup", {"all": True}, "all"),
]


@pytest.mark.parametrize(("path", "body", "field"), WRONG, ids=range(len(WRONG)))
def test_wrong_fields_are_named_and_change_nothing(path: str, body: dict[str, Any], field: str, client: Client) -> None:
    client.ingest("already here")
    before = client.export(), client.get(KEYS).json["keys"][0]["key_id"]
    answer = client.post(path, body)
    assert (answer.status, answer.code) == (400, "invalid_request"), answer.body
    assert answer.fields == [field]
    assert field in answer.json["error"]
    assert (client.export(), client.get(KEYS).json["keys"][0]["key_id"]) == before


@pytest.mark.parametrize(
    "path",
    [
        "/v1/memory/export?limit=0",
        "/v1/memory/export?limit=5001",
        "/v1/memory/export?limit=ten",
        "/v1/memory/export?limit=5.0",
        "/v1/memory/export?limit=",
        "/v1/memory/export?limit=1&limit=2",
        "/v1/memory/export?cursor=garbled",
        "/v1/memory/export?cursor=%00%ff",
        "/v1/account/usage?start=yesterday",
        "/v1/account/usage?start=2026-02-30",
    ],
)
def test_wrong_query_parameters(path: str, client: Client) -> None:
    assert (client.get(path).status, client.get(path).code) == (400, "invalid_request")


@pytest.mark.parametrize("value", ["yes", "1", "", "True", "true,true", "%00"])
def test_flags_are_true_or_false(value: str, client: Client) -> None:
    client.ingest("kept")
    assert client.delete(f"/v1/memory?reset={value}").fields == ["reset"]
    assert client.post(f"{IMPORT}?finish={value}", b"").fields == ["finish"]
    assert len(client.export()) == 1


def test_extras_are_ignored_only_where_foreign_clients_send_them(client: Client) -> None:
    extras = {"temperature": 0.5, "tools": [{"type": "function"}], "model": {"any": "thing"}}
    turn = message(name="Ann", tool_calls=[])
    assert client.post(INGEST, turn | extras).status == 202
    assert client.post(PREPARE, turn | extras).status == 200
    assert client.post(SEARCH, {"query": "text"} | extras).status == 200
    assert client.post(CHECKOUT, {"tier": 1, "temperature": 0.5}).fields == ["temperature"]


@pytest.mark.parametrize("path", [BY_DATE, CHECKOUT, INSPECT, DELETE_IDS, "/v1/memory/warmup", KEYS])
def test_common_fields_are_accepted_everywhere(path: str, client: Client) -> None:
    bodies: dict[str, dict[str, Any]] = {
        BY_DATE: {"from": "2026-01-01"},
        CHECKOUT: {"tier": 1},
        INSPECT: {"memory_id": UUID},
        DELETE_IDS: {"ids": [UUID]},
    }
    common = {"session_id": "s", "embeddings": None, "model": "label"}
    assert client.post(path, bodies.get(path, {}) | common).status in (200, 201, 404)


def test_content_types(client: Client) -> None:
    body = json.dumps({"query": "a"}).encode()
    for good in (None, "", "application/json", "APPLICATION/JSON; charset=utf-8", "application/vnd.api+json"):
        assert client.post(SEARCH, body, content_type=good).status == 200, good
    for bad in ("text/plain", "application/x-www-form-urlencoded", "application/x-ndjson", "json", "text/vnd.api+json"):
        answer = client.post(SEARCH, body, content_type=bad)
        assert (answer.status, answer.code) == (415, "unsupported_media_type"), bad
        assert "application/json" in answer.json["hint"]
    line = b'{"content": "a line"}\n'
    lines = ("application/x-ndjson", "application/jsonl", "text/plain", "application/octet-stream", "application/json")
    for good in lines:
        assert client.post(UPLOAD, line, content_type=good).status == 200, good
    assert client.post(UPLOAD, line, content_type="text/csv").status == 415


@pytest.mark.parametrize(
    ("lines", "number", "field"),
    [
        (b'{"content": "a"}\n{"content": ""}\n', 2, "line.2.content"),
        (b'\r\n\r\n{"content": "a"}\r\n{"role": "user"}\r\n', 4, "line.4.content"),
        (b'{"content": "a"}\n["content"]\n', 2, "line.2"),
        (b'{"content": "a"}\n{"content": "b"\n', 2, "line.2"),
        (b'{"content": "a", "content": "b"}', 1, "line.1"),
        (b'{"content": "\xff"}', 1, "line.1"),
        (b'{"content": "a"}\n{"content": "\\u0000"}', 2, "line.2.content"),
        (b'{"content": "a", "timestamp": "never"}', 1, "line.1.timestamp"),
        (b'{"content": "a", "tier": 2}', 1, "line.1.tier"),
        (b'{"content": "a", "role": 5}', 1, "line.1.role"),
        (b'{"content": "a"} {"content": "b"}', 1, "line.1"),
    ],
)
def test_the_first_bad_line_refuses_all(lines: bytes, number: int, field: str, client: Client) -> None:
    answer = client.post(UPLOAD, lines, content_type="text/plain")
    assert (answer.status, answer.json["line"], answer.fields) == (400, number, [field])
    assert f"Line {number} " in answer.json["error"]
    assert client.export() == []


def test_an_empty_upload_is_refused(client: Client) -> None:
    for empty in (b"", b"\n\r\n \n"):
        assert client.post(UPLOAD, empty, content_type="text/plain").status == 400


def test_lines_with_carriage_returns_blanks_and_a_mark(client: Client) -> None:
    body = b'\xef\xbb\xbf{"content": "a\\r", "timestamp": 0}\r\n\r\n  \n{"content": [{"type": "text", "text": "b"}]}'
    answer = client.post(UPLOAD, body, content_type="text/plain")
    assert (answer.status, answer.json["stats"]["stored"]) == (200, 2)
    rows = client.export()
    assert sorted(row["content"] for row in rows) == ["a\r", "b"]
    assert all(row["date"] >= "2026" and row["role"] == "user" for row in rows)


def test_the_first_moment_of_1970_as_text_is_a_date(client: Client) -> None:
    client.post(UPLOAD, b'{"content": "a", "date": "1970-01-01T00:00:00.000Z"}', content_type="text/plain")
    assert [row["date"] for row in client.export()] == ["1970-01-01T00:00:00.000Z"]
