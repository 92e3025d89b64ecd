"""What of a deployment is watched, and the metrics of each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from shared.ports.telemetry import DIMENSION, NAMESPACE, Metric

if TYPE_CHECKING:
    from aws_cdk import aws_apigatewayv2 as apigateway
    from aws_cdk import aws_dynamodb as dynamodb
    from aws_cdk import aws_lambda as lambda_
    from aws_cdk import aws_opensearchservice as opensearch
    from aws_cdk import aws_sqs as sqs

    from infra.env import Environment

FIVE_MINUTES = 5
TABLE_OPERATIONS = ("GetItem", "BatchGetItem", "Query", "TransactWriteItems", "UpdateItem", "PutItem", "BatchWriteItem")


@dataclass(frozen=True, slots=True)
class Watched:
    """The parts of one environment. `lost_batches` is where the stream's deliveries go that the indexer never took.

    `concurrency` is the account's limit of functions that run at once, all stacks together.
    """

    environment: Environment
    api: apigateway.IHttpApi
    functions: Mapping[str, lambda_.IFunction]
    indexer: lambda_.IFunction
    table: dynamodb.ITable
    domain: opensearch.IDomain
    account: str
    dead_letters: sqs.IQueue
    lost_batches: sqs.IQueue
    concurrency: int = 1_000

    def own(self, metric: Metric, statistic: str = "Sum", minutes: int = FIVE_MINUTES) -> cloudwatch.Metric:
        dimensions = {DIMENSION: self.environment.name}
        return _metric(NAMESPACE, metric.name, dimensions, statistic, minutes)

    def of_api(self, name: str, statistic: str = "Sum", minutes: int = FIVE_MINUTES) -> cloudwatch.Metric:
        return _metric("AWS/ApiGateway", name, {"ApiId": self.api.api_id}, statistic, minutes)

    def of_functions(self, name: str, statistic: str = "Sum", minutes: int = FIVE_MINUTES) -> cloudwatch.Metric:
        """Over all functions of the account in this region, as its limits are."""
        return _metric("AWS/Lambda", name, {}, statistic, minutes)

    def of_function(
        self,
        function: lambda_.IFunction,
        name: str,
        statistic: str = "Sum",
        minutes: int = FIVE_MINUTES,
        label: str = "",
    ) -> cloudwatch.Metric:
        return _metric("AWS/Lambda", name, {"FunctionName": function.function_name}, statistic, minutes, label)

    def of_table(self, name: str, statistic: str = "Sum", minutes: int = FIVE_MINUTES) -> cloudwatch.Metric:
        return _metric("AWS/DynamoDB", name, {"TableName": self.table.table_name}, statistic, minutes)

    def table_errors(self, operation: str) -> cloudwatch.Metric:
        dimensions = {"TableName": self.table.table_name, "Operation": operation}
        return _metric("AWS/DynamoDB", "SystemErrors", dimensions, "Sum", FIVE_MINUTES, operation)

    def of_search(self, name: str, statistic: str, minutes: int = FIVE_MINUTES) -> cloudwatch.Metric:
        dimensions = {"DomainName": self.domain.domain_name, "ClientId": self.account}
        return _metric("AWS/ES", name, dimensions, statistic, minutes)

    def messages(self, queue: sqs.IQueue, label: str = "") -> cloudwatch.Metric:
        name = "ApproximateNumberOfMessagesVisible"
        return _metric("AWS/SQS", name, {"QueueName": queue.queue_name}, "Maximum", FIVE_MINUTES, label)


def _metric(
    namespace: str, name: str, dimensions: Mapping[str, str], statistic: str, minutes: int, label: str = ""
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dict(dimensions) or None,
        statistic=statistic,
        period=Duration.minutes(minutes),
        label=label or None,
    )
