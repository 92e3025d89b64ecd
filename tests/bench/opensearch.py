"""The index on a real OpenSearch node: how fast it takes rows, and what a search costs beside a bare request."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from time import perf_counter
from uuid import uuid4

from infra.local.opensearch_home import missing_tools
from infra.local.opensearch_node import running
from shared.adapters.opensearch import maintain
from shared.adapters.opensearch.index import OpenSearchIndex
from shared.adapters.opensearch.transport import Transport
from shared.domain.memory import Memory, VaultRef
from shared.domain.text import est_tokens
from shared.ports.search import Filters, Query
from tests.bench.report import Options, Row, ms, times
from tests.bench.vaults import SESSION_ROWS, START_MS, STEP_MS, InstantEmbedder, Prose
from tests.contract.opensearch_rig import MemoryRows
from tests.contract.rows import uuid7

CHARACTERS = 420
ROWS_AT_ONCE = 500
QUESTIONS = 40
WARM_UP = 40
TOP = 10
PREFIX = "bench"


def row(number: int, text: str) -> Memory:
    return Memory(
        id=uuid7(number), tier=1, text=text, role="user", date_ms=START_MS + number * STEP_MS, tokens=est_tokens(text),
        created_ms=START_MS, session_id=f"session {number // SESSION_ROWS}",
    )  # fmt: skip


def fill(index: OpenSearchIndex, rows: MemoryRows, vault: VaultRef, count: int, model: InstantEmbedder) -> float:
    """Seconds that the index took for words and vectors; making the vectors is left out."""
    prose, spent = Prose(), 0.0
    for first in range(0, count, ROWS_AT_ONCE):
        part = [row(number, prose.text(CHARACTERS)) for number in range(first, min(first + ROWS_AT_ONCE, count))]
        rows.write(vault, part)
        start = perf_counter()
        index.put_words(vault, part)
        waiting = index.without_vectors(vault, 10 * ROWS_AT_ONCE)
        spent += perf_counter() - start
        vectors = model.embed_documents([passage.text for passage in waiting])
        start = perf_counter()
        index.put_vectors(vault, waiting, vectors)
        spent += perf_counter() - start
    start = perf_counter()
    assert index.status(vault).without_vector == 0
    return spent + perf_counter() - start


def timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def measure(transport: Transport, count: int) -> list[Row]:
    model, rows, vault = InstantEmbedder(), MemoryRows(), VaultRef(str(uuid4()), 1)
    maintain.create(transport, model.name, model.dimension, PREFIX)
    index = OpenSearchIndex(
        transport, rows, lambda vault: (model.name, model.dimension), lambda: START_MS * 2, False, PREFIX
    )
    seconds = fill(index, rows, vault, count, model)
    passages = index.status(vault).passages
    prose = Prose()
    bare, searches = [], []
    for number in range(QUESTIONS + WARM_UP):
        question = prose.question()
        vector = model.embed_query(question)
        trip = timed(partial(transport.request, "GET", "/"))
        search = timed(partial(index.search, vault, Query(question, vector, model.noise), Filters(), TOP))
        if number >= WARM_UP:
            bare.append(trip)
            searches.append(search)
    p50, bare_p50 = statistics.median(searches), statistics.median(bare)
    return [
        Row(
            f"OpenSearch: search among {passages:,} chunks, wall p50",
            f"{ms(p50)} (p95 {ms(statistics.quantiles(searches, n=20)[-1])})",
            f"{ms(bare_p50)}, a bare HTTP round trip to the node",
            times(p50, bare_p50),
        ),
        Row(f"OpenSearch: indexing {passages:,} chunks, words then vectors", f"{passages / seconds:,.0f} chunks/s"),
    ]


def run(options: Options) -> list[Row]:
    if missing := missing_tools():
        return [Row("OpenSearch", f"not measured: {' and '.join(missing)} not found")]
    with running(steady=True) as url:
        transport = Transport(url, timeout=60.0)
        try:
            return measure(transport, 2_000 if options.quick else 20_000)
        finally:
            transport.close()


TITLE = "OpenSearch"
NOTE = (
    f"A real node of one shard on this machine; rows of {CHARACTERS} characters in sessions of"
    f" {SESSION_ROWS}, random vectors of 384 dimensions, batches of {ROWS_AT_ONCE} as the indexer sends them, embedding"
    f" left out. Search: the index's whole part (counting, choosing, exact ranking of {TOP}) with the query's vector"
    f" given, median wall time of {QUESTIONS} questions after {WARM_UP} unmeasured ones."
)
