"""Alarms and a dashboard over everything that one environment runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from infra.constructs.alarms import Watch, watches
from infra.constructs.dashboard import dashboard
from infra.constructs.watched import Watched

if TYPE_CHECKING:
    from aws_cdk import aws_apigatewayv2 as apigateway
    from aws_cdk import aws_dynamodb as dynamodb
    from aws_cdk import aws_lambda as lambda_
    from aws_cdk import aws_opensearchservice as opensearch
    from aws_cdk import aws_sns as sns
    from aws_cdk import aws_sqs as sqs

    from infra.env import Environment

GUIDE = "docs/alarms.md"


class Monitoring(Construct):
    """Every alarm writes to `topic`, when it begins and when it is over. `functions` are named as in their table."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        environment: Environment,
        api: apigateway.IHttpApi,
        functions: Mapping[str, lambda_.IFunction],
        indexer: lambda_.IFunction,
        table: dynamodb.ITable,
        domain: opensearch.IDomain,
        dead_letters: sqs.IQueue,
        lost_batches: sqs.IQueue,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, id_)
        watched = Watched(
            environment=environment,
            api=api,
            functions=functions,
            indexer=indexer,
            table=table,
            domain=domain,
            account=Stack.of(self).account,
            dead_letters=dead_letters,
            lost_batches=lost_batches,
        )
        # The emulator knows no alarms on several metrics at once.
        known = [
            watch
            for watch in watches(watched)
            if not (environment.emulated and isinstance(watch.metric, cloudwatch.MathExpression))
        ]
        self.alarms = {watch.name: self._alarm(environment.name, watch) for watch in known}
        for alarm in self.alarms.values():
            alarm.add_alarm_action(actions.SnsAction(topic))
            alarm.add_ok_action(actions.SnsAction(topic))
        self.dashboard = dashboard(self, "Dashboard", watched, list(self.alarms.values()))

    def _alarm(self, environment: str, watch: Watch) -> cloudwatch.Alarm:
        return cloudwatch.Alarm(
            self,
            "".join(part.capitalize() for part in watch.name.split("-")),
            alarm_name=f"strata-{environment}-{watch.name}",
            alarm_description=f"{watch.meaning} What to do: {GUIDE}#alarm-{watch.name}",
            metric=watch.metric,
            threshold=watch.threshold,
            evaluation_periods=watch.periods,
            comparison_operator=watch.beyond,
            treat_missing_data=watch.missing,
        )
