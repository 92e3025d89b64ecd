"""What a deployment says of itself: the outputs of its stacks, and the settings that operators' commands need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra.env import Environment, WrongEnvironment, chosen
from infra.variables import variables
from shared.bootstrap.session import aws_session
from shared.settings import Settings, load

CDK_JSON = Path(__file__).resolve().parents[1] / "cdk.json"


class NotDeployed(RuntimeError):
    """A stack of the environment is not there. The message says what to do."""


def environment(name: str) -> Environment:
    """The environment of that name in ``cdk.json``. Raises `WrongEnvironment`."""
    try:
        context = json.loads(CDK_JSON.read_text("utf-8"))["context"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise WrongEnvironment(f"cdk.json cannot be read ({type(error).__name__}: {error})") from None
    return chosen({**context, "env": name}.get)


def settings_of(name: str | None) -> Settings:
    """The settings of the deployed environment of that name, else those of ``STRATA_…`` variables.

    Raises `SettingsError`; for a deployment `WrongEnvironment`, `NotDeployed`, and botocore's errors.
    """
    if name is None:
        return load()
    deployed = environment(name)
    return deployed_settings(aws_session().create_client("cloudformation"), deployed)


def described(client: Any, stack: str) -> Mapping[str, Any] | None:
    """What CloudFormation says of a stack; None when there is none."""
    try:
        found: Mapping[str, Any] = client.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        return None
    return found


def outputs(client: Any, stack: str) -> dict[str, str]:
    """A stack's outputs, by a CloudFormation client. Raises `NotDeployed`."""
    found = described(client, stack)
    if found is None:
        raise NotDeployed(f"there is no stack {stack} in this account and region: deploy it first")
    return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", ())}


def deployed_settings(client: Any, deployed: Environment, endpoint: str | None = None) -> Settings:
    """The settings that the functions of a deployment have, for commands that work beside them.

    `endpoint` is the address of an emulator. Without an API stack it is the own table, and there are no dead letters.
    Raises `NotDeployed` when there is no data stack either.
    """
    data = outputs(client, deployed.data_stack)
    try:
        api = outputs(client, deployed.api_stack)
    except NotDeployed:
        api = {}
    told = variables(deployed, api.get("Table", data["TableName"]), data["SearchUrl"])
    if "DeadLetters" in api:
        told["STRATA_DEAD_LETTERS"] = api["DeadLetters"]
    return load(told | ({"STRATA_AWS_ENDPOINT": endpoint} if endpoint else {}))
