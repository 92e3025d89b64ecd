"""Alarms and dashboard: what they look at exists, and every alarm can be acted upon."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import Environment as Place
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_opensearchservice as opensearch
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template

from infra.constructs.monitoring import Monitoring
from infra.env import Environment, read
from infra.functions import FUNCTIONS, INDEXER
from shared.ports.telemetry import METRICS

# The start of the language bridge that CDK runs on takes longer than all else.
pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs" / "alarms.md"
ACCOUNT, REGION, API = "123456789012", "eu-central-1", "a1b2c3d4e5"
TABLE = DOMAIN = "strata-test"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:strata-test-alarms"
QUEUES = ("strata-test-dead-letters", "strata-test-lost-batches")

# As the services' own pages document them: metrics by the dimensions that they are reported under.
PLATFORM: Mapping[tuple[str, frozenset[str]], frozenset[str]] = {
    ("AWS/ApiGateway", frozenset(("ApiId",))): frozenset(("Count", "4xx", "5xx", "Latency", "IntegrationLatency")),
    ("AWS/Lambda", frozenset()): frozenset(("ConcurrentExecutions", "Throttles", "Errors", "Invocations", "Duration")),
    ("AWS/Lambda", frozenset(("FunctionName",))): frozenset(
        ("Errors", "Throttles", "Invocations", "Duration", "ConcurrentExecutions", "IteratorAge")
    ),
    ("AWS/DynamoDB", frozenset(("TableName",))): frozenset(
        ("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits", "ReadThrottleEvents", "WriteThrottleEvents")
    ),
    ("AWS/DynamoDB", frozenset(("TableName", "Operation"))): frozenset(
        ("SystemErrors", "ThrottledRequests", "SuccessfulRequestLatency")
    ),
    ("AWS/SQS", frozenset(("QueueName",))): frozenset(
        ("ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage", "NumberOfMessagesSent")
    ),
    ("AWS/ES", frozenset(("DomainName", "ClientId"))): frozenset(
        (
            "ClusterStatus.green",
            "ClusterStatus.yellow",
            "ClusterStatus.red",
            "Nodes",
            "FreeStorageSpace",
            "ClusterIndexWritesBlocked",
            "CPUUtilization",
            "JVMMemoryPressure",
            "KMSKeyError",
            "KMSKeyInaccessible",
            "SearchLatency",
            "IndexingLatency",
            "ThreadpoolSearchRejected",
            "ThreadpoolWriteRejected",
        )
    ),
}
VALUES = {
    "service": {"test"},
    "ApiId": {API},
    "TableName": {TABLE},
    "DomainName": {DOMAIN},
    "ClientId": {ACCOUNT},
    "QueueName": set(QUEUES),
    "FunctionName": {f"strata-test-{name}" for name in FUNCTIONS},
    "Operation": {
        "GetItem", "BatchGetItem", "Query", "TransactGetItems", "TransactWriteItems", "UpdateItem", "PutItem",
        "DeleteItem", "BatchWriteItem",
    },
}  # fmt: skip
STATISTICS = {"Sum", "Average", "Minimum", "Maximum", "p50", "p99"}
NOT_SHOWN: Mapping[str, str] = {}
"""Metrics that are on no widget, each with the reason."""


def environment(**search: Any) -> Environment:
    described = {
        "account": ACCOUNT,
        "region": REGION,
        "runtime": "3.13",
        "architecture": "arm64",
        "search": {"instance": "r7g.large.search", "nodes": 3, "volume": 100, "masters": 3, **search},
        "embedder": "titan-embed-text-v2-1024",
        "snap_start": False,
        "log_days": 30,
        "rate": 100,
        "burst": 200,
    }
    return read("test", described)


def synthesised(chosen: Environment) -> dict[str, Any]:
    """The template of a stack that holds nothing else."""
    stack = Stack(App(), "Watching", env=Place(account=ACCOUNT, region=REGION))
    place = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function"
    functions = {
        name: lambda_.Function.from_function_arn(stack, name, f"{place}:strata-test-{name}")
        for name in sorted(FUNCTIONS)
    }
    dead, lost = (sqs.Queue.from_queue_arn(stack, name, f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}") for name in QUEUES)
    Monitoring(
        stack,
        "Monitoring",
        environment=chosen,
        api=apigateway.HttpApi.from_http_api_attributes(stack, "Api", http_api_id=API),
        functions=functions,
        indexer=functions[INDEXER],
        table=dynamodb.Table.from_table_name(stack, "Table", TABLE),
        domain=opensearch.Domain.from_domain_attributes(
            stack,
            "Domain",
            domain_arn=f"arn:aws:es:{REGION}:{ACCOUNT}:domain/{DOMAIN}",
            domain_endpoint=f"search-{DOMAIN}-abcdef.{REGION}.es.amazonaws.com",
        ),
        dead_letters=dead,
        lost_batches=lost,
        topic=sns.Topic.from_topic_arn(stack, "Topic", TOPIC),
    )
    return dict(Template.from_stack(stack).to_json())


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return synthesised(environment())


def resources(template: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == kind]


@pytest.fixture(scope="module")
def alarms(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["AlarmName"]: each for each in resources(template, "AWS::CloudWatch::Alarm")}


@pytest.fixture(scope="module")
def widgets(template: dict[str, Any]) -> list[dict[str, Any]]:
    (dashboard,) = resources(template, "AWS::CloudWatch::Dashboard")
    body = dashboard["DashboardBody"]
    if isinstance(body, dict):
        # Names that only the deployment knows stand between the pieces.
        separator, pieces = body["Fn::Join"]
        body = separator.join(piece if isinstance(piece, str) else "resolved-later" for piece in pieces)
    found: list[dict[str, Any]] = json.loads(body)["widgets"]
    return found


Series = tuple[str, str, dict[str, str], str]
"""Namespace, name, dimensions and statistic of what is looked at."""


def drawn(widget: Mapping[str, Any]) -> Iterator[Series]:
    for line in widget["properties"].get("metrics", []):
        path = [part for part in line if isinstance(part, str)]
        options = line[-1] if isinstance(line[-1], dict) else {}
        # CloudWatch's own default is left out.
        yield path[0], path[1], dict(zip(path[2::2], path[3::2], strict=True)), options.get("stat", "Average")


def measured(alarm: Mapping[str, Any]) -> Iterator[Series]:
    single = (
        [{"Metric": alarm, "Stat": alarm.get("ExtendedStatistic") or alarm["Statistic"]}]
        if "MetricName" in alarm
        else []
    )
    for each in [*single, *(entry["MetricStat"] for entry in alarm.get("Metrics", []) if "MetricStat" in entry)]:
        metric = each["Metric"]
        dimensions = {found["Name"]: found["Value"] for found in metric.get("Dimensions", [])}
        yield metric["Namespace"], metric["MetricName"], dimensions, each["Stat"]


def problem(series: Series) -> str | None:
    """Why nothing would ever be seen there."""
    namespace, name, dimensions, statistic = series
    if statistic not in STATISTICS:
        return f"{series}: no such statistic"
    for dimension, value in dimensions.items():
        if value not in VALUES.get(dimension, set()):
            return f"{series}: {dimension} is none of this environment"
    if namespace == "Strata":
        known = name in METRICS and set(dimensions) == {"service"}
    else:
        known = name in PLATFORM.get((namespace, frozenset(dimensions)), frozenset())
    return None if known else f"{series}: nobody reports it"


def test_every_widget_and_every_alarm_looks_at_a_metric_that_exists(
    widgets: list[dict[str, Any]], alarms: dict[str, dict[str, Any]]
) -> None:
    seen = [series for widget in widgets for series in drawn(widget)]
    seen += [series for alarm in alarms.values() for series in measured(alarm)]
    assert len(seen) > 100
    assert [found for series in seen if (found := problem(series))] == []


@pytest.mark.parametrize(
    "wrong",
    [
        ("Strata", "Retreivals", {"service": "test"}, "Sum"),
        ("Strata", "Retrievals", {"service": "test", "route": "search"}, "Sum"),
        ("Strata", "Retrievals", {"service": "prod"}, "Sum"),
        ("AWS/Lambda", "IteratorAge", {}, "Maximum"),
        ("AWS/DynamoDB", "SystemErrors", {"TableName": TABLE}, "Sum"),
        ("AWS/ES", "Nodes", {"DomainName": DOMAIN}, "Minimum"),
        ("AWS/ApiGateway", "5XXError", {"ApiId": API}, "Sum"),
    ],
)
def test_a_metric_that_nobody_reports_is_noticed(wrong: Series) -> None:
    assert problem(wrong) is not None


def test_every_metric_of_ours_is_shown(widgets: list[dict[str, Any]]) -> None:
    shown = {name for widget in widgets for namespace, name, _, _ in drawn(widget) if namespace == "Strata"}
    assert shown | set(NOT_SHOWN) == set(METRICS)
    assert shown & set(NOT_SHOWN) == set()


def test_the_page_is_read_from_users_down_to_limits(widgets: list[dict[str, Any]]) -> None:
    headings = [widget["properties"]["markdown"] for widget in widgets if widget["type"] == "text"]
    assert headings == ["## Traffic and errors", "## Consolidation", "## Search and index", "## Limits"]
    assert widgets[0]["type"] == "alarm"
    places = [(widget["y"], widget["x"]) for widget in widgets]
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    assert all(widget["x"] + widget["width"] <= 24 for widget in widgets)


def test_every_alarm_reaches_somebody_who_can_look_up_what_to_do(alarms: dict[str, dict[str, Any]]) -> None:
    sections = set(re.findall(r"^## alarm ([a-z-]+)$", DOCS.read_text("utf-8"), re.MULTILINE))
    assert {name.removeprefix("strata-test-") for name in alarms} == sections
    for name, alarm in alarms.items():
        section = name.removeprefix("strata-test-")
        assert alarm["AlarmActions"] == [TOPIC]
        assert alarm["OKActions"] == [TOPIC]
        assert alarm.get("ActionsEnabled", True)
        assert alarm["AlarmDescription"].endswith(f"docs/alarms.md#alarm-{section}")
        assert alarm["TreatMissingData"] in ("breaching", "notBreaching", "ignore", "missing")


def test_what_must_not_go_unnoticed_counts_as_bad_when_it_is_silent(alarms: dict[str, dict[str, Any]]) -> None:
    treated = {name.removeprefix("strata-test-"): alarm["TreatMissingData"] for name, alarm in alarms.items()}
    assert {name for name, how in treated.items() if how == "breaching"} == {"search-nodes", "vectors-waiting"}
    assert {name for name, how in treated.items() if how == "ignore"} == {"dead-letters", "lost-batches"}


def test_thresholds_follow_the_domain(alarms: dict[str, dict[str, Any]]) -> None:
    storage, nodes = alarms["strata-test-search-storage"], alarms["strata-test-search-nodes"]
    # A quarter of 100 GiB, in MiB; three data nodes and three masters.
    assert (storage["Threshold"], storage["ComparisonOperator"]) == (25_600, "LessThanOrEqualToThreshold")
    assert (nodes["Threshold"], nodes["ComparisonOperator"]) == (6, "LessThanThreshold")


def test_one_node_alone_is_not_called_yellow(alarms: dict[str, dict[str, Any]]) -> None:
    alone = resources(synthesised(environment(nodes=1, masters=0)), "AWS::CloudWatch::Alarm")
    assert set(alarms) - {each["AlarmName"] for each in alone} == {"strata-test-search-yellow"}


def test_what_it_costs_stays_small(alarms: dict[str, dict[str, Any]]) -> None:
    """$0.10 a month for each metric of an alarm, $0.30 for each metric of ours, $3 for the page: below $12 in all."""
    looked_at = sum(len(list(measured(alarm))) for alarm in alarms.values())
    assert 0.1 * looked_at + 0.3 * len(METRICS) + 3 < 12


def test_the_guide_lists_every_metric() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", DOCS.read_text("utf-8"), re.MULTILINE)
    assert rows == [(each.name, each.unit, each.meaning) for each in METRICS.values()]
