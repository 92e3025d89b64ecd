"""Where the search index could live, and what each place would cost: the domain that is deployed, and two that are not.

Only what differs is compared: the store itself. Requests, table and functions cost the same with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from infra.costs import assumptions as assume
from infra.costs.assumptions import GB, HOURS, MILLION, SECONDS
from infra.costs.bill import Deployment, Usage
from infra.costs.domain import Domain, grown

Store = Callable[[Deployment, Usage], float]
"""Dollars a month."""

ONE_NODE = Domain("t3.small.search", 1, 20, 1)
LARGER_NODE = Domain("r7g.large.search", 1, 20, 1)
THREE_COPIES = Domain("r7g.large.search", 3, 100, 3, 3)


def _chunks(on: Deployment, usage: Usage) -> tuple[float, float]:
    """Of all vaults, and of one."""
    return usage.memories * on.chunks_a_memory, usage.vault_memories * on.chunks_a_memory


def _grown(on: Deployment, usage: Usage, domain: Domain) -> float:
    chunks, of_a_vault = _chunks(on, usage)
    return grown(domain, chunks, usage.retrievals, of_a_vault).usd(on.prices)


def one_copy(on: Deployment, usage: Usage) -> float:
    """A managed domain that loses its index with a node: the smallest that is enough."""
    chunks, of_a_vault = _chunks(on, usage)
    small = grown(ONE_NODE, chunks, usage.retrievals, of_a_vault)
    larger = grown(LARGER_NODE, chunks, usage.retrievals, of_a_vault)
    # Burstable instances are for little: beyond one of them the others are the better choice.
    return larger.usd(on.prices) if small.nodes > 1 else min(small.usd(on.prices), larger.usd(on.prices))


def three_copies(on: Deployment, usage: Usage) -> float:
    """A managed domain in three zones with masters of its own, as ``prod`` in `cdk.json` has it."""
    return _grown(on, usage, THREE_COPIES)


def serverless(on: Deployment, usage: Usage) -> float:
    """A serverless collection that sleeps when nobody asks: workers while it is awake, more of them when it is busy."""
    chunks, of_a_vault = _chunks(on, usage)
    vectors = chunks * assume.CHUNK_VECTOR_BYTES.value / (assume.OCU_MEMORY_BYTES.value * assume.CACHE.value)
    workers = max(assume.SEARCH_WORKERS.value, 2 * math.ceil(vectors))
    worked = usage.retrievals * assume.search_ms(of_a_vault) / 3_600_000 / assume.BUSY.value
    searching = max(workers * awake_hours(usage.retrievals), worked)
    written = usage.messages / usage.ingest
    indexing = usage.messages * on.chunks_a_memory / assume.CHUNKS_A_SECOND.value / 3600
    indexing = max(assume.INDEX_WORKERS.value * awake_hours(written), indexing)
    stored = chunks * assume.CHUNK_DISK_BYTES.value / GB * on.prices.usd("serverless_storage")
    return (searching + indexing) * on.prices.usd("serverless_ocu") + stored


def awake_hours(requests: float) -> float:
    """Of a month with so many requests at random moments: within the time after one of them."""
    return HOURS * -math.expm1(-requests / SECONDS * assume.AWAKE_S.value)


def dynamodb_vectors(on: Deployment, usage: Usage) -> float:
    """The table's own vector index. It would answer by meaning alone, without words: not the same answers."""
    usd = on.prices.usd
    chunks, _ = _chunks(on, usage)
    looked_at = assume.VECTOR_SEARCH_BYTES.value + assume.VECTOR_HITS.value * assume.VECTOR_HIT_BYTES.value
    written = usage.messages * on.chunks_a_memory
    return (
        usage.retrievals * looked_at / GB * usd("dynamodb_vector_search")
        + written * assume.VECTOR_WRITE_BYTES.value / GB * usd("dynamodb_vector_write")
        + written * assume.VECTOR_ITEM_UNITS.value * usd("dynamodb_write") / MILLION
        + chunks * assume.VECTOR_INDEX_BYTES.value / GB * usd("dynamodb_vector_storage")
        + chunks * assume.VECTOR_ITEM_BYTES.value / GB * (usd("dynamodb_storage") + usd("dynamodb_pitr"))
    )


STORES: Mapping[str, Store] = {
    "managed, one copy": one_copy,
    "managed, three copies": three_copies,
    "serverless": serverless,
    "DynamoDB vectors": dynamodb_vectors,
}


def usage_of(memories: float, retrievals: float) -> Usage:
    """The typical month of so many memories, with another number of retrievals."""
    typical = Usage.typical(memories)
    return Usage(memories, retrievals, typical.messages, typical.consolidations)


def cheapest(on: Deployment, memories: float, retrievals: float, among: Mapping[str, Store] = STORES) -> str:
    usage = usage_of(memories, retrievals)
    return min(among, key=lambda name: among[name](on, usage))


def crossover(on: Deployment, memories: float, cheap_at_first: Store, cheap_later: Store) -> float | None:
    """From how many retrievals a month the second store is the cheaper one; None when it never is, up to a billion.

    0 when it is the cheaper one from the start.
    """

    def dearer(retrievals: float) -> bool:
        usage = usage_of(memories, retrievals)
        return cheap_at_first(on, usage) > cheap_later(on, usage)

    if dearer(0.0):
        return 0.0
    high = 1.0
    while not dearer(high):
        high *= 2
        if high > 1e9:
            return None
    low = high / 2
    while high - low > max(1.0, low * 0.001):
        middle = (low + high) / 2
        low, high = (low, middle) if dearer(middle) else (middle, high)
    return high
