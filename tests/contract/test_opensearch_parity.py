"""Both indexes answer alike on a vault of a few thousand rows that was deleted from and written to out of order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from shared.domain.memory import Covers, Memory, VaultRef
from shared.ports.search import Filters, Hit, Query, SearchIndex
from tests.contract.index_rigs import IndexRig, SqliteIndexRig
from tests.contract.opensearch_rig import MODEL, OpenSearchRig
from tests.contract.rows import NOW, Maker

pytestmark = [pytest.mark.slow, pytest.mark.loopback]

ROWS = 5_000
QUERIES = 200
TOP = 10
HOUR = 3_600_000
BATCH = 500


class Writing:
    """Texts whose words follow Zipf's law, over sessions, tiers and lengths. The same ones on every run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
        self.words = ["".join(self.random.choices(syllables, k=self.random.randint(2, 4))) for _ in range(6_000)]
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(len(self.words))))
        self._make = Maker()

    def text(self, words: int) -> str:
        said = self.random.choices(self.words, cum_weights=self._weights, k=words)
        return " ".join(f"{word}." if place % 9 == 8 else word for place, word in enumerate(said))

    def row(self, place: int) -> Memory:
        draw = self.random.random
        date = NOW + place * 60_000 + self.random.randrange(30_000)
        if draw() < 0.06:
            row = self._make.raw(self.text(40), date)
            covers = Covers(date - self.random.randrange(HOUR), date)
            tier = 2 if draw() < 0.8 else 3
            return replace(row, tier=tier, role="assistant", importance=self.random.randint(1, 10), covers=covers)
        words = self.random.randint(200, 400) if draw() < 0.03 else self.random.randint(3, 60)
        session = None if draw() < 0.1 else f"session {place // 30}"
        row = self._make.raw(self.text(words), date, session)
        return replace(row, role=self.random.choice(["user", "assistant", "Caroline", "Melanie"]))

    def query(self) -> str:
        asked = self.text(self.random.randint(2, 9))
        return f"what did Caroline say about {asked}" if self.random.random() < 0.1 else asked


class Pair:
    """The same rows in both indexes, all of them with vectors."""

    def __init__(self, folder: Path, url: str) -> None:
        self.rigs: list[IndexRig] = [SqliteIndexRig(folder), OpenSearchRig(url, refresh=False)]
        self.vaults = [rig.new_vault() for rig in self.rigs]
        writing = Writing(7)
        rows = [writing.row(place) for place in range(ROWS)]
        late = [row for row in rows if writing.random.random() < 0.05]
        rest = [row for row in rows if row not in late]
        for first in range(0, len(rest), BATCH):
            self._write(rest[first : first + BATCH])
        self._embed()
        self._delete([row for row in rest if writing.random.random() < 0.05])
        self._write(late)
        self._embed()
        for rig, vault in zip(self.rigs, self.vaults, strict=True):
            assert rig.index.status(vault).without_vector == 0
        self.queries = [writing.query() for _ in range(QUERIES)]

    def _write(self, rows: Sequence[Memory]) -> None:
        for rig, vault in zip(self.rigs, self.vaults, strict=True):
            rig.write(vault, rows)

    def _delete(self, rows: Sequence[Memory]) -> None:
        for rig, vault in zip(self.rigs, self.vaults, strict=True):
            rig.delete(vault, rows)

    def _embed(self) -> None:
        for rig, vault in zip(self.rigs, self.vaults, strict=True):
            while waiting := rig.index.without_vectors(vault, 1_000):
                rig.index.put_vectors(vault, waiting, MODEL.embed_documents([passage.text for passage in waiting]))

    def asked(self, query: str, filters: Filters, limit: int) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
        found = [
            hits(rig.index, vault, query, filters, limit) for rig, vault in zip(self.rigs, self.vaults, strict=True)
        ]
        return found[0], found[1]

    def close(self) -> None:
        for rig in self.rigs:
            rig.close()


def hits(index: SearchIndex, vault: VaultRef, query: str, filters: Filters, limit: int) -> tuple[Hit, ...]:
    return index.search(vault, Query(query, MODEL.embed_query(query), MODEL.noise), filters, limit)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, opensearch_url: str) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("parity"), opensearch_url)
    yield made
    made.close()


def test_the_same_rows_lead(pair: Pair) -> None:
    """The first row is the same, or scores the same; of the first ten nearly all are."""
    windows = (Filters(), Filters(from_ms=NOW + 20 * HOUR, to_ms=NOW + 60 * HOUR), Filters(tiers=frozenset({1})))
    shared, different = 0.0, []
    for place, query in enumerate(pair.queries):
        ours, theirs = pair.asked(query, windows[place % len(windows)], TOP)
        assert len(ours) == len(theirs) == TOP
        shared += len({hit.memory_id for hit in ours} & {hit.memory_id for hit in theirs}) / TOP
        same_score = ours[0].score == pytest.approx(theirs[0].score, abs=1e-6)
        if ours[0].memory_id != theirs[0].memory_id and not same_score:
            different.append((query, ours[0], theirs[0]))
    print(f"mean overlap of the first {TOP}: {shared / QUERIES:.4f}")
    assert shared / QUERIES >= 0.95
    assert different == []


def test_a_short_list_is_the_beginning_of_a_long_one(pair: Pair) -> None:
    rig, vault = pair.rigs[1], pair.vaults[1]
    for query in pair.queries[:5]:
        long = hits(rig.index, vault, query, Filters(), 4_000)
        assert len(long) == 4_000
        assert len({hit.memory_id for hit in long}) == 4_000
        scores = [hit.score for hit in long]
        assert scores == sorted(scores, reverse=True)
        for limit in (1, 10, 500):
            assert hits(rig.index, vault, query, Filters(), limit) == long[:limit]
