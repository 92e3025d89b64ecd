"""What search promises, on real rows: found at once, k when k exist, no ghosts, no strangers, nothing lost."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from shared.domain.memory import VaultRef
from shared.ports.store import Change
from shared.usecases.indexing import fill_vectors
from tests.api.backends import EMBEDDED_ONLY
from tests.api.client import Client

INGEST, SEARCH, STATS = "/v1/memory/ingest", "/v1/memory/search", "/v1/memory/stats"
NOUNS = ("harbour", "saffron", "meadow", "lantern", "cedar", "violin", "glacier", "orchard", "thimble", "walrus")


def filled(backend: bootstrap.Embedded) -> None:
    for vault in backend.stored():
        while fill_vectors(backend.services, vault, 500):
            pass


def hits(client: Client, query: str, limit: int = 10, **more: Any) -> list[dict[str, Any]]:
    answer = client.post(SEARCH, {"query": query, "limit": limit, **more})
    assert answer.status == 200, answer.body
    rows = answer.json["memories"]
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len({row["id"] for row in rows}) == len(rows)
    return list(rows)


def test_every_row_of_a_large_request_is_found_by_its_word_at_once(client: Client) -> None:
    ids = client.ingest(*(f"the parcel with the label zq{number} arrived" for number in range(500)))
    for number in range(0, 500, 23):
        assert hits(client, f"where is zq{number}?", 1)[0]["id"] == ids[number]


@pytest.fixture
def varied(client: Client, backend: bootstrap.Embedded) -> list[str]:
    """300 rows of raw and reflected text in sessions; the ids of the raw ones."""
    chance = random.Random(7)
    ids: list[str] = []
    for part in range(20):
        texts = [" ".join(chance.choices(NOUNS, k=chance.randint(2, 30))) for _ in range(10)]
        messages = [{"role": "user", "content": f"{text} {part * 10 + place}"} for place, text in enumerate(texts)]
        body = {"messages": messages, "session_id": (None, "a", "b")[part % 3]}
        ids += client.post(INGEST, body).json["ids"]
    client.consolidate(*(" ".join(chance.choices(NOUNS, k=6)) for _ in range(80)))
    client.consolidate(*(" ".join(chance.choices(NOUNS, k=4)) for _ in range(20)), tier=2)
    filled(backend)
    return ids


def test_the_order_does_not_depend_on_the_limit(client: Client, varied: list[str]) -> None:
    for query in (*NOUNS, "the violin in the orchard", "who keeps a walrus", "unheard of", "saffron saffron 17"):
        longest = hits(client, query, 500)
        assert len(longest) == 300
        for limit in (1, 2, 3, 4, 10, 11, 50, 299):
            assert hits(client, query, limit) == longest[:limit]
        leading = longest[:3]
        relevant = {row["tier"] for row in longest if query in row["content"]}
        assert {row["tier"] for row in leading} >= relevant


def test_k_come_whenever_k_exist(client: Client, varied: list[str], backend: bootstrap.Embedded) -> None:
    reflections = [row["id"] for row in client.export() if row["tier"] > 1]
    gone = set(varied[::2] + reflections[::3])
    for start in range(0, len(gone), 50):
        client.post("/v1/memory/delete-ids", {"ids": sorted(gone)[start : start + 50]})
        left = 300 - min(start + 50, len(gone))
        for query in ("harbour", "nothing like it"):
            rows = hits(client, query, 500)
            assert len(rows) == left
            assert not gone.intersection(sorted(gone)[: start + 50]) & {row["id"] for row in rows}
    live = {row["id"]: row for row in client.export()}
    for tiers in ([1], [2], [3], [1, 3], [2, 3]):
        expected = {name for name, row in live.items() if row["tier"] in tiers}
        assert {row["id"] for row in hits(client, "cedar", 500, tiers=tiers)} == expected
    some = {name for name, row in live.items() if row["tier"] > 1 or row["session_id"] in (None, "a")}
    assert {row["id"] for row in hits(client, "cedar", 500, session_id="a")} == some
    nobody = {name for name, row in live.items() if row["tier"] > 1 or row["session_id"] is None}
    assert {row["id"] for row in hits(client, "cedar", 500, session_id="never used")} == nobody
    assert hits(client, "cedar", 500, importance=8) == []


def test_another_vault_changes_no_score(client: Client, varied: list[str], backend: bootstrap.Embedded) -> None:
    before = [hits(client, query, 50) for query in NOUNS]
    client.using("mk_neighbour").ingest(*(f"{noun} {noun} violin" for noun in NOUNS * 20))
    filled(backend)
    assert [hits(client, query, 50) for query in NOUNS] == before
    strangers = hits(client.using("mk_neighbour"), "violin", 500)
    assert len(strangers) == 200
    assert not {row["id"] for row in strangers} & {row["id"] for row in client.export()}


def test_a_search_that_was_overtaken_takes_no_vectors_away(
    client: Client, backend: bootstrap.Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read the outbox before somebody else indexed the same rows, vectors included, and goes on afterwards."""
    ids = client.ingest("a heron on the weir", "a lamp in the window")
    before = hits(client, "heron", 2)
    late = [tuple(Change(number, memory_id) for number, memory_id in enumerate(ids, start=1))]
    feed = type(backend.services.feed)
    pending = feed.pending

    def overtaken(self: Any, vault: VaultRef, limit: int) -> tuple[Change, ...]:
        return late.pop() if late else pending(self, vault, limit)

    monkeypatch.setattr(feed, "pending", overtaken)
    assert hits(client, "heron", 2) == before
    assert late == []
    assert client.get(STATS).json["waiting_vectors"] == 0
    assert hits(client, "heron", 2) == before


@pytest.mark.slow
@EMBEDDED_ONLY
def test_a_crowd_on_several_vaults_loses_nothing_and_sees_no_fault(backend: bootstrap.Embedded) -> None:
    worker = Worker(backend.services)
    gateway = Gateway(backend.services, worker)
    worker.start()
    statuses: set[int] = set()
    kept: dict[str, set[str]] = {"mk_crowd-a": set(), "mk_crowd-b": set(), "mk_crowd-c": set()}
    failures: list[str] = []

    def live(number: int) -> None:
        chance = random.Random(number)
        for turn in range(25):
            key = f"mk_crowd-{'aabc'[number % 4]}"
            client = Client(gateway, backend.services, key)
            word = f"w{number}x{turn}"
            messages = [{"role": "user", "content": f"{word} {part}"} for part in range(chance.choice((1, 2, 30)))]
            stored = client.post(INGEST, {"messages": messages})
            found = client.post(SEARCH, {"query": word, "limit": 50})
            statuses.update((stored.status, found.status))
            ids = set(stored.json["ids"])
            if not {row["id"] for row in found.json["memories"]} >= ids:
                failures.append(f"{word} was not found at once")
            gone = sorted(ids)[: len(ids) // 2]
            if gone:
                answer = client.post("/v1/memory/delete-ids", {"ids": gone})
                statuses.add(answer.status)
                if answer.json["deleted"] != len(gone):
                    failures.append(f"{word} was not deleted")
                seen = client.post(SEARCH, {"query": word, "limit": 500}).json["memories"]
                if {row["id"] for row in seen} & set(gone):
                    failures.append(f"{word} was found after its end")
            kept[key] |= ids - set(gone)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert failures == []
        assert statuses == {200, 202}
        for key, ids in kept.items():
            client = Client(gateway, backend.services, key)
            assert {row["id"] for row in client.export()} == ids
            assert {row["id"] for row in hits(client, "w1x1", 500)} <= ids
            deadline = time.monotonic() + 30
            while client.get(STATS).json["waiting_vectors"]:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert client.get(STATS).json["totalVectors"] == len(ids)
    finally:
        worker.stop()


def test_a_vault_that_was_searched_before_its_first_write_may_be_bound_to_any_model(
    client: Client, worker: Worker
) -> None:
    """What the first search put into memory was measured for the default model."""
    plain = client.using("mk_never-searched-before")
    assert hits(client, "heron") == []
    texts = ("a heron on the weir", "the lamp is lit")
    messages = [{"role": "user", "content": text, "timestamp": 0} for text in texts]
    worker.start()
    try:
        for each in (client, plain):
            assert each.post(INGEST, {"messages": messages, "embeddings": "wordllama-256"}).status == 202
        deadline = time.monotonic() + 30
        while any(each.get(STATS).json["waiting_vectors"] for each in (client, plain)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        worker.stop()
    found, expected = ([(row["content"], row["score"]) for row in hits(each, "a bird", 2)] for each in (client, plain))
    assert found == expected
    assert found[0][1] > 0
    assert client.delete("/v1/memory?reset=true").status == 200
    assert hits(client, "heron") == []
    client.ingest("a heron on the weir")
    assert hits(client, "heron")[0]["content"] == "a heron on the weir"
