"""What the bill takes for granted beside counts and prices. The page prints every one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOURS: Final = 730
"""Of a month, as price pages count."""
SECONDS: Final = HOURS * 3600
GB: Final = 1_000_000_000
MILLION: Final = 1_000_000
CPU_MB: Final = 1_769
"""Memory at which a function has one processor to itself; with less it has a share of one."""


@dataclass(frozen=True, slots=True)
class Assumption:
    value: float
    unit: str
    why: str


def _is(value: float, unit: str, why: str) -> Assumption:
    return Assumption(value, unit, why)


TABLE_MS = _is(5, "ms", "a request to the table, waited for one after the other")
MODEL_MS = _is(100, "ms", "an embedding of one text, waited for")
MODEL_AT_ONCE = _is(8, "texts", "embedded at a time, as the Bedrock adapter does")
CHUNKS_A_SECOND = _is(227, "chunks", "indexed a second, words and vectors, by the node of docs/benchmarks.md")
ACCESS_LOG_BYTES = _is(330, "bytes", "the line that the HTTP API writes about a request")
LOG_EXTRA_BYTES = _is(130, "bytes", "names and ids that a deployed function adds to its lines")
KEY_KEPT_S = _is(300, "s", "how long the table's key is kept for a function's role before it is asked for again")
ALARM_METRICS = _is(35, "metrics", "that the 25 alarms of one environment look at; one less with a single node")
METRICS = _is(13, "custom metrics", "of one environment, all with one dimension")
DASHBOARDS = _is(1, "dashboard", "of one environment")
SWEEPS = _is(8_760, "calls", "of the indexer a month by its schedule of five minutes")
SWEEP_MS = _is(100, "ms", "one of them with nothing to do")
PEAK = _is(3, "times", "the mean rate, which a domain must stand")
BUSY = _is(0.6, "of a processor", "that searches may use before they wait for each other")
CHUNK_VECTOR_BYTES = _is(8_192, "bytes", "two vectors of 1,024 numbers of four bytes: kept in memory")
CHUNK_DISK_BYTES = _is(
    41_600, "bytes", "a chunk on disk after words and vectors were written, measured at 1,024 dimensions before merging"
)
DISK_FULL = _is(0.7, "of a volume", "that may be used")
CACHE = _is(0.5, "of a node's memory", "left to vectors; the other half is the store's own")
AWAKE_S = _is(840, "s", "from the last request to a serverless collection until its workers are gone")
SEARCH_WORKERS = _is(2, "OCU", "of a serverless collection that is being searched")
INDEX_WORKERS = _is(1, "OCU", "of a serverless collection that is being written")
OCU_MEMORY_BYTES = _is(6 * GB, "bytes", "of one OCU")
VECTOR_SEARCH_BYTES = _is(60_560, "bytes", "that a SearchVectors looks at, measured by others at 1,024 dimensions")
VECTOR_HIT_BYTES = _is(566, "bytes", "more for each result, measured by others")
VECTOR_HITS = _is(100, "results", "the most that SearchVectors gives: fewer than the ranking looks at here")
VECTOR_INDEX_BYTES = _is(4_973, "bytes", "a vector of 1,024 numbers in its index, measured by others")
VECTOR_WRITE_BYTES = _is(4_125, "bytes", "that writing it counts, from the developer guide's example")
VECTOR_ITEM_UNITS = _is(5, "write units", "the item that carries it, of 4.2 KB")
VECTOR_ITEM_BYTES = _is(4_300, "bytes", "that item, with what is billed beside it")

SEARCH_MS: Final = ((500, 48.9), (1_000, 76.9), (5_000, 121.9), (20_000, 151.7))
"""Chunks of a vault and the milliseconds of its search, of which the store computes nearly all of the time. The last is
that of ``docs/benchmarks.md``; the others come from the same bench on a machine that was busy with other work."""

NODES: Final = {"t3.small.search": (2, 2 * GB), "r7g.large.search": (2, 16 * GB)}
"""Processors and memory of the instance types that `cdk.json` names for data."""


def search_ms(chunks: float) -> float:
    """Of one search in a vault of so many chunks: between the measured sizes in a straight line."""
    (low, first), *rest = SEARCH_MS
    if chunks <= low:
        return first
    for high, value in rest:
        if chunks <= high:
            break
        low, first = high, value
    else:
        (low, first), (high, value) = SEARCH_MS[-2:]
    return first + (value - first) * (chunks - low) / (high - low)


def named() -> dict[str, Assumption]:
    return {name: value for name, value in globals().items() if isinstance(value, Assumption)}
