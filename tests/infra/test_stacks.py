"""What the stacks promise an operator, read off their templates."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra.functions import FUNCTIONS, INDEXER, PROVISION, UNROUTED
from infra.toolkit import ROOT
from shared.api.routes import ROUTES
from shared.bootstrap.provisioning import SCHEMA
from tests.infra.policies import wide
from tests.infra.templates import Stacks, stacks

# CDK is made in another language, and the bridge to it starts slowly.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cdk")]

ENVIRONMENTS = ("dev", "prod", "emulator")
PRICES = ROOT / "infra" / "costs" / "prices.toml"
LAMBDA, LOG = "AWS::Lambda::Function", "AWS::Logs::LogGroup"


@pytest.fixture(params=ENVIRONMENTS)
def made(request: pytest.FixtureRequest) -> Stacks:
    return stacks(request.param)


@pytest.fixture
def prod() -> Stacks:
    return stacks("prod")


def test_data_is_kept_protected_and_backed_up(made: Stacks) -> None:
    table = made.the("AWS::DynamoDB::Table")
    assert table["Properties"]["DeletionProtectionEnabled"] is True
    recovery = table["Properties"]["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 35}
    for kind in ("AWS::DynamoDB::Table", "AWS::OpenSearchService::Domain", "AWS::KMS::Key"):
        resource = made.the(kind)
        assert resource["UpdateReplacePolicy"] == "Retain", kind
        # Kept when the stack goes; taken back when its very first deployment fails, so that it can be run again.
        assert resource["DeletionPolicy"] == "RetainExceptOnCreate", kind


def test_nothing_that_holds_data_can_be_replaced(made: Stacks) -> None:
    """CloudFormation refuses to replace a resource that has a name of its own."""
    assert re.fullmatch(r"strata-\w+", made.the("AWS::DynamoDB::Table")["Properties"]["TableName"])
    assert re.fullmatch(r"strata-\w+", made.the("AWS::OpenSearchService::Domain")["Properties"]["DomainName"])


def test_the_table_is_the_one_that_the_code_expects(made: Stacks) -> None:
    properties = made.the("AWS::DynamoDB::Table")["Properties"]
    for name in ("KeySchema", "BillingMode", "LocalSecondaryIndexes"):
        assert properties[name] == SCHEMA[name], name
    assert sorted(each["AttributeName"] for each in properties["AttributeDefinitions"]) == sorted(
        each["AttributeName"] for each in SCHEMA["AttributeDefinitions"]
    )
    assert properties["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}


NAMED = {
    "AWS::DynamoDB::Table": "TableName",
    "AWS::IAM::Role": "RoleName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::OpenSearchService::Domain": "DomainName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::KMS::Alias": "AliasName",
    "AWS::ApiGatewayV2::Api": "Name",
}


def test_no_two_resources_have_one_name_and_no_two_environments_share_any() -> None:
    names: list[tuple[str, str]] = []
    for environment in ENVIRONMENTS:
        for kind, field in NAMED.items():
            found = [resource["Properties"].get(field) for _, resource in stacks(environment).of_type(kind)]
            names += [(kind, name) for name in found if name is not None]
    assert len(names) > 3 * 80
    assert len(names) == len(set(names))


def test_only_the_flag_with_its_name_makes_data_deletable() -> None:
    made = stacks("dev", deletable=True)
    assert made.the("AWS::DynamoDB::Table")["Properties"]["DeletionProtectionEnabled"] is False
    for kind in ("AWS::DynamoDB::Table", "AWS::OpenSearchService::Domain", "AWS::KMS::Key"):
        assert made.the(kind)["DeletionPolicy"] == "Delete"


def test_everything_at_rest_is_encrypted_with_the_key(made: Stacks) -> None:
    assert made.the("AWS::KMS::Key")["Properties"]["EnableKeyRotation"] is True
    assert made.the("AWS::DynamoDB::Table")["Properties"]["SSESpecification"]["SSEType"] == "KMS"
    domain = made.the("AWS::OpenSearchService::Domain")["Properties"]
    assert domain["EncryptionAtRestOptions"]["Enabled"] is True
    assert "KmsKeyId" in domain["EncryptionAtRestOptions"]
    assert domain["NodeToNodeEncryptionOptions"] == {"Enabled": True}
    assert domain["DomainEndpointOptions"]["EnforceHTTPS"] is True
    for kind, field in (
        ("AWS::SQS::Queue", "KmsMasterKeyId"),
        ("AWS::SNS::Topic", "KmsMasterKeyId"),
        (LOG, "KmsKeyId"),
    ):
        found = list(made.of_type(kind))
        assert found
        assert all(field in resource["Properties"] for _, resource in found), kind


def test_every_function_is_deployed_with_its_own_role_and_log(made: Stacks) -> None:
    functions = [resource["Properties"] for _, resource in made.of_type(LAMBDA)]
    assert sorted(each["Handler"] for each in functions) == sorted(each.handler for each in FUNCTIONS.values())
    roles = [json.dumps(each["Role"]) for each in functions]
    logs = [json.dumps(each["LoggingConfig"]["LogGroup"]) for each in functions]
    assert len(set(roles)) == len(set(logs)) == len(functions)
    for each in functions:
        function = next(one for one in FUNCTIONS.values() if one.handler == each["Handler"])
        assert (each["MemorySize"], each["Timeout"]) == (function.memory, function.seconds)
        assert each["LoggingConfig"]["LogFormat"] == "JSON"


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_logs_end(name: str) -> None:
    days = {"dev": 14, "prod": 90, "emulator": 1}[name]
    groups = [resource for _, resource in stacks(name).of_type(LOG)]
    assert len(groups) == len(FUNCTIONS) + 2
    assert {group["Properties"]["RetentionInDays"] for group in groups} == {days}
    assert {group["DeletionPolicy"] for group in groups} == {"Delete"}


def test_every_route_leads_to_its_function(made: Stacks) -> None:
    routes = {
        resource["Properties"]["RouteKey"]: resource["Properties"]
        for _, resource in made.of_type("AWS::ApiGatewayV2::Route")
    }
    expected = {f"{route.method} {route.path}" for route in ROUTES}
    expected |= {f"HEAD {route.path}" for route in ROUTES if route.method == "GET"} | {"$default"}
    assert set(routes) == expected
    integrations = dict(made.of_type("AWS::ApiGatewayV2::Integration"))
    handlers = {name: resource["Properties"]["Handler"] for name, resource in made.of_type(LAMBDA)}

    def handler(route_key: str) -> str:
        (integration,) = [name for name in integrations if name in json.dumps(routes[route_key]["Target"])]
        properties = integrations[integration]["Properties"]
        assert properties["PayloadFormatVersion"] == "2.0"
        (function,) = [name for name in handlers if f'"{name}"' in json.dumps(properties["IntegrationUri"])]
        return str(handlers[function])

    assert handler("$default") == FUNCTIONS[UNROUTED].handler
    for route in ROUTES:
        assert handler(f"{route.method} {route.path}") == FUNCTIONS[route.folder].handler


def test_the_api_throttles_and_logs_neither_paths_nor_headers(prod: Stacks) -> None:
    stage = prod.the("AWS::ApiGatewayV2::Stage")["Properties"]
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 1000, "ThrottlingBurstLimit": 2000}
    logged = set(json.loads(stage["AccessLogSettings"]["Format"]).values())
    assert logged == {
        "$context.requestId", "$context.requestTime", "$context.routeKey", "$context.status",
        "$context.responseLength", "$context.responseLatency", "$context.integrationLatency",
        "$context.error.message", "$context.integrationErrorMessage",
    }  # fmt: skip


def test_browsers_may_call_where_the_environment_says_so(prod: Stacks) -> None:
    assert "CorsConfiguration" not in prod.the("AWS::ApiGatewayV2::Api")["Properties"]
    cors = stacks("dev").the("AWS::ApiGatewayV2::Api")["Properties"]["CorsConfiguration"]
    assert cors["AllowOrigins"] == ["*"]
    assert {"Authorization", "X-Memory-Key", "X-Session-ID", "Idempotency-Key", "Content-Type"} <= set(
        cors["AllowHeaders"]
    )
    assert {"MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"} <= set(cors["AllowHeaders"])
    assert set(cors["AllowMethods"]) == {"GET", "HEAD", "POST", "DELETE"}
    assert {"X-Request-Id", "X-Next-Cursor", "Retry-After", "WWW-Authenticate"} == set(cors["ExposeHeaders"])
    assert "AllowCredentials" not in cors or cors["AllowCredentials"] is False


def test_indexes_are_ready_before_any_function_is_changed(made: Stacks) -> None:
    ((ready, resource),) = made.of_type("Custom::StrataSearchIndexes")
    handlers = dict(made.of_type(LAMBDA))
    for each in handlers.values():
        waits = ready in each.get("DependsOn", [])
        assert waits is (each["Properties"]["Handler"] != FUNCTIONS[PROVISION].handler)
    assert re.fullmatch(r"[0-9a-f]{64}", resource["Properties"]["Code"])


def test_the_stream_is_followed_and_nothing_of_it_is_dropped_silently(made: Stacks) -> None:
    mapping = made.the("AWS::Lambda::EventSourceMapping")["Properties"]
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["MaximumRetryAttempts"] == -1
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["MaximumRecordAgeInSeconds"] < 86_400
    assert "LostBatches" in json.dumps(mapping["DestinationConfig"])
    rule = made.the("AWS::Events::Rule")["Properties"]
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    assert "Records" not in json.loads(rule["Targets"][0]["Input"])


def test_the_indexer_alone_knows_the_dead_letters(made: Stacks) -> None:
    for _, resource in made.of_type(LAMBDA):
        variables = resource["Properties"]["Environment"]["Variables"]
        is_indexer = resource["Properties"]["Handler"] == FUNCTIONS[INDEXER].handler
        assert ("STRATA_DEAD_LETTERS" in variables) is is_indexer
        assert variables["STRATA_BACKEND"] == "aws"
        assert not [name for name in variables if "KEY" in name and name != "STRATA_AUTO_PROVISION_KEYS"]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_strangers_open_vaults_only_on_the_emulator(name: str) -> None:
    said = {
        resource["Properties"]["Environment"]["Variables"]["STRATA_AUTO_PROVISION_KEYS"]
        for _, resource in stacks(name).of_type(LAMBDA)
    }
    assert said == {"1" if name == "emulator" else "0"}


def test_no_policy_is_wider_than_it_need_be(made: Stacks) -> None:
    assert wide(made.data) == []
    assert wide(made.api) == []


def test_alarms_are_sent_to_an_address() -> None:
    made = stacks("prod", alarm_address="ops@example.org")
    subscription = made.the("AWS::SNS::Subscription")["Properties"]
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "ops@example.org")
    alarms = [resource["Properties"] for _, resource in made.of_type("AWS::CloudWatch::Alarm")]
    assert len(alarms) >= 20
    assert all(alarm["AlarmActions"] for alarm in alarms)


def test_cloudwatch_may_write_to_the_topic_of_the_alarms(made: Stacks) -> None:
    """A topic with a policy of its own lets nobody in whom the policy does not name."""
    (policy,) = [resource["Properties"] for _, resource in made.of_type("AWS::SNS::TopicPolicy")]
    allowed = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    ((topic, _),) = made.of_type("AWS::SNS::Topic")
    (statement,) = [each for each in allowed if each["Principal"] == {"Service": "cloudwatch.amazonaws.com"}]
    assert (statement["Action"], statement["Resource"]) == ("sns:Publish", {"Ref": topic})
    assert "aws:SourceAccount" in statement["Condition"]["StringEquals"]
    key = json.dumps(made.the("AWS::KMS::Key")["Properties"]["KeyPolicy"])
    assert "cloudwatch.amazonaws.com" in key


def test_volumes_are_of_the_kind_that_the_cost_page_counts(made: Stacks) -> None:
    domain = made.the("AWS::OpenSearchService::Domain")
    assert domain["Properties"]["EBSOptions"]["VolumeType"] == "gp3"
    assert "gp3" in PRICES.read_text("utf-8")
    assert "gp2" not in PRICES.read_text("utf-8")
    assert domain["UpdatePolicy"]["EnableVersionUpgrade"] is True


def test_a_deployment_never_waits_an_hour_for_a_function_that_died(made: Stacks) -> None:
    ((_, resource),) = made.of_type("Custom::StrataSearchIndexes")
    assert FUNCTIONS[PROVISION].seconds < int(resource["Properties"]["ServiceTimeout"]) <= 600


def test_a_secret_travels_by_its_name_alone() -> None:
    endpoint = {"url": "https://models.example/v1", "model": "bge", "dimension": 384, "secret": "models/token"}
    made = stacks("dev", embedder="endpoint", endpoint=Frozen(endpoint))
    told = [resource["Properties"]["Environment"]["Variables"] for _, resource in made.of_type(LAMBDA)]
    assert {each["STRATA_EMBEDDINGS_SECRET"] for each in told} == {"models/token"}
    readers = {name for name, policy in made.of_type("AWS::IAM::Policy") if "GetSecretValue" in json.dumps(policy)}
    assert {re.sub("Role.*", "", name) for name in readers} == {"Search", "Prepare", "DateSearch", "Mcp", "Indexer"}
    assert wide(made.api) == []


def test_a_snapshot_serves_where_it_is_switched_on() -> None:
    made = stacks("dev", snap_start=True)
    functions = [resource["Properties"] for _, resource in made.of_type(LAMBDA)]
    assert {each["SnapStart"]["ApplyOn"] for each in functions} == {"PublishedVersions"}
    assert len(list(made.of_type("AWS::Lambda::Alias"))) == len(functions)
    uris = [resource["Properties"]["IntegrationUri"] for _, resource in made.of_type("AWS::ApiGatewayV2::Integration")]
    aliases = {name for name, _ in made.of_type("AWS::Lambda::Alias")}
    assert all(uri["Ref"] in aliases for uri in uris)


class Frozen(dict[str, Any]):
    """A dictionary that can be an argument of a cached function."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(json.dumps(self, sort_keys=True))
