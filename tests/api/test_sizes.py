"""Limits on sizes, each at its edge."""

from __future__ import annotations

import json

import pytest

from tests.api.backends import EMBEDDED_ONLY
from tests.api.client import Answer, Client

INGEST, UPLOAD, SEARCH = "/v1/memory/ingest", "/v1/memory/upload", "/v1/memory/search"
MIB = 1024 * 1024


def padded(size: int) -> bytes:
    """A search of exactly `size` bytes, all but a few of them white space."""
    body = b'{"query": "a"'
    return body + b" " * (size - len(body) - 1) + b"}"


def test_a_body_may_have_5_mib_and_no_byte_more(client: Client) -> None:
    assert client.post(SEARCH, padded(5 * MIB)).status == 200
    answer = client.post(SEARCH, padded(5 * MIB + 1))
    assert (answer.status, answer.code) == (413, "too_large")
    assert "5 MiB" in answer.json["error"]
    assert "Split" in answer.json["hint"]


def test_written_compactly_a_body_may_have_4_mib(client: Client) -> None:
    frame = len(b'{"query":"a","x":""}')

    def sent(excess: int) -> Answer:
        body = {"query": "a", "x": "é" * ((4 * MIB - frame) // 2) + "b" * excess}
        return client.post(SEARCH, json.dumps(body, ensure_ascii=False).encode())

    assert sent(0).status == 200
    answer = sent(1)
    assert answer.status == 413
    assert "4 MiB" in answer.json["error"]
    assert "UTF-8" in answer.json["hint"]


def test_numbers_count_as_they_are_written_again(client: Client) -> None:
    raw = b'{"query": "a", "x": [' + b",".join([b"1e15"] * 260_000) + b"]}"
    assert len(raw) < 2 * MIB
    assert client.post(SEARCH, raw).status == 413


def test_lines_are_measured_together(client: Client) -> None:
    line = json.dumps({"content": "a" * 90_000}).encode() + b"\n"
    most = 4 * MIB // len(line)
    assert client.post(UPLOAD, line * most, content_type="text/plain").status == 200
    answer = client.post(UPLOAD, line * (most + 1), content_type="text/plain")
    assert (answer.status, answer.code) == (413, "too_large")
    assert len(client.export()) == most


def test_an_upload_has_at_most_10_000_lines(client: Client) -> None:
    answer = client.post(UPLOAD, b'{"content": "a"}\n' * 10_001, content_type="text/plain")
    assert answer.status == 413
    assert "10,000" in answer.json["error"]
    assert client.export() == []


def test_one_memory_has_at_most_100_000_characters(client: Client) -> None:
    assert client.ingest("a" * 100_000)
    for text in ("a" * 100_001, "🎉" * 75_001):
        raw = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False).encode()
        answer = client.post(INGEST, raw)
        assert (answer.status, answer.fields or answer.code) == (413, "too_large")
        assert "messages.0.content" in answer.json["error"]
    skipped = {"messages": [{"role": "user", "content": "a" * 100_001, "memory": False}]}
    assert client.post(INGEST, skipped).json["stored"] == 0


@pytest.mark.slow
@EMBEDDED_ONLY
@pytest.mark.parametrize("letter", ['"', "\x01", "\U0001f389"])
def test_no_answer_is_larger_than_a_function_may_return(letter: str, client: Client) -> None:
    """5.5 MiB, the body quoted once more as a string of JSON; rows of the most that one memory may hold."""
    length = min(100_000, 300_000 // len(letter.encode()))
    row_bytes = len(json.dumps(letter * length, ensure_ascii=False).encode()) + 100
    at_once = 4 * MIB // row_bytes
    rows = 0
    while rows * row_bytes < 9 * MIB:
        numbers = range(rows + 1, rows + at_once + 1)
        lines = [{"content": f"{letter * (length - 9)} {number:08}", "timestamp": number} for number in numbers]
        body = b"\n".join(json.dumps(line, ensure_ascii=False).encode() for line in lines)
        assert client.post(UPLOAD, body, content_type="text/plain").status == 200
        rows += at_once

    def wrapped(answer: Answer) -> int:
        assert answer.status == 200, answer.body[:200]
        return len(json.dumps(answer.body.decode(), ensure_ascii=False).encode())

    answers = {
        "search": client.post(SEARCH, {"query": "00000001", "limit": 500}),
        "prepare": client.post(
            "/v1/memory/prepare", {"messages": [{"role": "user", "content": "00000001"}], "density": "xhigh"}
        ),
        "date": client.post("/v1/memory/date-search", {"from": "1970-01-01", "max_tokens": 200000}),
        "checkout": client.post("/v1/memory/consolidate/checkout", {"tier": 1, "max_tokens": 200000}),
        "export": client.get("/v1/memory/export"),
    }
    sizes = {name: wrapped(answer) for name, answer in answers.items()}
    assert max(sizes.values()) <= 5.5 * MIB, sizes
    assert answers["search"].json["truncated"] is True
    pages, cursor = [answers["export"]], answers["export"].headers.get("X-Next-Cursor")
    while cursor:
        pages.append(client.get(f"/v1/memory/export?cursor={cursor}"))
        cursor = pages[-1].headers.get("X-Next-Cursor")
    assert sum(len(page.body.splitlines()) for page in pages) == rows
    assert max(map(wrapped, pages)) <= 5.5 * MIB
    assert max(len(page.body) for page in pages) <= 4 * MIB
