"""From the table's stream to the search index: who is told, how often it is tried, and where failures go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.constructs.acknowledged import acknowledge

if TYPE_CHECKING:
    from aws_cdk import aws_dynamodb as dynamodb
    from aws_cdk import aws_kms as kms

    from infra.env import Environment

RECORDS = 100
AT_ONCE = 4
"""Batches of one shard that are worked on at a time; the rows of one vault stay in order."""
KEPT_S = 23 * 3600
"""The stream keeps a day; what is older goes to the queue of lost batches while it can still be named."""
SWEEP = Duration.minutes(5)
FILTERS = (
    {"eventName": ["INSERT", "REMOVE"], "dynamodb": {"Keys": {"sk": {"S": [{"prefix": "M#"}]}}}},
    {"eventName": ["INSERT", "MODIFY"], "dynamodb": {"Keys": {"sk": {"S": [{"prefix": "B#"}, {"prefix": "A#"}]}}}},
    {"eventName": ["INSERT", "MODIFY"], "dynamodb": {"Keys": {"sk": {"S": ["V"]}}}},
)
"""The records that anybody reacts to. Everything else of the table is not worth an invocation."""


class Queues(Construct):
    """`dead_letters` takes changes that can never be indexed, `lost_batches` what the stream gave up."""

    def __init__(self, scope: Construct, environment: Environment, key: kms.IKey) -> None:
        super().__init__(scope, "Queues")
        self.dead_letters = self._queue("DeadLetters", f"strata-{environment.name}-dead-letters", key)
        self.lost_batches = self._queue("LostBatches", f"strata-{environment.name}-lost-batches", key)

    def _queue(self, id_: str, name: str, key: kms.IKey) -> sqs.Queue:
        queue = sqs.Queue(
            self,
            id_,
            queue_name=name,
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            removal_policy=RemovalPolicy.DESTROY,
        )
        acknowledge(queue, {"AwsSolutions-SQS3": "It is where others send what failed."})
        return queue


class Following(Construct):
    """The indexer follows the stream, and looks every five minutes for passages that wait for a vector."""

    def __init__(
        self, scope: Construct, indexer: lambda_.Function, table: dynamodb.ITable, lost_batches: sqs.IQueue
    ) -> None:
        super().__init__(scope, "Following")
        self.mapping = lambda_.CfnEventSourceMapping(
            self,
            "Stream",
            function_name=indexer.function_arn,
            event_source_arn=table.table_stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=RECORDS,
            maximum_batching_window_in_seconds=0,
            parallelization_factor=AT_ONCE,
            maximum_record_age_in_seconds=KEPT_S,
            maximum_retry_attempts=-1,
            bisect_batch_on_function_error=True,
            function_response_types=["ReportBatchItemFailures"],
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(destination=lost_batches.queue_arn)
            ),
            filter_criteria=lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
                filters=[
                    lambda_.CfnEventSourceMapping.FilterProperty(pattern=json.dumps(pattern)) for pattern in FILTERS
                ]
            ),
        )
        events.Rule(
            self,
            "Sweep",
            description="passages that wait for a vector",
            schedule=events.Schedule.rate(SWEEP),
            targets=[
                targets.LambdaFunction(
                    indexer, event=events.RuleTargetInput.from_object({"sweep": True}), retry_attempts=0
                )
            ],
        )
