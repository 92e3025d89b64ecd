"""What answers: functions, routes, the indexer and who is told when something is wrong. Holds no memory."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import Annotations, CfnOutput, CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions

from infra.bundling import PLAIN, SEARCH, bundle, compiles
from infra.constructs.endpoint_function import EndpointFunction
from infra.constructs.http_api import HttpApi
from infra.constructs.indexing import Following, Queues
from infra.constructs.monitoring import Monitoring
from infra.functions import FUNCTIONS, INDEXER, PROVISION, Function
from infra.grants import Resources, models, secret_arn, statements
from infra.variables import variables
from shared.bootstrap.models import bedrock_calls

if TYPE_CHECKING:
    from constructs import Construct

    from infra.data_stack import DataStack
    from infra.env import Environment


class ApiStack(Stack):
    """Can be destroyed and deployed again at any time: everything that lasts is in the data stack.

    Search indexes are provisioned before any function is changed, so that none meets an index it cannot use.
    """

    def __init__(self, scope: Construct, environment: Environment, place: cdk.Environment, data: DataStack) -> None:
        super().__init__(
            scope,
            environment.api_stack,
            env=place,
            description=f"strata {environment.name}: the API and its functions",
        )
        self._environment, self._data = environment, data
        self.add_stack_dependency(data)
        self.queues = Queues(self, environment, data.key)
        self._zips = {
            searches: bundle(SEARCH if searches else PLAIN, environment.python, environment.wheels)
            for searches in (False, True)
        }
        if not compiles(environment.python):
            Annotations.of(self).add_warning_v2(
                "strata:not-compiled",
                f"Python {environment.python} is not installed here, so functions are not byte-compiled, and a cold"
                " start takes more than twice the CPU. Install it and deploy again",
            )
        self._variables = variables(environment, data.table.table_name, data.search_url)
        self._resources = self._reachable()
        self.functions = self._functions()
        self.api = HttpApi(self, environment, {name: each.target for name, each in self.functions.items()}, data.key)
        self.indexer = self.functions[INDEXER].function
        Following(self, self.indexer, data.table, self.queues.lost_batches)
        self.topic = self._topic()
        self._monitor()
        CfnOutput(self, "Url", value=self.api.api.api_endpoint)
        CfnOutput(self, "Table", value=data.table.table_name)
        CfnOutput(self, "DeadLetters", value=self.queues.dead_letters.queue_url)
        CfnOutput(self, "AlarmTopic", value=self.topic.topic_arn)

    def _functions(self) -> dict[str, EndpointFunction]:
        made = {PROVISION: self._function(FUNCTIONS[PROVISION])}
        ready = CustomResource(
            self,
            "SearchIndexes",
            service_token=made[PROVISION].function.function_arn,
            resource_type="Custom::StrataSearchIndexes",
            # A function that ends without a word must not hold the deployment up for an hour.
            service_timeout=Duration.seconds(FUNCTIONS[PROVISION].seconds + 60),
            properties={
                "Replicas": self._environment.search.replicas,
                # It is asked again whenever the code that searches changes.
                "Code": hashlib.sha256(self._zips[True].read_bytes()).hexdigest(),
                "Embedder": self._environment.embedder,
            },
        )
        for function in FUNCTIONS.values():
            if function.name not in made:
                made[function.name] = self._function(function)
                made[function.name].node.add_dependency(ready)
        return made

    def _function(self, function: Function) -> EndpointFunction:
        # What only the functions are told: an operator's command that works beside them reports to its terminal.
        own = {"STRATA_SERVICE": self._environment.name}
        if function.name == INDEXER:
            own["STRATA_DEAD_LETTERS"] = self.queues.dead_letters.queue_url
        return EndpointFunction(
            self,
            function,
            environment=self._environment,
            code=lambda_.Code.from_asset(str(self._zips[function.searches])),
            variables=self._variables | own,
            statements=statements(function.name, self._resources, self._environment.auto_provision_keys),
            key=self._data.key,
        )

    def _reachable(self) -> Resources:
        data, endpoint = self._data, self._environment.endpoint
        place = (self.partition, self.region, self.account)
        calls = bedrock_calls(self._environment.embedder, self._environment.bedrock_model_id)
        return Resources(
            region=self.region,
            table=data.table.table_arn,
            stream=data.table.table_stream_arn or "",
            # By its name, which is fixed: a pattern over another stack's output could not be checked.
            domain=f"arn:{self.partition}:es:{self.region}:{self.account}:domain/{self._environment.domain_name}",
            letters=self.queues.dead_letters.queue_arn,
            lost_batches=self.queues.lost_batches.queue_arn,
            key=data.key.key_arn,
            models=models(calls, *place),
            secret=secret_arn(endpoint.secret, *place) if endpoint is not None and endpoint.secret else None,
        )

    def _topic(self) -> sns.Topic:
        topic = sns.Topic(
            self,
            "Alarms",
            topic_name=f"strata-{self._environment.name}-alarms",
            master_key=self._data.key,
            enforce_ssl=True,
        )
        # A policy of its own, such as the one that asks for TLS, takes the place of the one that lets the account in.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        if self._environment.alarm_address:
            topic.add_subscription(subscriptions.EmailSubscription(self._environment.alarm_address))
        return topic

    def _monitor(self) -> None:
        Monitoring(
            self,
            "Monitoring",
            environment=self._environment,
            api=self.api.api,
            functions={name: each.function for name, each in self.functions.items()},
            indexer=self.indexer,
            table=self._data.table,
            domain=self._data.domain,
            dead_letters=self.queues.dead_letters,
            lost_batches=self.queues.lost_batches,
            topic=self.topic,
        )
