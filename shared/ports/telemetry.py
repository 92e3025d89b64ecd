"""What a deployment says about itself: a few numbers that an operator watches, and one line about every call."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

NAMESPACE = "Strata"
DIMENSION = "service"
"""The one dimension of every metric; its value is the environment's name. Another dimension is another bill."""

Facts = dict[str, str | int | float]
"""What is said about a call: names, numbers and codes. Never text of a memory, a key, a query or a session's name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """`meaning` is for whoever looks at a dashboard."""

    name: str
    unit: Literal["Count", "Seconds"]
    meaning: str


SERVER_ERRORS = Metric("ServerErrors", "Count", "requests answered 500: nobody foresaw why they failed")
BUSY = Metric("Busy", "Count", "requests answered 503 `busy`: others kept changing the same vault")
STORAGE_UNAVAILABLE = Metric("StorageUnavailable", "Count", "requests answered 503: the table did not answer")
SEARCH_UNAVAILABLE = Metric("SearchUnavailable", "Count", "requests answered 503: the domain did not answer")
EMBEDDING_UNAVAILABLE = Metric("EmbeddingUnavailable", "Count", "requests answered 503: the model did not answer")
CONFLICTS = Metric("Conflicts", "Count", "calls of consolidation answered 409: an expired lease, a lost race")
COMMITTED_BATCHES = Metric("CommittedBatches", "Count", "batches whose reflections were stored")
CONSOLIDATED_MEMORIES = Metric("ConsolidatedMemories", "Count", "memories that those batches consolidated")
INGESTED_MEMORIES = Metric("IngestedMemories", "Count", "memories that were stored by ingest and upload")
RETRIEVALS = Metric("Retrievals", "Count", "answers of search, prepare and date-search")
INDEX_LAG = Metric("IndexLag", "Seconds", "age of the oldest change of a delivery when the indexer is through with it")
VAULTS_WAITING = Metric("VaultsWaiting", "Count", "vaults with passages that have no vector, at a sweep; 500 at most")
DEAD_LETTERS = Metric("DeadLetters", "Count", "changes that the indexer gave up")

METRICS = {
    each.name: each
    for each in (
        SERVER_ERRORS,
        BUSY,
        STORAGE_UNAVAILABLE,
        SEARCH_UNAVAILABLE,
        EMBEDDING_UNAVAILABLE,
        CONFLICTS,
        COMMITTED_BATCHES,
        CONSOLIDATED_MEMORIES,
        INGESTED_MEMORIES,
        RETRIEVALS,
        INDEX_LAG,
        VAULTS_WAITING,
        DEAD_LETTERS,
    )
}


class Telemetry(Protocol):
    """Never raises, and never keeps a call from its answer."""

    def record(self, metric: Metric, value: float = 1) -> None:
        """Add to a metric, in its unit. What is recorded within `invocation` leaves at its end, all at once."""
        ...

    def invocation(self, name: str, request_id: str, context: object) -> AbstractContextManager[Facts]:
        """One call of the function `name`; `context` is the platform's, if any.

        What is put into the facts meanwhile is said in one line at the end, also where an exception ends it.
        """
        ...
