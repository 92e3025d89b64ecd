"""The same rows with the same vectors in SQLite and in a real OpenSearch node, asked the same questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import numpy as np

from infra.local.opensearch_home import missing_tools
from infra.local.opensearch_node import running
from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from shared.adapters.local_embedder.static import StaticEmbedder
from shared.adapters.opensearch import maintain
from shared.adapters.opensearch.index import OpenSearchIndex
from shared.adapters.opensearch.transport import Transport
from shared.adapters.sqlite.index import SqliteIndex
from shared.domain.memory import Memory, VaultRef
from shared.domain.text import est_tokens
from shared.ports.embedder import Embedder, Vectors
from shared.ports.search import Filters, Query, SearchIndex
from shared.retrieval.periods import periods
from tests.bench.report import Grid, Options, Row, Shown, at_least
from tests.bench.retrieval import locomo, probes
from tests.bench.retrieval.corpus import Corpus, Line, Question
from tests.bench.vaults import START_MS, Bench, bench
from tests.contract.opensearch_rig import MemoryRows

TOP = 10
ROWS_AT_ONCE = 500
PREFIX = "parity"
WITHIN = 0.01
OVERLAP = 0.95
MOST_TOGETHER, MOST_QUICK = 250, 60
"""Questions of a set that are asked of one vault, and in a quick run; taken evenly from all of them."""


class Remembering:
    """A model that is asked once for each text."""

    def __init__(self, model: Embedder) -> None:
        self._model = model
        self.name, self.dimension = model.name, model.dimension
        self.noise, self.nearness = model.noise, model.nearness
        self._documents: dict[str, Vectors] = {}
        self._queries: dict[str, Vectors] = {}

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._documents]
        self._documents.update(zip(new, self._model.embed_documents(new), strict=True))
        return np.stack([self._documents[text] for text in texts])

    def embed_query(self, text: str) -> Vectors:
        if text not in self._queries:
            self._queries[text] = self._model.embed_query(text)
        return self._queries[text]


class Pair:
    """Both indexes, filled alike, a vault in each for every corpus."""

    def __init__(self, made: Bench, transport: Transport, model: Remembering) -> None:
        self._made, self._model, self._rows = made, model, MemoryRows()
        self._sqlite = SqliteIndex(made.files, lambda vault: model.dimension, 1 << 32)
        maintain.create(transport, model.name, model.dimension, PREFIX)
        self._opensearch = OpenSearchIndex(
            transport, self._rows, lambda vault: (model.name, model.dimension), lambda: 2 * START_MS, False, PREFIX
        )

    def filled(self, corpus: Corpus) -> tuple[Finder, Finder]:
        rows = [memory_of(line) for line in corpus.lines]
        here, there = self._made.vault(), VaultRef(str(uuid4()), 1)
        for first in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[first : first + ROWS_AT_ONCE]
            self._made.store.append(here, part, None, START_MS)
            self._rows.write(there, part)
            self._fill(self._sqlite, here, part)
            self._fill(self._opensearch, there, part)
        assert self._sqlite.status(here) == self._opensearch.status(there)
        return self._finder(self._sqlite, here), self._finder(self._opensearch, there)

    def _fill(self, index: SearchIndex, vault: VaultRef, rows: Sequence[Memory]) -> None:
        index.put_words(vault, rows)
        while waiting := index.without_vectors(vault, 10 * ROWS_AT_ONCE):
            index.put_vectors(vault, waiting, self._model.embed_documents([passage.text for passage in waiting]))

    def _finder(self, index: SearchIndex, vault: VaultRef) -> Finder:
        def find(asked: Question) -> list[str]:
            vector = self._model.embed_query(asked.text)
            named = periods(asked.text, asked.asked_ms)
            query = Query(asked.text, vector, self._model.noise, self._model.nearness, named)
            return [hit.memory_id for hit in index.search(vault, query, Filters(), TOP)]

        return find


Finder = Callable[[Question], list[str]]
"""The ids of the best rows, best first."""


@dataclass(frozen=True)
class Compared:
    """One question: recall@10 on SQLite and on OpenSearch, the share of rows in both lists, the same first row."""

    category: str
    ours: float
    theirs: float
    overlap: float
    first: bool


def memory_of(line: Line) -> Memory:
    return Memory(
        id=line.id, tier=1, text=line.text, role=line.role, date_ms=line.date_ms, tokens=est_tokens(line.text),
        created_ms=START_MS, session_id=line.session,
    )  # fmt: skip


def together(corpora: Sequence[Corpus]) -> Corpus:
    """All of them in one vault: too many passages for OpenSearch to look at each of them closely."""
    lines: list[Line] = []
    questions: list[Question] = []
    for place, corpus in enumerate(corpora):
        ids = {line.id: str(UUID(int=(place << 96) + number)) for number, line in enumerate(corpus.lines, start=1)}
        lines += [
            replace(line, id=ids[line.id], session=None if line.session is None else f"{corpus.name}, {line.session}")
            for line in corpus.lines
        ]
        questions += [
            replace(asked, relevant=frozenset(ids[row] for row in asked.relevant)) for asked in corpus.questions
        ]
    return Corpus("all in one vault", lines, spread(questions, MOST_TOGETHER))


def spread(questions: Sequence[Question], most: int) -> list[Question]:
    return list(questions[:: -(-len(questions) // most)]) if questions else []


def compared(pair: Pair, corpus: Corpus) -> Iterator[Compared]:
    ours, theirs = pair.filled(corpus)
    for asked in corpus.questions:
        here, there = ours(asked), theirs(asked)
        yield Compared(
            asked.category,
            recall(asked, here),
            recall(asked, there),
            len(set(here) & set(there)) / max(len(here), len(there), 1),
            here[:1] == there[:1],
        )


def recall(asked: Question, found: Sequence[str]) -> float:
    return len(asked.relevant.intersection(found)) / len(asked.relevant)


def shown(what: str, seen: Sequence[Compared]) -> list[Row]:
    ours, theirs, overlap, _ = means(seen)
    return [
        Row(
            f"{what}: recall@{TOP} on OpenSearch, {len(seen):,} questions",
            f"{theirs:.3f}",
            f"{ours:.3f}, SQLite",
            f"{theirs - ours:+.3f}",
            f"± {WITHIN}",
            abs(theirs - ours) <= WITHIN,
        ),
        Row(f"{what}: rows in both lists of {TOP}, mean share", f"{overlap:.3f}", "", "", *at_least(overlap, OVERLAP)),
    ]


def means(seen: Sequence[Compared]) -> tuple[float, float, float, float]:
    table = np.array([(each.ours, each.theirs, each.overlap, each.first) for each in seen], float)
    ours, theirs, overlap, first = table.mean(axis=0).tolist()
    return ours, theirs, overlap, first


def by_category(sets: Sequence[tuple[str, Sequence[Compared]]]) -> Grid:
    rows = []
    for what, seen in sets:
        for category in dict.fromkeys(each.category for each in seen):
            some = [each for each in seen if each.category == category]
            rows.append((what, category, f"{len(some):,}", *(f"{mean:.3f}" for mean in means(some))))
    return Grid(("set", "category", "questions", "SQLite", "OpenSearch", f"in both {TOP}", "same first row"), rows)


def sets_of(options: Options) -> list[tuple[str, list[Corpus]]]:
    """What is asked: each set as it is, every corpus a vault, and in one vault."""
    sets = [("generated set", probes.corpora())]
    if options.locomo is not None:
        sets.insert(0, ("LoCoMo", locomo.corpora(options.locomo)))
    if options.quick:
        return [
            (what, [replace(corpus, questions=spread(corpus.questions, MOST_QUICK)) for corpus in corpora[:1]])
            for what, corpora in sets
        ]
    return [(name, each) for what, corpora in sets for name, each in (
        (what, corpora), (f"{what}, all in one vault", [together(corpora)]),
    )]  # fmt: skip


@contextmanager
def opened(model: Remembering, steady: bool) -> Iterator[Pair]:
    with running(steady) as url, bench() as made:
        transport = Transport(url, timeout=60.0)
        try:
            yield Pair(made, transport, model)
        finally:
            transport.close()


def run(options: Options) -> Sequence[Shown]:
    if missing := missing_tools():
        return [Row("the same answers from OpenSearch", f"not measured: {' and '.join(missing)} not found")]
    model = Remembering(StaticEmbedder() if options.quick else MiniLmEmbedder())
    with opened(model, steady=not options.quick) as pair:
        measured = [
            (what, [each for corpus in corpora for each in compared(pair, corpus)])
            for what, corpora in sets_of(options)
        ]
    return [*(row for what, seen in measured for row in shown(what, seen)), by_category(measured)]


TITLE = "The same answers from OpenSearch"
NOTE = (
    "Recall is the share of a question's right rows among the first ten, averaged over questions; both indexes hold the"
    " same rows with the same vectors and answer the same questions without filters. Every corpus is a vault of its"
    " own; in one vault together the passages are more than OpenSearch looks at one by one. The default model, in a"
    " quick run the light one."
)
