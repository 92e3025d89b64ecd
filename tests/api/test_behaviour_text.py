"""What was sent comes back, byte for byte; answers stay small enough and no row is lost for it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.gateway import Gateway
from shared import bootstrap
from shared.settings import Settings
from tests.api.client import Answer, Client

INGEST, UPLOAD, SEARCH = "/v1/memory/ingest", "/v1/memory/upload", "/v1/memory/search"
DATES, INSPECT, EXPORT = "/v1/memory/date-search", "/v1/memory/inspect", "/v1/memory/export"
CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
MIB = 1024 * 1024
MOST_BYTES = 5.5 * MIB

SAMPLES = [
    "  leading and trailing \t\n",
    "\r\n\r\ncarriage\rreturns\r\n",
    "\ufeffbyte order mark\ufeff",
    unicodedata.normalize("NFD", "Ångström née Zoë"),
    unicodedata.normalize("NFC", "Ångström née Zoë"),
    "ﬁ ligature ½ ㎏ Å Å",
    "family 👩‍👩‍👧‍👦 flag 🇩🇪 skin 👋🏽 keycap 1️⃣",
    "\u202eright to left\u202c שלום مرحبا",
    "line\u2028separator\u2029paragraph\x85next\x0bvertical\x0cfeed\x1cfile",
    "controls \x01\x02\x1b[31m\x7f\x80\x9f",
    "non-characters \uffff\ufffe\U0010ffff\ufdd0 private \ue000 replacement \ufffd",
    "quotes \" and \\ and \\u0041 and \\n, <b>&amp;</b>, %00 %s {0} '; DROP TABLE memory; --",
    '{"content": "looks like JSON"}\n{"role": "user"}',
    "zero\u200bwidth\u200cjoiners\u200d \u00a0no-break\u3000ideographic",
    "\u0301combining first",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𒀀 漢字 かな 한글 ไทย",
    ".",
    # None of these is white space to Unicode, however they look.
    "\x1c",
    "\x1f\x1d\x1e",
    "\u200b",
    "\u2060\ufeff",
    "\u180e",
]


def places(client: Client, memory_id: str, text: str) -> dict[str, str]:
    """The text of a raw memory as each reader shows it, except checkout."""
    (line,) = [row for row in client.export() if row["id"] == memory_id]
    found = client.post(SEARCH, {"query": text[:1_000], "limit": 500}).json["memories"]
    dated = client.post(DATES, {"from": "2000-01-01", "max_tokens": 200_000}).json["memories"]
    asked = client.post(DATES, {"from": "2000-01-01", "max_tokens": 200_000, "query": text[:1_000]}).json["memories"]
    return {
        "export": line["content"],
        "search": next(row["content"] for row in found if row["id"] == memory_id),
        "date-search": next(row["content"] for row in dated if row["id"] == memory_id),
        "date-search with a query": next(row["content"] for row in asked if row["id"] == memory_id),
        "inspect": client.post(INSPECT, {"memory_id": memory_id}).json["content"],
    }


def upload(client: Client, rows: list[dict[str, Any]], end: bytes = b"\n", ascii_only: bool = False) -> Answer:
    body = end.join(json.dumps(row, ensure_ascii=ascii_only).encode() for row in rows)
    answer = client.post(UPLOAD, body, content_type="application/x-ndjson")
    assert answer.status == 200, answer.body
    return answer


@pytest.mark.parametrize("text", SAMPLES)
def test_text_comes_back_from_everywhere(text: str, client: Client) -> None:
    (first,) = client.ingest(text)
    escaped = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False).encode()
    second = client.post(INGEST, escaped).json["ids"][0]
    for ascii_only, end in ((True, b"\n"), (False, b"\r\n")):
        upload(client, [{"content": text}, {"content": text}], end, ascii_only)
    assert [row["content"] for row in client.export()] == [text] * 6
    for memory_id in (first, second):
        assert set(places(client, memory_id, text).values()) == {text}
    batch = client.post(CHECKOUT, {"tier": 1}).json
    assert [row["text"] for row in batch["memories"]] == [text] * 6
    entries = [{"text": text, "importance": 5}]
    made = client.post(COMMIT, {"batch_id": batch["batch_id"], "entries": entries}).json["created"][0]["id"]
    shown = client.post(INSPECT, {"memory_id": made}).json
    assert shown["content"] == text
    assert [source["content"] for source in shown["sources"]] == [text] * 6
    assert client.post(CHECKOUT, {"tier": 2}).json["memories"][0]["text"] == text


@pytest.mark.parametrize("text", SAMPLES)
def test_names_come_back_too(text: str, client: Client) -> None:
    body = {"messages": [{"role": text, "content": "a"}], "session_id": text}
    assert client.post(INGEST, body).json["session_id"] == text
    (row,) = client.export()
    assert (row["role"], row["session_id"]) == (text, text)
    (found,) = client.post(SEARCH, {"query": "a", "session_id": text}).json["memories"]
    assert (found["role"], found["session_id"]) == (text, text)
    key = client.post("/v1/keys", {"name": text}).json
    assert key["name"] == text
    assert text in [listed["name"] for listed in client.get("/v1/keys").json["keys"]]


@pytest.fixture(scope="module")
def one_backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bootstrap.Embedded]:
    """For many examples, each in a vault of its own."""
    settings = Settings(data=tmp_path_factory.mktemp("text"), embedder="hashed-64", index_memory_mb=64)
    with bootstrap.Embedded(settings) as backend:
        yield backend


WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=80).filter(
    lambda text: text.strip(WHITE_SPACE) != ""
)


@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=4), number=st.uuids(), ascii_only=st.booleans())
def test_any_text_comes_back(
    one_backend: bootstrap.Embedded, texts: list[str], number: object, ascii_only: bool
) -> None:
    client = Client(Gateway(one_backend.services), one_backend.services, f"mk_{number}")
    bootstrap.activate(one_backend)
    try:
        assert client.delete("/v1/memory").status == 200
        ids = client.ingest(*texts)
        upload(client, [{"content": text} for text in texts], ascii_only=ascii_only)
        by_id = {row["id"]: row["content"] for row in client.export()}
        assert [by_id[memory_id] for memory_id in ids] == texts
        assert sorted(by_id.values()) == sorted(texts * 2)
        assert set(places(client, ids[0], texts[0]).values()) == {texts[0]}
        assert sorted(row["text"] for row in client.post(CHECKOUT, {"tier": 1}).json["memories"]) == sorted(texts * 2)
    finally:
        bootstrap.activate(None)


@pytest.mark.parametrize("text", ["a" * 100_000, "é" * 100_000, "漢" * 100_000, "🎉" * 75_000, '"' * 100_000])
def test_the_largest_memory_comes_back_from_everywhere(text: str, client: Client) -> None:
    raw = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False).encode()
    (memory_id,) = client.post(INGEST, raw).json["ids"]
    assert set(places(client, memory_id, text).values()) == {text}
    batch = client.post(CHECKOUT, {"tier": 1, "max_tokens": 1_000}).json
    assert [row["text"] for row in batch["memories"]] == [text]
    assert batch["est_tokens"] == -(-len(text.encode()) // 4)


@pytest.mark.parametrize("text", ["", " ", "\u3000\u2003\t\n", "\x85\xa0\u2028", None, [], [{"type": "image_url"}]])
def test_what_has_no_text_is_skipped_by_ingest_and_bad_in_a_file(text: Any, client: Client) -> None:
    body = {"messages": [{"role": "user", "content": text}, {"role": "user", "content": "kept"}]}
    assert client.post(INGEST, body).json["stored"] == 1
    lines = b'{"content": "fine"}\n' + json.dumps({"content": text}).encode()
    answer = client.post(UPLOAD, lines, content_type="text/plain")
    assert (answer.status, answer.json["line"]) == (400, 2)
    assert [row["content"] for row in client.export()] == ["kept"]


@pytest.mark.parametrize("bad", [b"\\ud800", b"\\udc00 tail", b"\\u0000", b"\xff", b"\xc0\x80", b"\xed\xa0\x80"])
def test_what_has_no_faithful_form_is_refused_before_anything_is_written(bad: bytes, client: Client) -> None:
    good = b'{"role": "user", "content": "good"}'
    for path, body in (
        (INGEST, b'{"messages": [' + good + b', {"role": "user", "content": "' + bad + b'"}]}'),
        (INGEST, b'{"messages": [' + good + b'], "session_id": "' + bad + b'"}'),
        (INGEST, b'{"messages": [' + good + b', {"role": "' + bad + b'", "content": "a"}]}'),
        (UPLOAD, good + b'\n{"content": "' + bad + b'"}'),
        (SEARCH, b'{"query": "' + bad + b'"}'),
    ):
        answer = client.post(path, body)
        assert (answer.status, answer.code) == (400, "invalid_request"), path
    assert client.export() == []


# Answers that would be too large


def wrapped(answer: Answer) -> int:
    assert answer.status == 200, answer.body[:300]
    return len(json.dumps(answer.body.decode(), ensure_ascii=False).encode())


@pytest.fixture
def large_rows(client: Client) -> list[str]:
    """Ids of 120 rows of 100 KB, four of an instant, in their order."""
    for start in range(0, 120, 40):
        rows = [
            {"content": f"{'quartz ' * 14_000}{number}", "timestamp": 1_700_000_000_000 + number // 4 * 60_000}
            for number in range(start, start + 40)
        ]
        upload(client, rows)
    ids = []
    cursor: str | None = ""
    while cursor is not None:
        answer = client.get(EXPORT + (f"?cursor={cursor}" if cursor else ""))
        assert wrapped(answer) <= MOST_BYTES
        ids += [json.loads(line)["id"] for line in answer.body.splitlines()]
        cursor = answer.headers.get("X-Next-Cursor")
    assert len(ids) == 120
    return ids


def paged_dates(client: Client, request: dict[str, Any]) -> list[str]:
    found: list[str] = []
    while True:
        answer = client.post(DATES, request)
        assert wrapped(answer) <= MOST_BYTES
        page = answer.json
        assert page["memories"]
        found += [row["id"] for row in page["memories"]]
        if not page["truncated"]:
            return found
        covered = dict(page["returned"])
        after = covered.pop("after_id", None)
        request = {name: value for name, value in request.items() if name != "after_id"}
        if after is not None:
            request["after_id"] = after
        elif request["order"] == "newest_first":
            request["to"] = covered["from"]
        else:
            request["from"] = covered["to"]


@pytest.mark.slow
def test_large_rows_page_to_the_end_everywhere(client: Client, large_rows: list[str]) -> None:
    found = client.post(SEARCH, {"query": "quartz", "limit": 500})
    assert wrapped(found) <= MOST_BYTES
    assert found.json["truncated"] is True
    assert 20 <= len(found.json["memories"]) < 120
    for order, expected in (("oldest_first", large_rows), ("newest_first", large_rows[::-1])):
        for tokens in (1_000, 200_000):
            request = {"from": "2023-11-01", "to": "2023-12-01", "order": order, "max_tokens": tokens}
            assert sorted(paged_dates(client, request)) == sorted(expected)
    ranked = client.post(DATES, {"from": "2023-11-01", "query": "quartz", "max_tokens": 200_000})
    assert wrapped(ranked) <= MOST_BYTES
    assert ranked.json["truncated"] is True
    sources: list[str] = []
    while (batch := client.post(CHECKOUT, {"tier": 1, "max_tokens": 200_000})).json["batch_id"]:
        assert wrapped(batch) <= MOST_BYTES
        sources += batch.json["source_ids"]
        entries = [{"text": "quartz, mostly", "importance": 5}]
        made = client.post(COMMIT, {"batch_id": batch.json["batch_id"], "entries": entries}).json["created"][0]["id"]
        shown: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = client.post(INSPECT, {"memory_id": made, "offset": offset})
            assert wrapped(page) <= MOST_BYTES
            shown += [source["id"] for source in page.json["sources"]]
            assert page.json["truncated"] is (page.json["next_offset"] is not None)
            offset = page.json["next_offset"]
        assert shown == batch.json["source_ids"]
    assert sources == large_rows


@pytest.mark.slow
def test_one_instant_larger_than_an_answer(client: Client) -> None:
    for start in range(0, 80, 40):
        upload(
            client,
            [{"content": f"{'basalt ' * 14_000}{number}", "timestamp": 5} for number in range(start, start + 40)],
        )
    upload(client, [{"content": "before", "timestamp": 4}, {"content": "after", "timestamp": 6}])
    for order in ("oldest_first", "newest_first"):
        found = paged_dates(client, {"from": "1970-01-01", "to": "1970-01-02", "order": order, "max_tokens": 1_000})
        assert len(found) == 82
        assert len(set(found)) == 82


def test_inspect_pages_through_a_large_batch_around_deleted_sources(client: Client) -> None:
    for _ in range(3):
        client.ingest(*(f"line {number}" for number in range(400)))
    batch = client.post(CHECKOUT, {"tier": 1}).json
    assert batch["count"] == 1_200
    entries = [{"text": "lines", "importance": 5}]
    made = client.post(COMMIT, {"batch_id": batch["batch_id"], "entries": entries}).json["created"][0]["id"]
    gone = [*batch["source_ids"][100:110], batch["source_ids"][499], *batch["source_ids"][700:1_100]]
    client.post("/v1/memory/delete-ids", {"ids": gone})
    shown: list[str] = []
    offset: int | None = 0
    calls = 0
    while offset is not None:
        page = client.post(INSPECT, {"memory_id": made, "offset": offset}).json
        assert (page["sources_total"], page["sources_deleted"]) == (1_200, len(gone))
        assert len(page["sources"]) <= 500
        shown += [source["id"] for source in page["sources"]]
        offset, calls = page["next_offset"], calls + 1
        assert page["truncated"] is (offset is not None)
    assert shown == [name for name in batch["source_ids"] if name not in set(gone)]
    assert calls == 2
    past = client.post(INSPECT, {"memory_id": made, "offset": 5_000}).json
    assert (past["sources"], past["next_offset"], past["truncated"]) == ([], None, False)
