"""Many callers at once through the gateway: no faults, no row lost or consolidated twice, the debt always a recount."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from tests.api.backends import EMBEDDED_ONLY
from tests.api.client import Client

pytestmark = EMBEDDED_ONLY

INGEST, SEARCH, STATS = "/v1/memory/ingest", "/v1/memory/search", "/v1/memory/stats"
CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
RELEASE, REOPEN = "/v1/memory/consolidate/release", "/v1/memory/consolidate/reopen"
RENEW, DELETE = "/v1/memory/consolidate/renew", "/v1/memory/delete-ids"


@pytest.fixture
def gateway(backend: bootstrap.Embedded) -> Iterator[Gateway]:
    worker = Worker(backend.services)
    worker.start()
    yield Gateway(backend.services, worker)
    worker.stop()


def crowd(work: Callable[[int], None], size: int = 8) -> None:
    """Run `work` in threads; what fails in one of them fails here."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def audit(client: Client) -> None:
    """Lineage and debt, recounted from the export and from inspect."""
    rows = client.export()
    by_id = {row["id"]: row for row in rows}
    free = [row for row in rows if "consolidation" not in row and row["tier"] < 3]
    debt = client.get(STATS).json["reflection"]["unconsolidated"]
    raw, reflections = ([row for row in free if row["tier"] == tier] for tier in (1, 2))

    def tokens(some: list[dict[str, str]]) -> int:
        return sum(-(-len(row["content"].encode()) // 4) for row in some)

    assert (debt["raw"]["units"], debt["raw"]["est_tokens"]) == (len(raw), tokens(raw))
    assert (debt["tier2"]["count"], debt["tier2"]["est_tokens"]) == (len(reflections), tokens(reflections))
    assert debt["tier2"]["importance"] == sum(row["importance"] for row in reflections)
    places = Counter(
        (row["consolidation"]["batch"]["id"], row["consolidation"]["position"])
        for row in rows
        if "consolidation" in row
    )
    assert all(count == 1 for count in places.values())
    for row in rows:
        if row["tier"] == 1:
            continue
        shown = client.post("/v1/memory/inspect", {"memory_id": row["id"]}).json
        sources = [source["id"] for source in shown["sources"]]
        assert len(sources) + shown["sources_deleted"] == shown["sources_total"]
        for source in sources:
            assert by_id[source]["consolidation"]["batch"]["id"] == row["batch_id"]
            assert row["id"] in by_id[source]["consolidated_into"]
    for tier in (1, 2):
        seen: list[str] = []
        while (batch := client.post(CHECKOUT, {"tier": tier, "max_tokens": 1_000}).json)["batch_id"]:
            seen += batch["source_ids"]
        assert len(seen) == len(set(seen))
        assert set(seen) <= {row["id"] for row in free}


def test_consolidating_in_a_crowd(client: Client) -> None:
    held: list[str] = []
    committed: list[str] = []
    told: list[str] = []
    sources: Counter[str] = Counter()
    reopened: set[str] = set()
    lock = threading.Lock()

    def pick(some: list[str], chance: random.Random) -> str:
        with lock:
            return chance.choice(some) if some else "cb_none"

    def work(number: int) -> None:
        chance = random.Random(number)
        for turn in range(40):
            roll = chance.random()
            if roll < 0.25:
                ids = client.ingest(*(f"{number} {turn} {n} " + "word " * 40 for n in range(chance.randint(1, 15))))
                with lock:
                    told.extend(ids)
            elif roll < 0.5:
                answer = client.post(CHECKOUT, {"tier": chance.choice((1, 1, 1, 2)), "max_tokens": 1_000})
                assert answer.status in (200, 429), answer.body
                if answer.status == 200 and answer.json["batch_id"]:
                    with lock:
                        held.append(answer.json["batch_id"])
            elif roll < 0.75:
                batch = pick(held, chance)
                entries = [{"text": f"{number} {turn} " + "told " * 30, "importance": chance.randint(1, 10)}]
                answer = client.post(COMMIT, {"batch_id": batch, "entries": entries})
                assert answer.status in (200, 404, 409), answer.body
                if answer.status == 200:
                    with lock:
                        committed.append(batch)
                        sources[batch] += not answer.json["already_committed"]
            elif roll < 0.8:
                assert client.post(RELEASE, {"batch_id": pick(held, chance)}).status in (200, 404, 409)
            elif roll < 0.85:
                assert client.post(RENEW, {"batch_id": pick(held, chance)}).status in (200, 404, 409)
            elif roll < 0.9:
                batch = pick(committed, chance)
                answer = client.post(REOPEN, {"batch_id": batch})
                assert answer.status in (200, 404, 409), answer.body
                if answer.status == 200:
                    with lock:
                        reopened.add(batch)
            else:
                with lock:
                    gone = [told.pop(chance.randrange(len(told))) for _ in range(min(len(told), 3))]
                if gone:
                    assert client.post(DELETE, {"ids": gone}).json["deleted"] == len(gone)

    crowd(work)
    for batch in held:
        client.post(RELEASE, {"batch_id": batch})
    assert committed
    assert all(count == 1 for count in sources.values())
    assert {row["id"] for row in client.export() if row["tier"] == 1} == set(told)
    written = {row["batch_id"] for row in client.export() if row["tier"] > 1}
    assert written == set(committed) - reopened
    audit(client)


def test_emptying_a_vault_in_a_crowd(client: Client) -> None:
    """What was told before the last deletion is gone, what was told after it is there. A request may be told to come
    again when the vault was emptied under it several times in a row; nothing else is a 5xx.
    """
    statuses: Counter[tuple[str, int]] = Counter()

    def work(number: int) -> None:
        for turn in range(40):
            kind = ("tell", "search", "out", "tell", "empty", "export", "search", "commit")[(number + turn) % 8]
            if kind == "tell":
                answer = client.post(INGEST, {"messages": [{"role": "user", "content": f"{number} {turn}"}]})
            elif kind == "search":
                answer = client.post(SEARCH, {"query": f"{number} {turn}"})
            elif kind == "out":
                answer = client.post(CHECKOUT, {"tier": 1})
            elif kind == "commit":
                batch = client.post(CHECKOUT, {"tier": 1}).json.get("batch_id") or "cb_none"
                entries = [{"text": "told", "importance": 5}]
                answer = client.post(COMMIT, {"batch_id": batch, "entries": entries})
            elif kind == "empty":
                answer = client.delete("/v1/memory")
            else:
                answer = client.get("/v1/memory/export")
            if answer.status == 503:
                assert (answer.code, answer.headers["Retry-After"]) == ("busy", "1")
            statuses[kind, answer.status] += 1

    crowd(work)
    assert {status for _, status in statuses} <= {200, 202, 404, 409, 503}
    assert {(kind, 200) for kind in ("search", "out", "empty", "export")} < set(statuses)
    assert client.delete("/v1/memory").status == 200
    assert client.export() == []
    assert client.get(STATS).json["reflection"]["unconsolidated"]["raw"]["units"] == 0
    ids = client.ingest("the first of a new life")
    assert [row["id"] for row in client.export()] == ids
    assert [row["id"] for row in client.post(SEARCH, {"query": "life", "limit": 500}).json["memories"]] == ids
    audit(client)


def test_many_keys_are_opened_at_once(client: Client) -> None:
    """The first requests of one unknown key meet in one vault."""

    def work(number: int) -> None:
        for turn in range(12):
            client.using(f"mk_first-{turn}").ingest(f"from {number}")

    crowd(work)
    for turn in range(12):
        rows = client.using(f"mk_first-{turn}").export()
        assert sorted(row["content"] for row in rows) == [f"from {number}" for number in range(8)]
        assert len(client.using(f"mk_first-{turn}").get("/v1/keys").json["keys"]) == 1
