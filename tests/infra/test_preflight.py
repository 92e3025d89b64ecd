"""What stands in a deployment's way is said before it begins, with what to do."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

from infra.env import Environment, read
from infra.outputs import CDK_JSON
from infra.preflight import BOOTSTRAP, NotReady, ready
from tests.emulator.ministack import ACCOUNT, Ministack

pytestmark = [pytest.mark.slow, pytest.mark.loopback]

DESCRIBED = json.loads(CDK_JSON.read_text("utf-8"))["context"]["environments"]["dev"]
BROKEN = {"Resources": {"Alarm": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": []}}}}


@pytest.fixture
def environment() -> Environment:
    """Of a name that no other test has used."""
    return read(f"t{uuid4().hex[:8]}", DESCRIBED)


@pytest.fixture
def session(ministack: Ministack, monkeypatch: pytest.MonkeyPatch) -> Session:
    for name, value in ministack.environment().items():
        monkeypatch.setenv(name, value)
    ssm = ministack.client("ssm")
    ssm.put_parameter(Name=BOOTSTRAP, Value="28", Type="String", Overwrite=True)
    return Session()


def refusal(session: Session, environment: Environment, destroying: bool = False) -> str:
    with pytest.raises(NotReady) as refused:
        ready(session, environment, destroying)
    return str(refused.value)


def test_a_prepared_account_is_ready(session: Session, environment: Environment) -> None:
    ready(session, environment)
    ready(session, environment, destroying=True)


def test_an_account_that_is_not_bootstrapped(session: Session, environment: Environment, ministack: Ministack) -> None:
    ministack.client("ssm").delete_parameter(Name=BOOTSTRAP)
    said = refusal(session, environment)
    assert f"the account {ACCOUNT} is not bootstrapped for CDK in us-east-1" in said
    assert f"infra.toolkit bootstrap aws://{ACCOUNT}/us-east-1 -c env={environment.name}" in said
    # Taking down needs none of it.
    ready(session, environment, destroying=True)


def test_a_bootstrap_of_long_ago(session: Session, environment: Environment, ministack: Ministack) -> None:
    ministack.client("ssm").put_parameter(Name=BOOTSTRAP, Value="6", Type="String", Overwrite=True)
    assert "is of version 6, too old; run once" in refusal(session, environment)


@pytest.mark.parametrize(
    ("field", "value", "found"), [("account", "123456789012", ACCOUNT), ("region", "eu-west-1", "us-east-1")]
)
def test_credentials_of_somewhere_else(session: Session, field: str, value: str, found: str) -> None:
    elsewhere = read("elsewhere", {**DESCRIBED, field: value})
    said = refusal(session, elsewhere)
    assert f"elsewhere belongs to the {field} {value}, and these credentials are of {found}" in said


def test_nobody_knows_who_is_asking(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for name, value in (
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ("AWS_CONFIG_FILE", "/dev/null"),
    ):
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    assert "set AWS_PROFILE and AWS_REGION" in refusal(Session(), environment)


def test_names_that_somebody_else_has(session: Session, environment: Environment, ministack: Ministack) -> None:
    """What was kept of an earlier deployment has the names that a new one wants."""
    ministack.client("dynamodb").create_table(
        TableName=environment.table_name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    ministack.client("opensearch").create_domain(DomainName=environment.domain_name, EngineVersion="OpenSearch_2.19")
    said = refusal(session, environment)
    assert f"a DynamoDB table {environment.table_name} and an OpenSearch domain {environment.domain_name}" in said
    assert "Take it in again" in said
    assert "another name in cdk.json" in said
    ministack.client("dynamodb").delete_table(TableName=environment.table_name)
    ministack.client("opensearch").delete_domain(DomainName=environment.domain_name)
    ready(session, environment)


def test_the_empty_remains_of_a_first_deployment_make_way(
    session: Session, environment: Environment, ministack: Ministack
) -> None:
    formation = ministack.client("cloudformation")
    formation.create_stack(
        StackName=environment.data_stack, TemplateBody=json.dumps(BROKEN), EnableTerminationProtection=True
    )
    deadline = time.monotonic() + 60
    while (
        formation.describe_stacks(StackName=environment.data_stack)["Stacks"][0]["StackStatus"] != "ROLLBACK_COMPLETE"
    ):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    with pytest.raises(ClientError):
        formation.delete_stack(StackName=environment.data_stack)
    ready(session, environment)
    formation.delete_stack(StackName=environment.data_stack)


class Formation:
    """CloudFormation with one stack in a state that the emulator does not get into."""

    def __init__(self, stack: str, state: str) -> None:
        self._stack, self._state = stack, state

    def describe_stacks(self, **asked: str) -> Any:
        if asked["StackName"] != self._stack:
            raise ClientError({"Error": {"Code": "ValidationError", "Message": "does not exist"}}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self._state}]}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback"),
        ("ROLLBACK_FAILED", "could not be taken back"),
        ("DELETE_FAILED", "a deletion failed"),
        ("UPDATE_IN_PROGRESS", "somebody deploys it now"),
        ("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", "somebody deploys it now"),
    ],
)
@pytest.mark.parametrize("destroying", [False, True])
def test_a_stack_that_is_stuck_or_busy(
    session: Session, environment: Environment, monkeypatch: pytest.MonkeyPatch, state: str, said: str, destroying: bool
) -> None:
    create = session.create_client
    stuck = Formation(environment.api_stack, state)
    monkeypatch.setattr(
        session,
        "create_client",
        lambda service, **more: stuck if service == "cloudformation" else create(service, **more),
    )
    message = refusal(session, environment, destroying)
    assert f"the stack {environment.api_stack} is {state}" in message
    assert said in message
