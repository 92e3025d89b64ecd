"""Writers at work on the same neighbours at the same time, and the broken writers that these tests catch."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from shared.adapters.opensearch import writing
from shared.adapters.opensearch.documents import content
from shared.adapters.opensearch.transport import Json, Transport
from shared.domain.memory import Memory, VaultRef
from tests.contract.opensearch_rig import ALIAS, OpenSearchRig
from tests.contract.rows import NOW, Maker

pytestmark = [pytest.mark.slow, pytest.mark.loopback]

Lines = Sequence[tuple[Json, str | None]]
WORKERS = 4
STEPS = 12


@pytest.fixture
def rig(opensearch_url: str) -> Iterator[OpenSearchRig]:
    made = OpenSearchRig(opensearch_url, refresh=False)
    yield made
    made.close()


def differences(rig: OpenSearchRig, vault: VaultRef, rows: Sequence[Memory]) -> set[str]:
    """Rows whose documents are not those that one careful writer makes of the rows that are left."""
    clean = rig.new_vault()
    if rows:
        rig.write(clean, rows)
    ours, theirs = (fingerprints(rig, each) for each in (vault, clean))
    return {key[0] for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}


def fingerprints(rig: OpenSearchRig, vault: VaultRef) -> dict[tuple[str, int], tuple[Any, ...]]:
    """What each document holds, its words by a question for every word that there is."""
    rig.transport.refresh(ALIAS)
    words = {word: {"term": {"wide": {"value": word, "_name": word}}} for word in WORDS}
    body = {
        "size": 1_000,
        "query": {"bool": {"filter": [{"term": {"content": content(vault)}}]}},
        "post_filter": {"bool": {"filter": [{"match_all": {}}], "should": list(words.values())}},
    }
    found = {}
    for hit in rig.transport.search(ALIAS, vault.vault_id, body)["hits"]["hits"]:
        doc = hit["_source"]
        held = frozenset(hit.get("matched_queries", ()))
        found[doc["memory"], doc["number"]] = (doc["facts"], tuple(doc["context"]), held)
    return found


WORDS = [f"word{number}" for number in range(WORKERS * STEPS + 6)]


@pytest.mark.parametrize("seed", range(3))
def test_writers_at_the_same_time_end_as_one_careful_writer(rig: OpenSearchRig, make: Maker, seed: int) -> None:
    vault = rig.new_vault()
    dice = random.Random(seed)
    first = [make.raw(WORDS[-1 - number], NOW + 10 * number, "s") for number in range(6)]
    rig.write(vault, first)
    plans = [
        [make.raw(WORDS[worker * STEPS + step], NOW + dice.randrange(60), "s") for step in range(STEPS)]
        for worker in range(WORKERS)
    ]
    errors: list[BaseException] = []

    def work(worker: int) -> None:
        chance = random.Random(seed * 100 + worker)
        mine: list[Memory] = [first[worker]]
        transport = Transport(rig.url)
        index = rig.indexer(transport)
        try:
            for row in plans[worker]:
                if mine and chance.random() < 0.4:
                    gone = mine.pop(chance.randrange(len(mine)))
                    rig.rows.delete(vault, [gone.id])
                    index.remove(vault, [gone.id])
                else:
                    mine.append(row)
                    rig.rows.write(vault, [row])
                    index.put_words(vault, [row])
        except BaseException as error:
            errors.append(error)
        finally:
            transport.close()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert differences(rig, vault, rig.rows.all(vault)) == set()


class Interrupted(Transport):
    """Lets something else happen just before its first bulk request goes out."""

    def __init__(self, url: str, meanwhile: Any) -> None:
        super().__init__(url)
        self._meanwhile = [meanwhile]

    def bulk(self, index: str, lines: Lines, refresh: bool, alias: bool = True) -> list[Json]:
        if self._meanwhile:
            self._meanwhile.pop()()
        return super().bulk(index, lines, refresh, alias)


def overtaken(rig: OpenSearchRig, make: Maker) -> set[str]:
    """A row is removed while a first writer is about to write it and its neighbours."""
    vault = rig.new_vault()
    rows = [make.raw(WORDS[number], NOW + number, "s") for number in range(5)]
    rig.rows.write(vault, rows)

    def remove() -> None:
        rig.rows.delete(vault, [rows[2].id])
        rig.index.remove(vault, [rows[2].id])

    slow = Interrupted(rig.url, remove)
    rig.indexer(slow).put_words(vault, rows)
    slow.close()
    return differences(rig, vault, rig.rows.all(vault))


def inserted(rig: OpenSearchRig, make: Maker) -> set[str]:
    """A row arrives between two others while one of them is being written."""
    vault = rig.new_vault()
    rows = [make.raw(WORDS[number], NOW + 10 * number, "s") for number in range(5)]
    late = make.raw(WORDS[9], NOW + 15, "s")
    rig.write(vault, [row for row in rows if row is not rows[1]])
    rig.rows.write(vault, [rows[1]])

    def write() -> None:
        rig.write(vault, [late])

    slow = Interrupted(rig.url, write)
    rig.indexer(slow).put_words(vault, [rows[1]])
    slow.close()
    return differences(rig, vault, rig.rows.all(vault))


def removed(rig: OpenSearchRig, make: Maker) -> set[str]:
    """Nothing at the same time: rows come, one goes."""
    vault = rig.new_vault()
    rows = [make.raw(WORDS[number], NOW + number, "s") for number in range(6)]
    rig.write(vault, rows)
    rig.delete(vault, [rows[2]])
    return differences(rig, vault, rig.rows.all(vault))


SCENES = {"overtaken": overtaken, "inserted": inserted, "removed": removed}


@pytest.mark.parametrize("scene", SCENES.values(), ids=list(SCENES))
def test_every_scene_ends_well(rig: OpenSearchRig, make: Maker, scene: Any) -> None:
    assert scene(rig, make) == set()


def never_looks_again(patch: pytest.MonkeyPatch) -> None:
    look = writing.Writer._look

    def once(self: Any, *arguments: Any) -> bool:
        look(self, *arguments)
        return False

    patch.setattr(writing.Writer, "_look", once)


def writes_without_versions(patch: pytest.MonkeyPatch) -> None:
    bulk = Transport.bulk

    def unversioned(self: Transport, index: str, lines: Lines, refresh: bool, alias: bool = True) -> list[Json]:
        plain = [
            ({kind: {key: value for key, value in how.items() if "version" not in key}}, source)
            for action, source in lines
            for kind, how in action.items()
        ]
        return bulk(self, index, plain, refresh, alias)

    patch.setattr(Transport, "bulk", unversioned)
    never_looks_again(patch)


def leaves_neighbours_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "AROUND", 0)


def forgets_who_mentions_a_removed_row(patch: pytest.MonkeyPatch) -> None:
    traces = writing.Writer._traces
    patch.setattr(writing.Writer, "_traces", lambda *arguments: (traces(*arguments)[0], set()))


@pytest.mark.parametrize(
    ("broken", "scene"),
    [
        (never_looks_again, overtaken),
        (writes_without_versions, inserted),
        (leaves_neighbours_alone, inserted),
        (forgets_who_mentions_a_removed_row, removed),
    ],
)
def test_a_broken_writer_is_caught(
    rig: OpenSearchRig, make: Maker, monkeypatch: pytest.MonkeyPatch, broken: Any, scene: Any
) -> None:
    broken(monkeypatch)
    wrong = scene(rig, make)
    monkeypatch.undo()
    assert wrong
