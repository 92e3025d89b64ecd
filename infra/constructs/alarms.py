"""What an operator is called for, and when. `docs/alarms.md` has a section for each: what it means and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.constructs.watched import FIVE_MINUTES, TABLE_OPERATIONS
from shared.ports import telemetry

if TYPE_CHECKING:
    from infra.constructs.watched import Watched

QUIET = cloudwatch.TreatMissingData.NOT_BREACHING
"""Nothing is reported where nothing happened."""
UNKNOWN = cloudwatch.TreatMissingData.MISSING
"""A part that reports always: without data the alarm says that it does not know; `search-nodes` says why."""
AS_BEFORE = cloudwatch.TreatMissingData.IGNORE
"""A queue that nobody uses reports nothing, and what lies in it still does."""
SILENT_IS_BAD = cloudwatch.TreatMissingData.BREACHING

AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
AT_MOST = cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD
BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD

FREE_SHARE = 0.25
MEBIBYTES = 1_024
BUSY_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Watch:
    """An alarm: `name` is also its section of docs/alarms.md; it rings once `periods` in a row are beyond."""

    name: str
    meaning: str
    metric: cloudwatch.IMetric
    threshold: float
    periods: int
    missing: cloudwatch.TreatMissingData
    beyond: cloudwatch.ComparisonOperator = AT_LEAST


def watches(watched: Watched) -> list[Watch]:
    """All alarms of an environment."""
    return [*_of_the_api(watched), *_of_the_indexer(watched), *_of_the_limits(watched), *_of_the_search(watched)]


def _of_the_api(watched: Watched) -> list[Watch]:
    share = _math(
        "IF(errors >= 5, 100 * errors / requests, 0)",
        {"errors": watched.of_api("5xx"), "requests": watched.of_api("Count")},
        "5xx answers, percent",
    )
    own = watched.own
    return [
        Watch("api-errors", "1 % or more of the requests are answered 5xx.", share, 1, 2, QUIET),
        Watch(
            "api-latency",
            "The slowest 1 % of requests takes 5 s or more.",
            watched.of_api("Latency", "p99"),
            5_000,
            3,
            QUIET,
        ),
        Watch("server-errors", "A request failed in a way nobody foresaw.", own(telemetry.SERVER_ERRORS), 1, 1, QUIET),
        Watch(
            "storage-unavailable",
            "Requests fail because of the table.",
            own(telemetry.STORAGE_UNAVAILABLE),
            5,
            2,
            QUIET,
        ),
        Watch(
            "search-unavailable", "Requests fail because of the domain.", own(telemetry.SEARCH_UNAVAILABLE), 5, 2, QUIET
        ),
        Watch(
            "embedding-unavailable",
            "Requests fail because of the model.",
            own(telemetry.EMBEDDING_UNAVAILABLE),
            5,
            2,
            QUIET,
        ),
    ]


def _of_the_indexer(watched: Watched) -> list[Watch]:
    indexer = watched.indexer
    stopped = _math(
        "IF(FILL(ingested, 0) > 0 && FILL(delivered, -1) < 0, 1, 0)",
        {
            "ingested": watched.own(telemetry.INGESTED_MEMORIES, minutes=15),
            "delivered": watched.of_function(indexer, "IteratorAge", "Maximum", minutes=15),
        },
        "memories come in, and nothing is delivered",
        minutes=15,
    )
    hours = 2
    return [
        Watch("indexer-errors", "The indexer fails.", watched.of_function(indexer, "Errors"), 1, 3, QUIET),
        Watch("indexer-stopped", "Memories come in, and the indexer is given none of them.", stopped, 1, 2, QUIET),
        Watch(
            "indexer-behind",
            f"The indexer is {hours} hours behind; after 20 it gives changes up, after 24 they are gone.",
            watched.of_function(indexer, "IteratorAge", "Maximum"),
            hours * 3_600_000,
            3,
            QUIET,
        ),
        Watch(
            "index-lag", "Searches miss the last 5 minutes.", watched.own(telemetry.INDEX_LAG, "Maximum"), 300, 3, QUIET
        ),
        Watch(
            "vectors-waiting",
            "For 3 hours vaults wait for vectors, or nobody looks after them.",
            watched.own(telemetry.VAULTS_WAITING, "Minimum", minutes=60),
            1,
            3,
            SILENT_IS_BAD,
        ),
        Watch("dead-letters", "The indexer gave changes up.", watched.messages(watched.dead_letters), 1, 1, AS_BEFORE),
        Watch(
            "lost-batches",
            "Deliveries of the stream failed for good.",
            watched.messages(watched.lost_batches),
            1,
            1,
            AS_BEFORE,
        ),
    ]


def _of_the_limits(watched: Watched) -> list[Watch]:
    at_once = watched.of_functions("ConcurrentExecutions", "Maximum")
    named = {f"e{place}": watched.table_errors(operation) for place, operation in enumerate(TABLE_OPERATIONS)}
    failed = _math(" + ".join(f"FILL({name}, 0)" for name in named), named, "system errors")
    throttled = _math(
        "FILL(reads, 0) + FILL(writes, 0)",
        {"reads": watched.of_table("ReadThrottleEvents"), "writes": watched.of_table("WriteThrottleEvents")},
        "throttled",
    )
    return [
        Watch(
            "functions-throttled", "Lambda refuses to run functions.", watched.of_functions("Throttles"), 10, 2, QUIET
        ),
        Watch(
            "functions-at-once",
            "80 % of the account's functions at once are in use.",
            at_once,
            BUSY_SHARE * watched.concurrency,
            2,
            QUIET,
        ),
        Watch("table-errors", "DynamoDB fails.", failed, 5, 2, QUIET),
        Watch("table-throttled", "DynamoDB throttles the table.", throttled, 10, 2, QUIET),
    ]


def _of_the_search(watched: Watched) -> list[Watch]:
    search, of = watched.environment.search, watched.of_search
    free = FREE_SHARE * search.volume * MEBIBYTES
    locked_out = _math(
        "FILL(broken, 0) + FILL(inaccessible, 0)",
        {"broken": of("KMSKeyError", "Maximum"), "inaccessible": of("KMSKeyInaccessible", "Maximum")},
        "the key cannot be used",
    )
    nodes = search.nodes + search.masters
    found = [
        Watch("search-red", "Parts of the index cannot be read.", of("ClusterStatus.red", "Maximum", 1), 1, 2, UNKNOWN),
        Watch(
            "search-nodes",
            "Nodes are missing, or the domain is silent.",
            of("Nodes", "Minimum", 15),
            nodes,
            2,
            SILENT_IS_BAD,
            BELOW,
        ),
        Watch(
            "search-storage",
            "A quarter of a node's storage is left.",
            of("FreeStorageSpace", "Minimum", 1),
            free,
            5,
            UNKNOWN,
            AT_MOST,
        ),
        Watch(
            "search-writes-blocked",
            "The domain takes no writes.",
            of("ClusterIndexWritesBlocked", "Maximum"),
            1,
            1,
            UNKNOWN,
        ),
        Watch("search-cpu", "A node computes at its limit.", of("CPUUtilization", "Maximum", 15), 80, 3, UNKNOWN),
        Watch("search-memory", "A node is short of memory.", of("JVMMemoryPressure", "Maximum", 1), 95, 3, UNKNOWN),
        Watch("search-key", "The domain cannot use its key.", locked_out, 1, 1, QUIET),
    ]
    if search.nodes > 1:
        # One node has no place for a copy, and is yellow where an index asks for one.
        yellow = of("ClusterStatus.yellow", "Minimum", 15)
        found.append(Watch("search-yellow", "Copies of the index are missing.", yellow, 1, 2, UNKNOWN))
    return found


def _math(
    expression: str, metrics: Mapping[str, cloudwatch.IMetric], label: str, minutes: int = FIVE_MINUTES
) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=expression, using_metrics=dict(metrics), label=label, period=Duration.minutes(minutes)
    )
