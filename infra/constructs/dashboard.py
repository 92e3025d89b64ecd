"""One page for a person on call: what users see, what consolidates, what is found, what is running out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.constructs.alarms import BUSY_SHARE, FREE_SHARE, MEBIBYTES
from infra.constructs.watched import TABLE_OPERATIONS
from shared.ports import telemetry

if TYPE_CHECKING:
    from constructs import Construct

    from infra.constructs.watched import Watched

COLUMNS, HEIGHT = 24, 6
Row = list[cloudwatch.IWidget]


def dashboard(
    scope: Construct, id_: str, watched: Watched, alarms: Sequence[cloudwatch.IAlarm]
) -> cloudwatch.Dashboard:
    """The page ``strata-<env>``; its alarms stand on top."""
    status = cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=COLUMNS, height=4)
    rows: list[tuple[str, list[cloudwatch.IWidget]]] = [
        ("Traffic and errors", _traffic(watched)),
        ("Consolidation", _consolidation(watched)),
        ("Search and index", _search(watched)),
        ("Limits", _limits(watched)),
    ]
    widgets: list[Row] = [[status]]
    for title, row in rows:
        heading = cloudwatch.TextWidget(markdown=f"## {title}", width=COLUMNS, height=1)
        widgets += [[heading], row]
    return cloudwatch.Dashboard(
        scope,
        id_,
        dashboard_name=f"strata-{watched.environment.name}",
        default_interval=Duration.hours(12),
        widgets=widgets,
    )


def _traffic(watched: Watched) -> Row:
    failed = (
        telemetry.SERVER_ERRORS,
        telemetry.BUSY,
        telemetry.STORAGE_UNAVAILABLE,
        telemetry.SEARCH_UNAVAILABLE,
        telemetry.EMBEDDING_UNAVAILABLE,
    )
    latency = [
        watched.of_api("Latency", "p50"),
        watched.of_api("Latency", "p99"),
        watched.of_api("IntegrationLatency", "p99"),
    ]
    return [
        _graph("Requests", [watched.of_api(name) for name in ("Count", "4xx", "5xx")]),
        _graph("Latency (ms)", latency),
        _graph("Why answers failed", [watched.own(metric) for metric in failed]),
        _graph("Retrievals", [watched.own(telemetry.RETRIEVALS)]),
    ]


def _consolidation(watched: Watched) -> Row:
    memories = (telemetry.INGESTED_MEMORIES, telemetry.CONSOLIDATED_MEMORIES)
    return [
        _graph("Memories in and consolidated", [watched.own(metric) for metric in memories]),
        _graph("Batches committed", [watched.own(telemetry.COMMITTED_BATCHES)]),
        _graph("Conflicts", [watched.own(telemetry.CONFLICTS)]),
    ]


def _search(watched: Watched) -> Row:
    age = watched.of_function(watched.indexer, "IteratorAge", "Maximum", label="IteratorAge (ms)")
    letters = [
        watched.own(telemetry.DEAD_LETTERS),
        watched.messages(watched.dead_letters, "dead letters"),
        watched.messages(watched.lost_batches, "lost batches"),
    ]
    health = ("ClusterStatus.red", "ClusterStatus.yellow", "ClusterIndexWritesBlocked")
    return [
        _graph("Behind", [watched.own(telemetry.INDEX_LAG, "Maximum")], [age]),
        _graph("Vaults without all vectors", [watched.own(telemetry.VAULTS_WAITING, "Maximum")]),
        _graph("Given up", letters),
        _graph("Cluster", [watched.of_search(name, "Maximum") for name in health]),
        _graph(
            "Load of the busiest node (%)",
            [watched.of_search(name, "Maximum") for name in ("CPUUtilization", "JVMMemoryPressure")],
        ),
        _graph(
            "Latency in the domain (ms)",
            [watched.of_search(name, "Average") for name in ("SearchLatency", "IndexingLatency")],
        ),
        _graph(
            "Refused by the domain",
            [watched.of_search(name, "Maximum") for name in ("ThreadpoolSearchRejected", "ThreadpoolWriteRejected")],
        ),
    ]


def _limits(watched: Watched) -> Row:
    def each(name: str, statistic: str) -> list[cloudwatch.IMetric]:
        return [watched.of_function(one, name, statistic, label=short) for short, one in watched.functions.items()]

    quota = cloudwatch.HorizontalAnnotation(value=BUSY_SHARE * watched.concurrency, label="alarm")
    full = cloudwatch.HorizontalAnnotation(
        value=FREE_SHARE * watched.environment.search.volume * MEBIBYTES, label="alarm"
    )
    used = [watched.of_table("ConsumedReadCapacityUnits"), watched.of_table("ConsumedWriteCapacityUnits")]
    throttled = [watched.of_table("ReadThrottleEvents"), watched.of_table("WriteThrottleEvents")]
    return [
        _graph("Functions at once, account", [watched.of_functions("ConcurrentExecutions", "Maximum")], marks=[quota]),
        _graph("Functions throttled, account", [watched.of_functions("Throttles")]),
        _graph(
            "Free storage of the fullest node (MB)", [watched.of_search("FreeStorageSpace", "Minimum")], marks=[full]
        ),
        _graph("Errors by function", each("Errors", "Sum")),
        _graph("Slowest 1 % by function (ms)", each("Duration", "p99")),
        _graph("Table: capacity used, throttled", used, throttled),
        _graph("Table: system errors", [watched.table_errors(operation) for operation in TABLE_OPERATIONS]),
    ]


def _graph(
    title: str,
    left: Sequence[cloudwatch.IMetric],
    right: Sequence[cloudwatch.IMetric] = (),
    marks: Sequence[cloudwatch.HorizontalAnnotation] = (),
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title, left=list(left), right=list(right), left_annotations=list(marks), width=COLUMNS // 4, height=HEIGHT
    )
