"""Another table than an environment's own: the API works on that, and the data stack still tells what it told."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra.env import WrongEnvironment, read
from infra.outputs import CDK_JSON
from tests.infra.templates import Stacks, stacks

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cdk")]

RESTORED = "arn:aws:dynamodb:eu-west-1:123456789012:table/strata-dev-restored"
STREAM = f"{RESTORED}/stream/2026-12-01T09:30:00.000"


@pytest.fixture
def other() -> Stacks:
    return stacks("dev", table_stream=STREAM)


def exports(template: dict[str, Any]) -> dict[str, Any]:
    return {each["Export"]["Name"]: each["Value"] for each in template["Outputs"].values() if "Export" in each}


def test_the_api_works_on_the_other_table(other: Stacks) -> None:
    functions = [each["Properties"] for _, each in other.of_type("AWS::Lambda::Function")]
    assert {each["Environment"]["Variables"]["STRATA_TABLE"] for each in functions} == {"strata-dev-restored"}
    assert other.api["Outputs"]["Table"]["Value"] == "strata-dev-restored"
    assert other.the("AWS::Lambda::EventSourceMapping")["Properties"]["EventSourceArn"] == STREAM
    statements = [
        statement
        for _, each in other.of_type("AWS::IAM::Policy")
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
        if "dynamodb:" in json.dumps(statement["Action"])
    ]
    named = {arn for each in statements for arn in re.findall(r"arn:aws:dynamodb[^\"]*", json.dumps(each["Resource"]))}
    assert {RESTORED, STREAM} <= named
    assert all(name.startswith(RESTORED) for name in named)
    assert "ImportValue" not in json.dumps([each["Resource"] for each in statements])


def test_its_own_table_stays_in_its_stack_as_it_was(other: Stacks) -> None:
    assert other.data["Resources"] == stacks("dev").data["Resources"]


def test_what_the_deployed_api_takes_is_still_exported(other: Stacks) -> None:
    """The data stack is updated first, and CloudFormation refuses to withdraw what another stack uses."""
    own = stacks("dev")
    taken = set(re.findall(r'"Fn::ImportValue": "([^"]+)"', json.dumps(own.api)))
    assert len([name for name in taken if "Memories" in name]) == 3
    before, after = exports(own.data), exports(other.data)
    assert {name: before[name] for name in taken} == {name: after.get(name) for name in taken}


@pytest.mark.parametrize("wrong", [RESTORED, "strata-dev-restored", f"{RESTORED}/stream/", ""])
def test_only_a_stream_says_which_table(wrong: str) -> None:
    described = json.loads(CDK_JSON.read_text("utf-8"))["context"]["environments"]["dev"]
    with pytest.raises(WrongEnvironment, match=r"environments\.dev\.table_stream"):
        read("dev", {**described, "table_stream": wrong})
