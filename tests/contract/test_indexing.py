"""The change stream into the real index: however records come, index and table agree in the end."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.documents import content
from shared.api.stream import consume
from shared.bootstrap import Aws
from shared.bootstrap.rebuilding import Beside
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef
from shared.ports.search import Filters, Query
from shared.settings import Settings
from shared.usecases import repair
from shared.usecases.services import Services
from tests.contract.rows import NOW, Maker
from tests.dynamodb.streams import SHARD
from tests.dynamodb.table import MemoryTable
from tests.opensearch.node import PREFIX

pytestmark = [pytest.mark.slow, pytest.mark.loopback]

MODEL = HashingEmbedder()
WORDS = ["harbour", "saffron", "meadow", "lantern", "cedar", "violin", "glacier", "orchard"]
_numbers = count(1)


class Site:
    """A table in memory with its stream, and an index of its own on the real node."""

    def __init__(self, url: str) -> None:
        number = next(_numbers)
        self.memory = MemoryTable()
        self.streams = self.memory.streams()
        self.backend = Aws(
            Settings(backend="aws", table="memories", search_url=url, embedder=MODEL.name),
            connect={"dynamodb": self.memory, "dynamodbstreams": self.streams}.__getitem__,
            embedders={MODEL.name: MODEL},
            follow=True,
            indexes=f"{PREFIX}-flow{number}",
        )
        self.memory.create_table(TableName="memories", **SCHEMA)
        self.backend.create_indexes()
        self.services: Services = self.backend.services
        self.alias = mapping.alias(MODEL.name, MODEL.dimension, self.backend.indexes)

    def vault(self, number: int) -> VaultRef:
        from shared.usecases.keys import authenticate

        allowed = replace(self.services, policy=replace(self.services.policy, auto_provision_keys=True))
        return authenticate(allowed, f"mk_number-{number:09}").vault

    def records(self) -> list[dict[str, Any]]:
        """Everything in the stream, as the event source hands it out."""
        arn = self.streams.list_streams(TableName="memories")["Streams"][0]["StreamArn"]
        where = {"StreamArn": arn, "ShardId": SHARD, "ShardIteratorType": "TRIM_HORIZON"}
        iterator, found = self.streams.get_shard_iterator(**where)["ShardIterator"], list[dict[str, Any]]()
        while page := (answer := self.streams.get_records(ShardIterator=iterator))["Records"]:
            found += page
            iterator = answer["NextShardIterator"]
        # The clock of the table in memory stands in the past.
        return [{**each, "dynamodb": {**each["dynamodb"], "ApproximateCreationDateTime": None}} for each in found]

    def deliver(self, records: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
        return consume(self.services, {"Records": records})["batchItemFailures"]

    def documents(self, vault: VaultRef) -> dict[str, tuple[str, list[float] | None]]:
        """Digest and vector of every document of the vault."""
        transport = self.backend.transport()
        transport.refresh(self.alias)
        body = {"size": 5_000, "query": {"bool": {"filter": [{"term": {"content": content(vault)}}]}}}
        hits = transport.search(self.alias, vault.vault_id, body)["hits"]["hits"]
        transport.close()
        return {hit["_id"]: (hit["_source"]["digest"], hit["_source"].get("vector")) for hit in hits}

    def living(self, vault: VaultRef) -> set[str]:
        return {row.id for row in self.services.store.export(vault, None, 1_000)}

    def answers(self, vault: VaultRef) -> list[list[tuple[str, float]]]:
        """Hits of some questions, with the vectors deciding as well."""
        questions = [*WORDS, "a lantern in the meadow", "who said glacier"]
        return [
            [
                (hit.memory_id, hit.score)
                for hit in self.services.index.search(
                    vault, Query(asked, MODEL.embed_query(asked), MODEL.noise), Filters(), 50
                )
            ]
            for asked in questions
        ]

    def close(self) -> None:
        transport = self.backend.transport()
        transport.request("DELETE", f"/{self.backend.indexes}-*")
        transport.close()
        self.backend.close()


@pytest.fixture
def site(opensearch_url: str) -> Iterator[Site]:
    made = Site(opensearch_url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_site(opensearch_url: str) -> Iterator[Site]:
    made = Site(opensearch_url)
    yield made
    made.close()


def silent(what: str, number: int) -> None:
    return None


def work(site: Site, vault: VaultRef, make: Maker, chance: random.Random, steps: int) -> None:
    """Rows come in a few sessions, many of them dated before rows that are there, and some go again."""
    living: list[str] = [row.id for row in site.services.store.export(vault, None, 1_000)]
    for _ in range(steps):
        if living and chance.random() < 0.3:
            gone = chance.sample(living, min(len(living), chance.randint(1, 2)))
            site.services.store.delete(vault, gone, NOW)
            living = [each for each in living if each not in gone]
            continue
        rows = [
            make.raw(
                " ".join(chance.choices(WORDS, k=chance.randint(1, 5)))
                + (". " + "so it was. " * 60) * (chance.random() < 0.1),
                date_ms=NOW + chance.randint(-50, 50) * 60_000,
                session=chance.choice([None, "one", "two"]),
            )
            for _ in range(chance.randint(1, 4))
        ]
        site.services.store.append(vault, rows, None, NOW)
        living += [row.id for row in rows]


def shuffled(records: Sequence[dict[str, Any]], chance: random.Random, twice: float) -> list[list[dict[str, Any]]]:
    """The records in any order, some of them again, in batches of any size."""
    mixed = [each for each in records for _ in range(1 + (chance.random() < twice))]
    chance.shuffle(mixed)
    batches = []
    while mixed:
        size = chance.randint(1, 12)
        batches.append(mixed[:size])
        mixed = mixed[size:]
    return batches


def rebuilt(site: Site, vault: VaultRef) -> tuple[dict[str, tuple[str, list[float] | None]], Any]:
    """What a new index, filled from the table alone, holds and answers."""
    beside = Beside(site.backend)
    repair.rebuild(beside.services, vault, silent)
    beside.take_over()
    beside.drop_replaced()
    beside.close()
    return site.documents(vault), site.answers(vault)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_records_in_any_order_and_again_and_late_lead_to_the_same_index(shared_site: Site, seed: int) -> None:
    site, chance, make = shared_site, random.Random(seed), Maker()
    vault = site.vault(next(_numbers))
    before = len(site.records())
    late: list[dict[str, Any]] = []
    for _ in range(3):
        seen = len(site.records())
        work(site, vault, make, chance, 4)
        fresh = site.records()[seen:]
        chance.shuffle(fresh)
        cut = chance.randint(0, len(fresh))
        late += fresh[cut:]
        batches = shuffled(fresh[:cut], chance, twice=0.3)
        # Two indexers at once, each with half of the batches.
        threads = [
            threading.Thread(target=lambda part=part: [site.deliver(batch) for batch in part])
            for part in (batches[::2], batches[1::2])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for batch in shuffled(late, chance, twice=0.3):
        assert site.deliver(batch) == []
    # Every record once more, an hour later as it were.
    for batch in shuffled(site.records()[before:], chance, twice=0):
        assert site.deliver(batch) == []
    held, answers = site.documents(vault), site.answers(vault)
    assert {name.split("#")[2] for name in held} == site.living(vault)
    assert all(vector is not None for _, vector in held.values())
    assert (held, answers) == rebuilt(site, vault)


def test_records_that_never_came_are_found_by_reconcile(site: Site) -> None:
    chance, make, vault = random.Random(5), Maker(), site.vault(1)
    work(site, vault, make, chance, 12)
    records = site.records()
    # Half of all news is lost, of insertions and deletions alike.
    site.deliver([each for each in records if chance.random() < 0.5])
    # A row that the index has and the store lost without a record.
    ghost = make.raw("a ghost in the meadow", session="one")
    site.services.store.append(vault, [ghost], None, NOW)
    site.deliver(site.records()[len(records) :])
    site.services.store.delete(vault, [ghost.id], NOW)
    first = repair.reconcile(site.services, site.backend.repairable, vault, silent)
    assert first.missing > 0
    assert first.ghosts > 0
    second = repair.reconcile(site.services, site.backend.repairable, vault, silent)
    assert second.clean
    assert (site.documents(vault), site.answers(vault)) == rebuilt(site, vault)


def test_an_emptied_index_is_rebuilt_with_the_same_answers(site: Site) -> None:
    make, vault = Maker(), site.vault(1)
    work(site, vault, make, random.Random(9), 15)
    site.deliver(site.records())
    before = site.documents(vault), site.answers(vault)
    assert before[1][0]
    transport = site.backend.transport()
    transport.request("POST", f"/{site.alias}/_delete_by_query?refresh=true", {"query": {"match_all": {}}})
    transport.close()
    assert site.documents(vault) == {}
    assert rebuilt(site, vault) == before
    # In place, it costs nothing when all is there.
    again = repair.rebuild(site.services, vault, silent)
    assert again.vectors == 0
    assert site.documents(vault) == before[0]


def test_a_corrupted_index_is_made_right(site: Site) -> None:
    """Documents that were changed, removed, added and left without their vectors by somebody else's hand."""
    make, vault = Maker(), site.vault(1)
    rows = [make.raw(f"{word} number {place}", session="one") for place, word in enumerate(WORDS)]
    site.services.store.append(vault, rows, None, NOW)
    site.deliver(site.records())
    before = site.documents(vault), site.answers(vault)
    transport = site.backend.transport()
    names = sorted(before[0])
    # With the version that they have: an hour long the node would refuse anything older.
    route = f"routing={vault.vault_id}&refresh=true&version=8&version_type=external_gte"
    transport.request("DELETE", f"/{site.alias}/_doc/{names[0].replace('#', '%23')}?{route}")
    held = transport.mget(site.alias, vault.vault_id, names[1:3], ["*"])
    first, second = (each["_source"] for each in held)
    nobody = "0199d1f0-0000-7000-8000-000000000001"
    spoiled = {"digest": "0" * 24, "own": ["violin"], "near": ["violin"], "wide": ["violin"], "said": ["violin"]}
    changed = {
        names[1]: first | spoiled,
        names[2]: {name: value for name, value in second.items() if name != "vector"} | spoiled | {"waiting": True},
        f"{content(vault)}#{nobody}#0": second | spoiled | {"memory": nobody},
    }
    for name, source in changed.items():
        transport.request("PUT", f"/{site.alias}/_doc/{name.replace('#', '%23')}?{route}", source)
    transport.close()
    found = repair.reconcile(site.services, site.backend.repairable, vault, silent)
    # The row beside the one that lost its vector has a part of it in its own.
    assert (found.missing, found.ghosts, found.stale, found.left) == (1, 1, 3, 0)
    assert found.vectors == 2
    assert repair.reconcile(site.services, site.backend.repairable, vault, silent).clean
    assert (site.documents(vault), site.answers(vault)) == before


def test_with_the_indexer_stopped_rows_are_found_and_later_indexed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = site.services.clock
    make, vault = Maker(), site.vault(1)
    now = clock.now_ms()
    ids = site.services.ids.memory_ids(2)
    rows = [
        replace(make.raw("a heron on the weir", date_ms=now), id=ids[0], created_ms=now),
        replace(make.raw("nothing else", date_ms=now), id=ids[1], created_ms=now),
    ]
    site.services.store.append(vault, rows, None, now)
    monkeypatch.setattr(clock, "now_ms", lambda: now + 30_000)
    hits = site.services.index.search(vault, Query("herons"), Filters(), 5)
    assert [hit.memory_id for hit in hits if hit.matched] == [rows[0].id]
    assert site.documents(vault) == {}
    assert site.services.index.status(vault).lag_ms == 30_000
    site.deliver(site.records())
    assert site.services.index.status(vault).lag_ms == 0
    monkeypatch.setattr(clock, "now_ms", lambda: now + 600_000)
    hits = site.services.index.search(vault, Query("herons"), Filters(), 5)
    assert [hit.memory_id for hit in hits if hit.matched] == [rows[0].id]


def test_an_outage_of_the_search_store_is_made_up_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    make, vault = Maker(), site.vault(1)
    site.services.store.append(vault, [make.raw("a heron"), make.raw("an owl")], None, NOW)
    records = site.records()

    def down(*_: object, **__: object) -> None:
        raise Unavailable("the search store does not answer", code="search_unavailable", retry_after=2)

    with monkeypatch.context() as patched:
        patched.setattr("shared.adapters.opensearch.transport.Transport.request", down)
        rows = [each for each in records if each["dynamodb"]["Keys"]["sk"]["S"].startswith("M#")]
        numbers = [each["dynamodb"]["SequenceNumber"] for each in rows]
        assert [each["itemIdentifier"] for each in site.deliver(records)] == numbers
    assert site.deliver(records) == []
    assert len(site.documents(vault)) == 2


def test_a_deleted_vault_leaves_nothing_behind(site: Site) -> None:
    make, vault = Maker(), site.vault(1)
    site.services.store.append(vault, [make.raw("a heron", session="one") for _ in range(30)], None, NOW)
    site.deliver(site.records())
    assert len(site.documents(vault)) == 30
    seen = len(site.records())
    epoch = site.services.directory.next_epoch(vault.vault_id, unbind=False)
    # The function that was to purge died; the stream's record of the vault finishes it.
    assert site.deliver(site.records()[seen:]) == []
    assert site.documents(vault) == {}
    # Whatever comes late of the old content changes nothing.
    assert site.deliver(site.records()) == []
    assert site.documents(vault) == {}
    fresh = VaultRef(vault.vault_id, epoch)
    site.services.store.append(fresh, [make.raw("an owl")], None, NOW)
    site.deliver(site.records())
    assert len(site.documents(fresh)) == 1


def test_what_a_crash_left_half_done_is_finished_by_the_stream(site: Site) -> None:
    """A large write and a commit die right after their commit points."""
    make, vault = Maker(), site.vault(1)
    rows = [make.raw(f"row {number}") for number in range(150)]
    dead = _dying_after(site, "transact_write_items", 1)
    with pytest.raises(KeyboardInterrupt):
        site.services.store.append(vault, rows, None, NOW)
    dead()
    assert site.services.store.totals(vault).pending > 0
    site.deliver(site.records())
    assert site.services.store.totals(vault).pending == 0
    assert len(site.services.store.export(vault, None, 500)) == 150


def _dying_after(site: Site, operation: str, calls: int) -> Any:
    """The process ends once so many of these requests took effect; returns what brings it back."""
    left = [calls]

    def after(name: str, request: Any) -> None:
        if name == operation:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

    site.memory.after = after

    def back() -> None:
        site.memory.after = None

    return back


def test_a_rebuild_can_be_stopped_and_misses_nothing_that_changes_meanwhile(site: Site) -> None:
    chance, make, vault = random.Random(3), Maker(), site.vault(1)
    work(site, vault, make, chance, 8)
    site.deliver(site.records())
    seen = len(site.records())
    stopped = Beside(site.backend)
    repair.rebuild(stopped.services, vault, silent)
    stopped.close()
    built = site.living(vault)
    # Everybody still uses the old index, and keeps it up to date.
    work(site, vault, make, chance, 6)
    site.deliver(site.records()[seen:])
    before = site.documents(vault), site.answers(vault)
    resumed = Beside(site.backend)
    repair.rebuild(resumed.services, vault, silent)
    built |= site.living(vault)
    # Rows that go while it is built stay in the new index until it is compared with the table.
    site.services.store.delete(vault, sorted(site.living(vault))[:1], NOW)
    site.deliver(site.records())
    (name,) = resumed.take_over()
    found = repair.reconcile(site.services, site.backend.repairable, vault, silent)
    assert (found.ghosts, found.left) == (len(built - site.living(vault)), 0)
    assert found.ghosts > 1
    assert repair.reconcile(site.services, site.backend.repairable, vault, silent).clean
    (old,) = resumed.drop_replaced()
    resumed.close()
    transport = site.backend.transport()
    assert list(transport.request("GET", f"/{site.backend.indexes}-*")) == [name]
    assert old != name
    transport.close()
    assert set(site.documents(vault)) < set(before[0])
    assert (site.documents(vault), site.answers(vault)) == rebuilt(site, vault)


def test_a_large_vault_is_purged_in_turns_that_the_stream_asks_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    make, vault = Maker(), site.vault(1)
    for _ in range(15):
        site.services.store.append(vault, [make.raw("a heron") for _ in range(90)], None, NOW)
    seen = len(site.records())
    epoch = site.services.directory.next_epoch(vault.vault_id, unbind=False)
    monkeypatch.setattr("shared.adapters.dynamodb.purging.PURGE_SECONDS", -1.0)
    turns = 0
    while fresh := site.records()[seen:]:
        seen += len(fresh)
        assert site.deliver(fresh) == []
        turns += 1
        assert turns < 20
    assert turns > 3
    site.services.store.purge(vault.vault_id, epoch)
    left = site.memory.query(
        TableName="memories",
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": f"V#{vault.vault_id}#{vault.epoch}"}},
    )
    assert [item["sk"]["S"] for item in left["Items"]] == ["D"]
