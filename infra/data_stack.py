"""What holds memory: table, search domain and their key. It outlives the API, and nothing deletes it unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchservice as opensearch

from infra.constructs.acknowledged import acknowledge
from infra.constructs.log_group import log_group
from shared.bootstrap.provisioning import SCHEMA, TTL

if TYPE_CHECKING:
    from constructs import Construct

    from infra.env import Environment

ENGINE = "2.19"
PITR_DAYS = 35


class DataStack(Stack):
    """The table ``strata-<env>``, the domain of the same name, and a key that both are encrypted with.

    Both names are fixed: CloudFormation cannot replace what has a name of its own, so no update can swap a full table
    for an empty one. With `deletable` the stack and its data can be destroyed; it has to be deployed like that first.
    `table` is the one to serve: this stack's `own_table`, unless the environment names another.
    """

    def __init__(self, scope: Construct, environment: Environment, place: cdk.Environment, deletable: bool) -> None:
        super().__init__(
            scope,
            environment.data_stack,
            env=place,
            description=f"strata {environment.name}: memories, their search index and their key",
            termination_protection=not deletable,
        )
        self._environment = environment
        self._removal = RemovalPolicy.DESTROY if deletable else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        self._deletable = deletable
        self.key = self._key()
        self.own_table = self._table()
        self.domain = self._domain()
        # A domain is what can fail to be made, and a protected table could not be taken back then.
        self.own_table.node.add_dependency(self.domain)
        self.table = self._served()
        CfnOutput(self, "TableName", value=self.own_table.table_name)
        CfnOutput(self, "SearchUrl", value=self.search_url)
        CfnOutput(self, "KeyArn", value=self.key.key_arn)

    @property
    def search_url(self) -> str:
        return f"{self._environment.search.scheme}://{self.domain.domain_endpoint}"

    def _key(self) -> kms.Key:
        key = kms.Key(
            self,
            "Key",
            description=f"strata {self._environment.name}: memories at rest",
            enable_key_rotation=True,
            alias=f"alias/strata-{self._environment.name}",
            removal_policy=self._removal,
        )
        writers = (
            (
                f"logs.{self.region}.amazonaws.com",
                ["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*", "kms:DescribeKey"],
                {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": self._logs_arn()}},
            ),
            # Alarms, to an encrypted topic.
            (
                "cloudwatch.amazonaws.com",
                ["kms:Decrypt", "kms:GenerateDataKey*"],
                {"StringEquals": {"aws:SourceAccount": self.account}},
            ),
        )
        for service, actions, condition in writers:
            key.add_to_resource_policy(
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal(service)],
                    actions=actions,
                    resources=["*"],
                    conditions=condition,
                )
            )
        return key

    def _logs_arn(self) -> str:
        return f"arn:{self.partition}:logs:{self.region}:{self.account}:log-group:/strata/{self._environment.name}/*"

    def _table(self) -> dynamodb.Table:
        types = {"S": dynamodb.AttributeType.STRING}
        kinds = {each["AttributeName"]: types[each["AttributeType"]] for each in SCHEMA["AttributeDefinitions"]}

        def key(keys: list[dict[str, str]], place: int) -> dynamodb.Attribute:
            name = keys[place]["AttributeName"]
            return dynamodb.Attribute(name=name, type=kinds[name])

        table = dynamodb.Table(
            self,
            "Memories",
            table_name=self._environment.table_name,
            partition_key=key(SCHEMA["KeySchema"], 0),
            sort_key=key(SCHEMA["KeySchema"], 1),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=self.key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True, recovery_period_in_days=PITR_DAYS
            ),
            stream=dynamodb.StreamViewType(SCHEMA["StreamSpecification"]["StreamViewType"]),
            time_to_live_attribute=TTL,
            deletion_protection=not self._deletable,
            removal_policy=self._removal,
        )
        for index in SCHEMA["LocalSecondaryIndexes"]:
            projection = index["Projection"]
            table.add_local_secondary_index(
                index_name=index["IndexName"],
                sort_key=key(index["KeySchema"], 1),
                projection_type=dynamodb.ProjectionType(projection["ProjectionType"]),
                non_key_attributes=projection.get("NonKeyAttributes"),
            )
        return table

    def _served(self) -> dynamodb.ITable:
        """The table that the API works on."""
        other = self._environment.table_stream
        if other is None:
            return self.own_table
        for name in (self.own_table.table_name, self.own_table.table_arn, self.own_table.table_stream_arn):
            # The API stack, deployed after this one, still takes these when another table is chosen.
            self.export_value(name)
        return dynamodb.Table.from_table_attributes(
            self,
            "Served",
            table_arn=other.partition("/stream/")[0],
            table_stream_arn=other,
            encryption_key=self.key,
        )

    def _domain(self) -> opensearch.Domain:
        search = self._environment.search
        domain = opensearch.Domain(
            self,
            "Search",
            domain_name=self._environment.domain_name,
            version=opensearch.EngineVersion.open_search(ENGINE),
            capacity=opensearch.CapacityConfig(
                data_node_instance_type=search.instance,
                data_nodes=search.nodes,
                master_nodes=search.masters or None,
                master_node_instance_type=search.master_instance if search.masters else None,
                multi_az_with_standby_enabled=False,
            ),
            ebs=opensearch.EbsOptions(volume_size=search.volume, volume_type=ec2.EbsDeviceVolumeType.GP3),
            zone_awareness=opensearch.ZoneAwarenessConfig(
                enabled=search.nodes > 1,
                availability_zone_count=min(search.nodes, 3) if search.nodes > 1 else None,
            ),
            encryption_at_rest=opensearch.EncryptionAtRestOptions(enabled=True, kms_key=self.key),
            node_to_node_encryption=True,
            # Whom a policy lets into some indexes must not name another one inside a request.
            advanced_options={"rest.action.multi.allow_explicit_index": "false"},
            enforce_https=True,
            # Else another version of the engine would be another domain, and its name is taken.
            enable_version_upgrade=True,
            tls_security_policy=opensearch.TLSSecurityPolicy.TLS_1_2_PFS,
            removal_policy=self._removal,
            logging=opensearch.LoggingOptions(
                app_log_enabled=True,
                app_log_group=log_group(self, "SearchLog", self._environment, "domain", self.key),
            ),
            # CDK would put a function of its own into the stack for it.
            suppress_logs_resource_policy=True,
        )
        may_log = logs.CfnResourcePolicy(
            self,
            "SearchMayLog",
            policy_name=f"strata-{self._environment.name}-search",
            policy_document=self._may_log(),
        )
        domain.node.add_dependency(may_log)
        described = domain.node.default_child
        assert isinstance(described, opensearch.CfnDomain)
        # Said here, since CDK's own way needs a function that calls AWS while the stack is deployed.
        described.access_policies = self._policy(self._by_identity())
        acknowledge(domain, _DOMAIN_REASONS)
        return domain

    def _by_identity(self) -> iam.PolicyStatement:
        """Whoever's own policy allows it, in this account: the functions' roles and operators."""
        domain = f"arn:{self.partition}:es:{self.region}:{self.account}:domain/{self._environment.domain_name}/*"
        return iam.PolicyStatement(principals=[iam.AccountRootPrincipal()], actions=["es:ESHttp*"], resources=[domain])

    def _may_log(self) -> str:
        statement = iam.PolicyStatement(
            principals=[iam.ServicePrincipal("es.amazonaws.com")],
            actions=["logs:PutLogEvents", "logs:CreateLogStream"],
            resources=[self._logs_arn()],
            conditions={"StringEquals": {"aws:SourceAccount": self.account}},
        )
        return self.to_json_string(self._policy(statement))

    @staticmethod
    def _policy(statement: iam.PolicyStatement) -> dict[str, object]:
        return {"Version": "2012-10-17", "Statement": [statement.to_statement_json()]}


_DOMAIN_REASONS = {
    "AwsSolutions-OS1": "Functions outside a VPC start faster; every request is signed and allowed by identity.",
    "AwsSolutions-OS3": "Functions have no fixed addresses; requests are signed, and roles say which are allowed.",
    "AwsSolutions-OS4": "Masters of their own are a setting: `search.masters`, on in prod; the index can be rebuilt.",
    "AwsSolutions-OS7": "Zones follow the number of nodes, `search.nodes`; the index can be rebuilt.",
    "AwsSolutions-OS9[LogExport::SEARCH_SLOW_LOGS]": "Slow logs hold queries, and no text of a user goes into a log.",
    "AwsSolutions-OS9[LogExport::INDEX_SLOW_LOGS]": "Slow logs hold documents, and no text of a user goes into a log.",
}
