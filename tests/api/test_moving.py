"""A vault goes out page by page and comes back as it was, whatever it lived through."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.local.gateway import Gateway
from shared import bootstrap
from shared.settings import Settings
from shared.usecases.indexing import fill_vectors
from tests.api.client import Answer, Client

EXPORT, IMPORT = "/v1/memory/export", "/v1/memory/import"
SEARCH, DATES, INSPECT = "/v1/memory/search", "/v1/memory/date-search", "/v1/memory/inspect"
CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
RELEASE, REOPEN = "/v1/memory/consolidate/release", "/v1/memory/consolidate/reopen"
DAY_MS = 86_400_000
FIRST_MS = 1_700_000_000_000
WORDS = ("harbour", "saffron", "meadow", "lantern", "cedar", "violin", "glacier", "orchard")
TEXTS = (
    " leading and trailing ",
    "line\r\nbreak\u2028and\u0085more",
    "\ufeffe\u0301 is not é",
    "שלום 👩‍👩‍👧",
    '"\\/\b\t',
)
NOBODY = "0199d1f0-0000-7000-8000-000000000001"


def settle(backend: bootstrap.Embedded) -> None:
    """Give every passage its vector, so that scores are final."""
    for vault in backend.stored():
        while fill_vectors(backend.services, vault, 500):
            pass


def pages(client: Client, limit: int) -> list[bytes]:
    found: list[bytes] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = client.get(f"{EXPORT}?limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
        assert answer.status == 200, answer.body
        found.append(answer.body)
        cursor = answer.headers.get("X-Next-Cursor")
    return found


def send(client: Client, page: bytes, finish: bool = False) -> Answer:
    return client.post(IMPORT + ("?finish=true" if finish else ""), page, content_type="application/x-ndjson")


def take_in(client: Client, parts: list[bytes]) -> Any:
    for part in parts[:-1]:
        answer = send(client, part)
        assert (answer.status, answer.json["status"]) == (200, "open"), answer.body
    last = send(client, parts[-1], finish=True)
    assert last.status == 200, last.body
    return last.json


def walk(client: Client, request: dict[str, Any]) -> list[Any]:
    """Every page of a date-search."""
    request, found = dict(request), []
    for _ in range(1_000):
        page = client.post(DATES, request).json
        found.append(page)
        if not page["truncated"]:
            return found
        covered = page["returned"]
        if "after_id" in covered:
            request["after_id"] = covered["after_id"]
            continue
        request.pop("after_id", None)
        if request.get("order") == "oldest_first":
            request["from"] = covered["to"]
        else:
            request["to"] = covered["from"]
    raise AssertionError("paging does not end")


def picture(client: Client, batch_ids: list[str]) -> dict[str, Any]:
    """All that readers and replays can see of a vault."""
    rows = [json.loads(line) for line in b"".join(pages(client, 5_000)).splitlines()]
    shown: dict[str, Any] = {}
    for word in (*WORDS, "harbour and violin", "nothing that anybody wrote"):
        for session in (None, "s1", "unknown"):
            body = {"query": word, "limit": 500, "session_id": session}
            shown[f"search {word} {session}"] = client.post(SEARCH, body).json["memories"]
        shown[f"tiers {word}"] = client.post(SEARCH, {"query": word, "tiers": [2, 3], "importance": 4}).json
        messages = [{"role": "user", "content": word}]
        shown[f"prepare {word}"] = client.post("/v1/memory/prepare", {"messages": messages, "density": "high"}).json
    for order in ("newest_first", "oldest_first"):
        whole = {"from": "2023-01-01", "to": "2024-12-31", "order": order, "max_tokens": 1_000}
        shown[order] = walk(client, whole)
        shown[f"{order} of a month"] = walk(client, whole | {"from": "2023-11-20", "to": "2023-12-20"})
    best = {"from": "2023-11-20", "to": "2023-12-20", "query": "cedar", "max_tokens": 2_000}
    shown["dates with a query"] = client.post(DATES, best).json
    shown["inspect"] = {row["id"]: client.post(INSPECT, {"memory_id": row["id"]}).json for row in rows}
    late = {"entries": [{"text": "a late commit", "importance": 1}]}
    shown["replays"] = [(a.status, a.json) for a in (client.post(COMMIT, {"batch_id": b, **late}) for b in batch_ids)]
    stats = client.get("/v1/memory/stats").json
    fields = ("memories", "tiers", "sessions", "totalTokens", "oldest", "newest", "totalVectors", "reflection")
    shown["stats"] = {name: stats[name] for name in fields}
    return shown


class Life:
    """A vault with everything in it that a vault can hold."""

    def __init__(self, client: Client, backend: bootstrap.Embedded) -> None:
        self.client = client
        self.committed: list[str] = []
        for place, session in enumerate((None, "s1", "s2")):
            # Three rows, one of each session, share each instant.
            messages = [self.message(number) for number in range(place, 90, 3)]
            body = {"messages": messages, "session_id": session}
            assert client.post("/v1/memory/ingest", body).status == 202
        self.whole = self.batch(1, 5)
        self.without_reflections = self.batch(1, 2)
        self.delete(*self.without_reflections[1])
        self.half = self.batch(1, 3)
        self.delete(self.half[1][1], *self.sources_of(self.half[1][0])[1:3])
        self.without_sources = self.batch(1, 2)
        self.delete(*self.sources_of(self.without_sources[1][0]))
        self.high = self.batch(2, 2)
        self.delete(self.half[1][2])
        undone = self.batch(1, 1)
        assert client.post(REOPEN, {"batch_id": undone[0]}).status == 200
        self.committed.remove(undone[0])
        released = client.post(CHECKOUT, {"tier": 1, "max_tokens": 1_000}).json["batch_id"]
        assert client.post(RELEASE, {"batch_id": released}).status == 200
        self.session_gone()
        self.leased = client.post(CHECKOUT, {"tier": 1, "max_tokens": 1_000}).json["batch_id"]
        settle(backend)

    def message(self, number: int) -> dict[str, object]:
        words = " ".join(WORDS[(number * step) % 8] for step in (1, 3, 5))
        text = f"{words} {TEXTS[number % 5]} {number} " + "filler " * (number % 7) * 9
        return {"role": ("user", "Ada")[number % 2], "content": text, "timestamp": self.at(number // 3)}

    @staticmethod
    def at(step: int) -> int:
        return FIRST_MS + step * DAY_MS * 2

    def batch(self, tier: int, entries: int) -> tuple[str, list[str]]:
        out = self.client.post(CHECKOUT, {"tier": tier, "max_tokens": 1_000}).json
        texts = [f"{WORDS[(n + len(self.committed)) % 8]} reflected {n} {TEXTS[n % 5]}" for n in range(entries)]
        body = [{"text": text, "importance": n + 2} for n, text in enumerate(texts)]
        answer = self.client.post(COMMIT, {"batch_id": out["batch_id"], "entries": body})
        assert answer.status == 200, answer.body
        self.committed.append(out["batch_id"])
        return out["batch_id"], [made["id"] for made in answer.json["created"]]

    def sources_of(self, reflection: str) -> list[str]:
        found = self.client.post(INSPECT, {"memory_id": reflection}).json["sources"]
        return [source["id"] for source in found]

    def delete(self, *ids: str) -> None:
        assert self.client.post("/v1/memory/delete-ids", {"ids": list(ids)}).json["deleted"] == len(ids)

    def session_gone(self) -> None:
        self.client.ingest("cedar for a moment", headers={"X-Session-ID": "gone"})
        assert self.client.delete("/v1/memory", headers={"X-Session-ID": "gone"}).json["sessionCleared"] is True


@pytest.fixture
def life(client: Client, backend: bootstrap.Embedded) -> Life:
    return Life(client, backend)


@pytest.fixture
def other(client: Client) -> Client:
    return client.using("mk_the-new-home")


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_a_vault_comes_back_as_it_was(
    limit: int, life: Life, client: Client, other: Client, backend: bootstrap.Embedded
) -> None:
    parts = pages(client, limit)
    rows = sum(len(part.splitlines()) for part in parts)
    assert {row["tier"] for row in client.export()} == {1, 2, 3}
    assert take_in(other, parts)["total"] == rows
    settle(backend)
    before, after = picture(client, life.committed), picture(other, life.committed)
    assert after == before
    assert [status for status, _ in before["replays"]] == [200] * len(life.committed)
    assert b"".join(pages(other, 13)) == b"".join(parts)


def test_undoing_and_going_on_after_the_move(life: Life, client: Client, other: Client) -> None:
    take_in(other, pages(client, 17))
    # The lease does not travel: in the new home its rows are free, in the old one it must be given back first.
    assert other.post(COMMIT, {"batch_id": life.leased, "entries": [{"text": "a", "importance": 1}]}).status == 404
    client.post(RELEASE, {"batch_id": life.leased})
    for batch_id, _ in (life.whole, life.high, life.without_reflections, life.without_sources, life.half):
        answers = [each.post(REOPEN, {"batch_id": batch_id}) for each in (client, other)]
        assert answers[0].status == answers[1].status
        assert answers[0].json == answers[1].json
    # What the high-level batch held is free again, so that the first batch can be undone now.
    answers = [each.post(REOPEN, {"batch_id": life.whole[0]}) for each in (client, other)]
    assert (answers[0].status, answers[0].json) == (200, answers[1].json)
    assert b"".join(pages(other, 50)) == b"".join(pages(client, 50))
    fresh = [each.post(CHECKOUT, {"tier": 1}).json for each in (client, other)]
    for name in ("memories", "source_ids", "covers", "est_tokens"):
        assert fresh[0][name] == fresh[1][name]
    assert fresh[0]["count"] == len(client.export())


def test_pages_may_come_twice_and_in_any_order(life: Life, client: Client, other: Client) -> None:
    parts = pages(client, 9)
    for part in [*reversed(parts), *parts[::2]]:
        assert send(other, part).json["status"] == "open"
    again = send(other, parts[0], finish=True).json
    assert (again["status"], again["stored"]) == ("complete", 0)
    assert b"".join(pages(other, 1_000)) == b"".join(parts)
    # The last page once more, after a lost answer.
    assert send(other, parts[0], finish=True).json == again
    assert other.get("/v1/memory/stats").json["reflection"] == client.get("/v1/memory/stats").json["reflection"]


def test_a_page_counts_what_is_new(client: Client, other: Client) -> None:
    client.ingest("one", "two", "three")
    lines = client.get(EXPORT).body.splitlines(keepends=True)
    answers = [send(other, b"".join(lines[a:b])).json for a, b in ((0, 2), (0, 2), (1, 3))]
    assert [(each["stored"], each["total"]) for each in answers] == [(2, 2), (0, 2), (1, 3)]


BAD: list[Callable[[dict[str, Any]], Any]] = [
    lambda row: row | {"id": "not a uuid"},
    lambda row: row | {"tier": 4},
    lambda row: row | {"tier": True},
    lambda row: row | {"content": " \u2003 "},
    lambda row: row | {"content": "x" * 100_001},
    lambda row: row | {"date": "yesterday"},
    lambda row: row | {"importance": 5},
    lambda row: row | {"batch_id": "cb_x"},
    lambda row: row | {"session_id": 5},
    lambda row: row | {"consolidation": {"position": 0}},
    lambda row: row | {"tier": 2},
    lambda row: {name: value for name, value in row.items() if name != "role"},
    lambda row: [row],
]


@pytest.mark.parametrize("spoil", BAD)
def test_a_bad_line_is_named_and_nothing_of_its_page_is_kept(
    spoil: Callable[[dict[str, Any]], Any], client: Client, other: Client
) -> None:
    client.ingest("one", "two", "three", "four")
    lines = client.get(EXPORT).body.splitlines()
    send(other, lines[0])
    spoiled = json.dumps(spoil(json.loads(lines[2]))).encode()
    answer = send(other, b"\n".join([lines[1], b"", spoiled, lines[3]]))
    assert (answer.status, answer.code, answer.json["line"]) == (400, "invalid_request", 3)
    assert "3" in answer.json["error"]
    assert send(other, b"").json == {"status": "open", "stored": 0, "total": 1}
    assert send(other, b"\n".join(lines[1:]), finish=True).json["total"] == 4


@pytest.mark.parametrize("name", ["content", "date", "role", "session_id", "consolidation"])
def test_a_row_that_came_before_with_other_content_is_a_bad_line(name: str, client: Client, other: Client) -> None:
    """Taking either silently would lose the other."""
    client.ingest("one", "two")
    client.consolidate("of both")
    lines = client.get(EXPORT).body.splitlines()
    assert send(other, b"\n".join(lines)).status == 200
    row = json.loads(lines[1])
    changed = {"content": "2", "date": "2020-01-01", "role": "tool", "session_id": "s", "consolidation": None}[name]
    answer = send(other, lines[0] + b"\n" + json.dumps(row | {name: changed}).encode(), finish=True)
    assert (answer.status, answer.json["line"]) == (400, 2)
    assert send(other, b"", finish=True).json["total"] == 3
    assert b"".join(pages(other, 10)).splitlines() == lines


def test_lines_without_a_time_of_writing_may_come_twice_too(client: Client, other: Client) -> None:
    client.ingest("one")
    row = json.loads(client.get(EXPORT).body)
    row.pop("created_at")
    for stored in (1, 0):
        assert send(other, json.dumps(row).encode()).json["stored"] == stored


def test_a_vault_with_rows_of_its_own_takes_no_import(client: Client, other: Client) -> None:
    client.ingest("foreign")
    (page,) = pages(client, 10)
    own = other.ingest("own")
    for finish in (False, True):
        answer = send(other, page, finish)
        assert (answer.status, answer.code) == (409, "vault_not_empty")
    assert [row["id"] for row in other.export()] == own
    assert other.ingest("more")


def test_a_vault_that_was_emptied_takes_one(client: Client, other: Client) -> None:
    client.ingest("foreign")
    ids = other.ingest("own")
    other.post("/v1/memory/delete-ids", {"ids": ids})
    assert take_in(other, pages(client, 10))["total"] == 1
    assert other.export() == client.export()


ENTRY = [{"text": "a", "importance": 1}]
WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/v1/memory/ingest", {"messages": [{"role": "user", "content": "a"}]}),
    ("POST", "/v1/memory/upload", {"content": "a"}),
    ("POST", CHECKOUT, {"tier": 1}),
    ("POST", CHECKOUT, {"tier": 2}),
    ("POST", COMMIT, {"batch_id": "cb_a", "entries": ENTRY}),
    ("POST", RELEASE, {"batch_id": "cb_a"}),
    ("POST", "/v1/memory/consolidate/renew", {"batch_id": "cb_a"}),
    ("POST", REOPEN, {"batch_id": "cb_a"}),
    ("POST", "/v1/memory/delete-ids", {"ids": [NOBODY]}),
]


def test_while_an_import_is_open_nothing_else_writes_and_nothing_shows(
    life: Life, client: Client, other: Client
) -> None:
    part = pages(client, 30)[0]
    assert send(other, part).status == 200
    for method, path, body in WRITES:
        answer = other.call(method, path, body)
        assert (answer.status, answer.code) == (409, "import_open"), (path, answer.body)
        assert "finish=true" in answer.json["hint"]
    session = other.delete("/v1/memory", headers={"X-Session-ID": "s1"})
    assert (session.status, session.code) == (409, "import_open")
    assert other.export() == []
    assert other.post(SEARCH, {"query": "harbour"}).json["memories"] == []
    assert other.post(DATES, {"from": "2000-01-01"}).json["memories"] == []
    assert other.post(INSPECT, {"memory_id": json.loads(part.splitlines()[0])["id"]}).status == 404
    stats = other.get("/v1/memory/stats").json
    assert (stats["memories"], stats["import_open"], stats["reflection"]["unconsolidated"]["raw"]["units"]) == (
        0,
        True,
        0,
    )


def test_delete_throws_an_open_import_away(life: Life, client: Client, other: Client) -> None:
    parts = pages(client, 30)
    send(other, parts[0])
    assert other.delete("/v1/memory").json["deleted"] is True
    assert other.get("/v1/memory/stats").json["import_open"] is False
    ids = other.ingest("free again")
    assert [row["id"] for row in other.export()] == ids
    other.delete("/v1/memory")
    assert take_in(other, parts)["total"] == len(client.export())


def test_a_writer_that_races_with_the_last_page_loses_nothing(client: Client, gateway: Gateway) -> None:
    """Whatever was answered with 202 is in the vault in the end."""
    client.ingest(*(f"line {number}" for number in range(20)))
    (page,) = pages(client, 100)
    outcomes = set()
    for turn in range(25):
        target = client.using(f"mk_race-{turn}")
        start = threading.Barrier(3)
        kept: list[str] = []
        statuses: list[int] = []

        def write(
            target: Client = target, start: threading.Barrier = start, kept: list[str] = kept, turn: int = turn
        ) -> None:
            start.wait()
            for number in range(4):
                body = {"messages": [{"role": "user", "content": f"{turn}.{number}"}]}
                answer = target.post("/v1/memory/ingest", body)
                assert answer.status in (202, 409), answer.body
                kept.extend(answer.json.get("ids", ()))

        def bring(target: Client = target, start: threading.Barrier = start, statuses: list[int] = statuses) -> None:
            start.wait()
            statuses.append(send(target, page, finish=True).status)

        threads = [threading.Thread(target=write), threading.Thread(target=write), threading.Thread(target=bring)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses[0] in (200, 409)
        assert {row["id"] for row in target.export()} >= set(kept)
        assert len(target.export()) == len(kept) + (20 if statuses == [200] else 0)
        outcomes.add((statuses[0], bool(kept)))
    assert outcomes


def test_an_import_goes_on_after_a_restart(life: Life, client: Client, tmp_path: Path) -> None:
    parts = pages(client, 30)
    settings = Settings(data=tmp_path / "new home", embedder="hashed-64", index_memory_mb=64)
    with bootstrap.Embedded(settings) as first:
        bootstrap.activate(first)
        other = Client(Gateway(first.services), first.services)
        send(other, parts[0])
        send(other, parts[1])
    with bootstrap.Embedded(settings) as second:
        bootstrap.activate(second)
        other = Client(Gateway(second.services), second.services)
        assert other.get("/v1/memory/stats").json["import_open"] is True
        assert other.post("/v1/memory/ingest", WRITES[0][2]).code == "import_open"
        for part in parts[1:]:
            assert send(other, part).status == 200
        assert send(other, b"", finish=True).json["status"] == "complete"
        assert b"".join(pages(other, 1_000)) == b"".join(parts)


def test_an_expired_lease_leaves_its_rows_free_on_both_sides(
    client: Client, other: Client, backend: bootstrap.Embedded
) -> None:
    client.ingest("one", "two")
    short = replace(backend.services.policy, lease_ms=1)
    backend.services = replace(backend.services, policy=short)
    client.post(CHECKOUT, {"tier": 1})
    threading.Event().wait(0.01)
    take_in(other, pages(client, 1))
    both = [each.post(CHECKOUT, {"tier": 1}).json for each in (client, other)]
    assert both[0]["memories"] == both[1]["memories"]
    assert both[0]["count"] == 2


def test_the_model_moves_with_the_rows(client: Client, backend: bootstrap.Embedded) -> None:
    """Scores come from the model: a vault that was bound to another one than the default keeps it."""
    body = {"messages": [{"role": "user", "content": f"a {word} at night", "timestamp": 5} for word in WORDS]}
    assert client.post("/v1/memory/ingest", body | {"embeddings": "wordllama-256"}).status == 202
    backend.services.embedders["wordllama-256"].load()
    settle(backend)
    page = client.get(EXPORT).body
    before = [(row["content"], row["score"]) for row in client.post(SEARCH, {"query": "a lamp"}).json["memories"]]
    moved, chosen, bound = (client.using(f"mk_home-{number}") for number in range(3))
    # A page may be empty, the first one too.
    assert send(moved, b"").status == 200
    assert send(moved, page, finish=True).status == 200
    # Whoever names a model, or has a vault that is bound to one, means it.
    named = {"X-Embedding-Model": "hashed-64"}
    assert chosen.post(IMPORT + "?finish=true", page, content_type="text/plain", headers=named).status == 200
    bound.ingest("a")
    bound.delete("/v1/memory")
    assert send(bound, page, finish=True).status == 200
    settle(backend)
    after = [(row["content"], row["score"]) for row in moved.post(SEARCH, {"query": "a lamp"}).json["memories"]]
    assert after == before
    assert moved.get(EXPORT).body == page
    models = [each.get("/v1/memory/stats").json["embedding_model"] for each in (moved, chosen, bound)]
    assert models == ["wordllama-256", "hashed-64", "hashed-64"]


@pytest.mark.parametrize("model", ["a-model-of-elsewhere", None, 5])
def test_rows_of_an_unknown_model_get_the_default(model: object, client: Client, other: Client) -> None:
    client.ingest("a")
    line = json.loads(client.get(EXPORT).body) | {"embedding_model": model}
    assert send(other, json.dumps(line).encode(), finish=True).status == 200
    assert other.get("/v1/memory/stats").json["embedding_model"] == "hashed-64"
