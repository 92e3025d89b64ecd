"""What the index on OpenSearch does beyond the port's suite: versions, neighbours, aliases, pages, the tail."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from shared.adapters.opensearch import maintain, mapping, reading
from shared.adapters.opensearch.documents import content
from shared.adapters.opensearch.transport import CREATE, FILL, Json, RowsRefused, Transport
from shared.domain.errors import Unavailable
from shared.domain.memory import Covers, Memory, VaultRef
from shared.ports.search import Filters, Hit, Query
from tests.contract.opensearch_rig import ALIAS, MODEL, OpenSearchRig
from tests.contract.rows import NOW, Maker
from tests.opensearch.node import PREFIX

pytestmark = [pytest.mark.slow, pytest.mark.loopback]


@pytest.fixture
def rig(opensearch_url: str) -> Iterator[OpenSearchRig]:
    made = OpenSearchRig(opensearch_url)
    yield made
    made.close()


@pytest.fixture
def vault(rig: OpenSearchRig) -> VaultRef:
    return rig.new_vault()


def embed(rig: OpenSearchRig, vault: VaultRef) -> int:
    waiting = rig.index.without_vectors(vault, 10_000)
    if waiting:
        rig.index.put_vectors(vault, waiting, MODEL.embed_documents([passage.text for passage in waiting]))
    return len(waiting)


def found(
    rig: OpenSearchRig, vault: VaultRef, query: str, limit: int = 50, filters: Filters | None = None
) -> list[Hit]:
    return list(
        rig.index.search(vault, Query(query, MODEL.embed_query(query), MODEL.noise), filters or Filters(), limit)
    )


def matched(rig: OpenSearchRig, vault: VaultRef, query: str) -> set[str]:
    """Rows that hold a word of the query, by words alone."""
    hits = rig.index.search(vault, Query(query), Filters(), 1_000)
    return {hit.memory_id for hit in hits if hit.matched}


def documents(rig: OpenSearchRig, vault: VaultRef, query: Json | None = None) -> dict[tuple[str, int], Json]:
    """Every document of the vault, or those that a clause finds, as stored."""
    rig.transport.refresh(ALIAS)
    clauses = [{"term": {"content": content(vault)}}, query or {"match_all": {}}]
    body = {"size": 10_000, "query": {"bool": {"filter": clauses}}, "version": True}
    hits = rig.transport.search(ALIAS, vault.vault_id, body)["hits"]["hits"]
    return {
        (hit["_source"]["memory"], hit["_source"]["number"]): {**hit["_source"], "_version": hit["_version"]}
        for hit in hits
    }


def words_of(rig: OpenSearchRig, vault: VaultRef, word: str, field: str = "wide") -> set[str]:
    """Rows whose field holds the word: their own, or in their context."""
    return {memory_id for memory_id, _ in documents(rig, vault, {"term": {field: word}})}


Lines = Sequence[tuple[Json, str | None]]


class Delayed(Transport):
    """Keeps bulk requests back until they are let go: a late writer."""

    held: list[tuple[str, Lines]]

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.held = []

    def bulk(self, index: str, lines: Lines, refresh: bool, alias: bool = True) -> list[Json]:
        self.held.append((index, lines))
        return [{"status": 200} for _ in lines]

    def let_go(self) -> list[int]:
        results = [super(Delayed, self).bulk(index, lines, True) for index, lines in self.held]
        self.held.clear()
        return [result["status"] for part in results for result in part]


def test_a_late_write_loses_and_a_removed_row_does_not_come_back(
    rig: OpenSearchRig, vault: VaultRef, make: Maker, opensearch_url: str
) -> None:
    kept, gone = make.raw("harbour", NOW, "s"), make.raw("meadow", NOW + 1, "s")
    late = Delayed(opensearch_url)
    rig.rows.write(vault, [kept, gone])
    rig.indexer(late).put_words(vault, [kept, gone])
    rig.index.put_words(vault, [kept, gone])
    rig.delete(vault, [gone])
    before = documents(rig, vault)
    assert set(before) == {(kept.id, 0)}
    assert set(late.let_go()) == {409}
    late.close()
    assert documents(rig, vault) == before
    assert words_of(rig, vault, "meadow") == set()
    assert rig.index.status(vault).passages == 1


def test_a_late_write_of_a_row_that_never_arrived_is_refused_too(
    rig: OpenSearchRig, vault: VaultRef, make: Maker, opensearch_url: str
) -> None:
    row = make.raw("meadow")
    late = Delayed(opensearch_url)
    rig.rows.write(vault, [row])
    rig.indexer(late).put_words(vault, [row])
    rig.delete(vault, [row])
    assert set(late.let_go()) == {409}
    late.close()
    assert documents(rig, vault) == {}


def test_a_writer_that_was_overtaken_looks_again(rig: OpenSearchRig, vault: VaultRef, make: Maker) -> None:
    """The row in the middle goes while its neighbours are being written with its words."""
    rows = [make.raw(text, NOW + place, "s") for place, text in enumerate(("harbour", "meadow", "copper"))]
    rig.rows.write(vault, rows)

    class Overtaken(Transport):
        def bulk(self, index: str, lines: Lines, refresh: bool, alias: bool = True) -> list[Json]:
            if rig.rows.get(vault, [rows[1].id]):
                rig.delete(vault, [rows[1]])
            return super().bulk(index, lines, refresh)

    slow = Overtaken(rig.url)
    rig.indexer(slow).put_words(vault, rows)
    slow.close()
    assert set(documents(rig, vault)) == {(rows[0].id, 0), (rows[2].id, 0)}
    assert words_of(rig, vault, "meadow") == set()
    assert words_of(rig, vault, "copper") == {rows[0].id, rows[2].id}


def test_no_word_and_no_vector_of_a_removed_row_stays_with_its_neighbours(
    rig: OpenSearchRig, vault: VaultRef, make: Maker
) -> None:
    texts = ("harbour", "granite", "meadow", "copper", "lantern", "otter")
    rows = [make.raw(text, NOW + place, "s") for place, text in enumerate(texts)]
    rig.write(vault, rows)
    embed(rig, vault)
    assert words_of(rig, vault, "meadow", "near") == {rows[1].id, rows[2].id, rows[3].id}
    assert words_of(rig, vault, "meadow") == {row.id for row in rows[:5]}
    rig.delete(vault, [rows[2]])
    assert words_of(rig, vault, "meadow") == set()
    assert words_of(rig, vault, "copper", "near") == {rows[1].id, rows[3].id, rows[4].id}
    clean = rig.new_vault()
    rig.write(clean, [row for row in rows if row is not rows[2]])
    embed(rig, clean)
    fields = ("facts", "vector", "context", "seq")
    scarred = {key: [doc[name] for name in fields[:-1]] for key, doc in documents(rig, vault).items()}
    assert scarred == {key: [doc[name] for name in fields[:-1]] for key, doc in documents(rig, clean).items()}
    for query in ("granite", "copper lantern"):
        assert around(rig, vault, query) == around(rig, clean, query)


def around(rig: OpenSearchRig, vault: VaultRef, query: str) -> dict[str, float]:
    """Cosines of the context vectors, which no request gives back."""
    script = {
        "source": "1.0 + cosineSimilarity(params.q, doc['around'])",
        "params": {"q": MODEL.embed_query(query).tolist()},
    }
    inside = {"bool": {"filter": [{"term": {"content": content(vault)}}, {"exists": {"field": "around"}}]}}
    body = {"size": 100, "query": {"script_score": {"query": inside, "script": script}}, "docvalue_fields": ["memory"]}
    hits = rig.transport.search(ALIAS, vault.vault_id, body)["hits"]["hits"]
    return {hit["fields"]["memory"][0]: hit["_score"] for hit in hits}


def test_a_row_that_was_never_indexed_leaves_its_neighbours_too(
    rig: OpenSearchRig, vault: VaultRef, make: Maker
) -> None:
    left, middle, right = (make.raw(text, NOW + n, "s") for n, text in enumerate(("harbour", "meadow", "copper")))
    rig.rows.write(vault, [left, middle, right])
    rig.index.put_words(vault, [left, right])
    name = f"{content(vault)}#{middle.id}#0"
    rig.transport.request("DELETE", f"/{ALIAS}/_doc/{name.replace('#', '%23')}", params={"routing": vault.vault_id})
    assert words_of(rig, vault, "meadow") == {left.id, right.id}
    rig.delete(vault, [middle])
    assert words_of(rig, vault, "meadow") == set()


def test_two_writers_on_neighbours_end_alike(rig: OpenSearchRig, make: Maker, opensearch_url: str) -> None:
    """Whatever order the requests of two writers arrive in, the documents are those of one careful writer."""
    for seed in range(4):
        dice = random.Random(seed)
        vault, careful = rig.new_vault(), rig.new_vault()
        rows = [make.raw(f"word{n} meadow", NOW + n, "s") for n in range(8)]
        rig.rows.write(vault, rows[::2])
        writers = [Delayed(opensearch_url) for _ in range(2)]
        rig.indexer(writers[0]).put_words(vault, rows[::2])
        rig.rows.write(vault, rows[1::2])
        rig.indexer(writers[1]).put_words(vault, rows[1::2])
        dice.shuffle(writers)
        for writer in writers:
            writer.let_go()
            writer.close()
        # What a writer does whose counter moved, or whose record comes again.
        rig.index.put_words(vault, rows[::2])
        rig.write(careful, rows)
        ours = {key: (doc["facts"], doc["context"]) for key, doc in documents(rig, vault).items()}
        assert ours == {key: (doc["facts"], doc["context"]) for key, doc in documents(rig, careful).items()}


def test_nothing_is_written_for_rows_that_did_not_change(rig: OpenSearchRig, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(f"saffron {n}", NOW + n, "s") for n in range(5)]
    rig.write(vault, rows)
    embed(rig, vault)
    before = documents(rig, vault)
    rig.rows.write(vault, [make.raw("elsewhere", NOW, "t")])
    rig.index.put_words(vault, rows)
    assert documents(rig, vault) == before


def test_a_back_dated_row_changes_the_context_of_those_that_follow(
    rig: OpenSearchRig, vault: VaultRef, make: Maker
) -> None:
    rows = [make.raw(f"granite {n}", NOW + 10 * n, "s") for n in range(6)]
    rig.write(vault, rows)
    late = make.raw("thistle", NOW + 25, "s")
    rig.write(vault, [late])
    assert words_of(rig, vault, "thistl", "near") == {rows[2].id, late.id, rows[3].id}
    assert words_of(rig, vault, "thistl") == {row.id for row in (*rows[1:5], late)}


def test_a_vault_is_purged_by_pages_and_the_next_content_stays(
    rig: OpenSearchRig, vault: VaultRef, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain, "PAGE", 7)
    rig.write(vault, [make.raw(f"otter {n}") for n in range(30)])
    fresh, other = VaultRef(vault.vault_id, 2), rig.new_vault()
    rig.write(fresh, [make.raw("otter in the next content")])
    rig.write(other, [make.raw("otter elsewhere")])
    for _ in range(2):
        rig.index.purge(vault.vault_id, 2)
        assert [rig.index.status(each).passages for each in (vault, fresh, other)] == [0, 1, 1]
    assert len(matched(rig, fresh, "otter")) == 1


def test_rows_and_contents_are_listed_by_pages(
    rig: OpenSearchRig, vault: VaultRef, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain, "PAGE", 4)
    long = make.raw("Nothing of note happened on that grey and quiet day. " * 20)
    rows = [long, *(make.raw(f"copper {n}") for n in range(9))]
    rig.write(vault, rows)
    listed = {row.memory_id: row for row in maintain.listed(rig.transport, ALIAS, vault)}
    assert set(listed) == {row.id for row in rows}
    assert listed[long.id].numbers == tuple(range(len(listed[long.id].numbers)))
    assert len(listed[long.id].numbers) >= 3
    assert listed[rows[1].id] == maintain.Listed(rows[1].id, (0,), 1, 1)
    assert vault in set(maintain.contents(rig.transport, ALIAS))
    assert vault in rig.index.waiting(10_000)
    embed(rig, vault)
    assert vault not in rig.index.waiting(10_000)


def test_another_model_is_built_beside_and_an_index_takes_over(
    rig: OpenSearchRig, vault: VaultRef, make: Maker
) -> None:
    row = make.raw("violin")
    rig.write(vault, [row])
    rig.model = ("Another Model:v2", 8)
    alias = mapping.alias(*rig.model, PREFIX)
    with pytest.raises(Unavailable, match=CREATE):
        rig.index.status(vault)
    first = maintain.create(rig.transport, *rig.model, prefix=PREFIX)
    assert maintain.create(rig.transport, *rig.model, prefix=PREFIX) == first
    assert rig.index.status(vault).passages == 0
    rig.index.put_words(vault, [row])
    second = maintain.build_beside(rig.transport, *rig.model, prefix=PREFIX)
    assert second != first
    assert rig.index.status(vault).passages == 1
    assert maintain.switch(rig.transport, alias, second) == first
    assert rig.index.status(vault).passages == 0
    maintain.drop(rig.transport, first)
    maintain.drop(rig.transport, first)
    rig.model = (MODEL.name, MODEL.dimension)
    assert rig.index.status(vault).passages == 1


def test_an_index_of_another_layout_is_refused_and_replaced(rig: OpenSearchRig, vault: VaultRef) -> None:
    rig.model = ("older", 4)
    alias = mapping.alias(*rig.model, PREFIX)
    older = mapping.body(4, version=mapping.VERSION - 1)
    rig.transport.request("PUT", f"/{alias}-old", {**older, "aliases": {alias: {}}})
    for call in (
        lambda: rig.index.search(vault, Query("x"), Filters(), 1),
        lambda: maintain.create(rig.transport, *rig.model, prefix=PREFIX),
    ):
        with pytest.raises(Unavailable, match=FILL) as caught:
            call()
        assert caught.value.code == "search_unavailable"
    made = maintain.build_beside(rig.transport, *rig.model, prefix=PREFIX)
    assert maintain.switch(rig.transport, alias, made) == f"{alias}-old"
    assert rig.index.search(vault, Query("x"), Filters(), 1) == ()


def test_a_node_that_is_down_is_unavailable_for_a_while(rig: OpenSearchRig, vault: VaultRef, make: Maker) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nobody = Transport(f"http://127.0.0.1:{port}", attempts=2, sleep=lambda seconds: None)
    index = rig.indexer(nobody)
    for call in (
        lambda: index.search(vault, Query("x"), Filters(), 1),
        lambda: index.put_words(vault, [make.raw("x")]),
        lambda: index.purge(vault.vault_id, 2),
    ):
        with pytest.raises(Unavailable) as caught:
            call()
        assert caught.value.code == "search_unavailable"
        assert caught.value.retry_after
    nobody.close()


def test_rows_that_the_index_refuses_are_named_and_the_others_are_there(
    rig: OpenSearchRig, vault: VaultRef, make: Maker
) -> None:
    good, bad = make.raw("harbour"), replace(make.raw("meadow"), tier=2, role="assistant", covers=Covers(0, 2**70))
    with pytest.raises(RowsRefused) as caught:
        rig.write(vault, [bad, good])
    assert caught.value.memory_ids == (bad.id,)
    assert matched(rig, vault, "harbour meadow") == {good.id}


def test_scores_are_bit_equal_after_thousands_of_rows_of_others(
    rig: OpenSearchRig, vault: VaultRef, make: Maker
) -> None:
    words = ("otter", "canoe", "lantern", "granite", "violin")
    rig.write(vault, [make.raw(f"{one} {two}", NOW + n, "s") for n, one in enumerate(words) for two in words])
    embed(rig, vault)
    before = found(rig, vault, "granite violin")
    others = rig.new_vault()
    rig.write(others, [make.raw(f"granite granite {words[n % 5]}", NOW + n, f"s{n % 9}") for n in range(2_000)])
    embed(rig, others)
    assert found(rig, vault, "granite violin") == before
    assert {hit.memory_id for hit in before}.isdisjoint(hit.memory_id for hit in found(rig, others, "granite", 500))


def test_rows_of_the_last_minute_are_found_before_they_are_indexed(
    rig: OpenSearchRig, vault: VaultRef, make: Maker
) -> None:
    old = [make.raw(text, NOW + n, "s") for n, text in enumerate(("harbour lights", "copper kettle"))]
    rig.write(vault, old)
    embed(rig, vault)
    new = [make.raw("a meadow of thistle", NOW + 5, "s"), make.raw("meadow alone", NOW + 6)]
    covers = Covers(NOW, NOW + 1)
    insight = replace(make.raw("meadow insight", NOW + 1), tier=2, role="assistant", importance=7, covers=covers)
    rig.rows.write(vault, [*new, insight])
    assert matched(rig, vault, "meadow") == set()
    rig.now_ms = NOW + 30_000
    assert matched(rig, vault, "meadow") == {row.id for row in (*new, insight)}
    unindexed = found(rig, vault, "thistle kettle")

    def ids(filters: Filters) -> set[str]:
        return {hit.memory_id for hit in found(rig, vault, "meadow", 50, filters) if hit.matched}

    assert ids(Filters(tiers=frozenset({2}))) == {insight.id}
    assert ids(Filters(min_importance=8)) == set()
    assert ids(Filters(session_id="other")) == {new[1].id, insight.id}
    assert ids(Filters(from_ms=NOW + 6)) == {new[1].id}
    # By words alone the answer is the same once they are indexed, but for the neighbours' own documents.
    rig.index.put_words(vault, [*new, insight])
    indexed = found(rig, vault, "thistle kettle")
    scores = {hit.memory_id: hit.score for hit in indexed}
    alone = next(hit for hit in unindexed if hit.memory_id == new[1].id)
    assert alone.score == pytest.approx(scores[new[1].id], abs=1e-6)
    assert {hit.memory_id for hit in unindexed} == set(scores)


def test_what_a_search_sends_names_no_text(rig: OpenSearchRig, vault: VaultRef, make: Maker) -> None:
    """Documents hold stems and numbers: the texts stay in the store."""
    row = make.raw("Melanie's running shoes were stolen", NOW, "a private session")
    rig.write(vault, [replace(row, role="Melanie")])
    stored = json.dumps(list(documents(rig, vault).values()))
    assert "running" not in stored
    assert "private session" not in stored


def test_a_query_of_very_many_words_is_answered(rig: OpenSearchRig, vault: VaultRef, make: Maker) -> None:
    row = make.raw("zebra")
    rig.write(vault, [row, make.raw("copper")])
    query = " ".join(f"term{n}" for n in range(3_000)) + " zebra"
    assert found(rig, vault, query)[0].memory_id == row.id


def test_memory_of_many_passages_is_removed_whole(rig: OpenSearchRig, vault: VaultRef, make: Maker) -> None:
    row = make.raw("Nothing of note happened on that grey and quiet day. " * 200)
    rig.write(vault, [row])
    assert rig.index.status(vault).passages > 20
    rig.delete(vault, [row])
    assert documents(rig, vault) == {}


@pytest.mark.parametrize("exact", [50_000, 100], ids=["every passage weighed", "the approximate nearest"])
def test_a_larger_vault_answers_as_if_every_passage_were_looked_at(
    rig: OpenSearchRig, vault: VaultRef, make: Maker, monkeypatch: pytest.MonkeyPatch, exact: int
) -> None:
    words = [f"{one}{two}" for one in ("otter", "canoe", "lantern", "granite", "violin") for two in "abcdefghij"]
    dice = random.Random(3)
    raws = [
        make.raw(" ".join(dice.choices(words, k=6)), NOW + n, None if n % 7 == 0 else f"s{n // 20}") for n in range(600)
    ]
    insights = [reflection(make, " ".join(dice.choices(words, k=8)), 2 + n % 2, NOW + n) for n in range(40)]
    rig.write(vault, [*raws, *insights])
    embed(rig, vault)
    queries = [" ".join(dice.choices(words, k=3)) for _ in range(20)]
    windows = (Filters(), Filters(from_ms=NOW + 100, to_ms=NOW + 500), Filters(session_id="s4"))
    asked = [(query, windows[place % 3]) for place, query in enumerate(queries)]
    wanted = [found(rig, vault, query, 10, filters) for query, filters in asked]
    monkeypatch.setattr(reading, "ALL_OF_THEM", 20)
    monkeypatch.setattr(reading, "CLOSELY", 150)
    monkeypatch.setattr(reading, "EXACT", exact)
    same = 0
    for (query, filters), hits in zip(asked, wanted, strict=True):
        narrow = found(rig, vault, query, 10, filters)
        assert len(narrow) == 10
        same += len({hit.memory_id for hit in narrow} & {hit.memory_id for hit in hits})
        everything = found(rig, vault, query, 700, filters)
        assert everything[:10] == narrow
        assert len({hit.memory_id for hit in everything}) == len(everything)
        flags = [hit.matched for hit in everything]
        assert flags == sorted(flags, reverse=True)
        scores = [hit.score for hit in everything]
        assert scores == sorted(scores, reverse=True)
        if filters == Filters():
            assert len(everything) == 640
            assert {1, 2, 3} == {hit.tier for hit in narrow[:3]}
    assert same / (10 * len(asked)) >= 0.95


def reflection(make: Maker, text: str, tier: int, date_ms: int) -> Memory:
    row = make.raw(text, date_ms)
    return replace(row, tier=tier, role="assistant", importance=5, covers=Covers(date_ms - 50, date_ms))


def test_a_vector_without_a_direction_is_not_asked_for_again(rig: OpenSearchRig, vault: VaultRef, make: Maker) -> None:
    row = make.raw("copper")
    rig.write(vault, [row])
    waiting = rig.index.without_vectors(vault, 10)
    rig.index.put_vectors(vault, waiting, np.zeros((1, MODEL.dimension), np.float32))
    assert rig.index.status(vault).without_vector == 0
    rig.index.put_words(vault, [row])
    assert rig.index.without_vectors(vault, 10) == ()
    assert found(rig, vault, "copper")[0].memory_id == row.id


def test_an_index_that_vanished_is_not_made_anew_by_a_write(rig: OpenSearchRig, vault: VaultRef, make: Maker) -> None:
    rig.model = ("vanishing", 4)
    name = maintain.create(rig.transport, *rig.model, prefix=PREFIX)
    rig.write(vault, [make.raw("copper")])
    maintain.drop(rig.transport, name)
    for call in (
        lambda: rig.write(vault, [make.raw("violin")]),
        lambda: rig.index.search(vault, Query("violin"), Filters(), 1),
        lambda: rig.index.status(vault),
    ):
        with pytest.raises(Unavailable, match=CREATE):
            call()
    assert maintain.behind(rig.transport, mapping.alias(*rig.model, PREFIX)) is None


@pytest.mark.parametrize(
    "text",
    ["深い森の中で", "\U0001f9a6\U0001f6f6", "v1.2 foo_bar", "\ud800", "nul \x00 and \ud83d half", "Ünïcödé İ", "   "],
)
def test_any_text_can_be_indexed_and_asked_for(rig: OpenSearchRig, vault: VaultRef, make: Maker, text: str) -> None:
    row = replace(make.raw(text, NOW, f"session {text}", tokens=1), role=f"role {text}")
    rig.write(vault, [row, make.raw("copper")])
    assert rig.index.status(vault).passages == 2
    hits = rig.index.search(vault, Query(f"copper {text}"), Filters(session_id=f"session {text}"), 5)
    assert len(hits) == 2
    unfindable = text in ("\ud800", "   ")
    assert (row.id in {hit.memory_id for hit in hits if hit.matched}) is not unfindable
