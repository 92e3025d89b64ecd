"""The stacks of one environment: ``cdk deploy --all -c env=NAME``. What may stand in ``cdk.json`` is in `infra.env`."""

from __future__ import annotations

import sys

import aws_cdk as cdk
from aws_cdk import Validations
from cdk_nag import AwsSolutionsChecks

from infra.api_stack import ApiStack
from infra.bundling import BundleError
from infra.data_stack import DataStack
from infra.env import Environment, WrongEnvironment, chosen

DELETABLE = "delete_data"
CANNOT_START = 2


def build(app: cdk.App, environment: Environment, deletable: bool = False) -> tuple[DataStack, ApiStack]:
    """Both stacks in `app`, with the checks of cdk-nag."""
    place = cdk.Environment(account=environment.account, region=environment.region)
    data = DataStack(app, environment, place, deletable)
    api = ApiStack(app, environment, place, data)
    cdk.Tags.of(app).add("application", "strata")
    cdk.Tags.of(app).add("environment", environment.name)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return data, api


def _deletable(app: cdk.App, environment: Environment) -> bool:
    """Whether this environment's data may go, which has to be said with its name: a habit must not delete memories."""
    said = app.node.try_get_context(DELETABLE)
    if said in (None, environment.name):
        return said is not None
    raise WrongEnvironment(
        f"-c {DELETABLE}={said}: to make {environment.name}'s data deletable, say {environment.name}"
    )


def main() -> int:
    app = cdk.App()
    try:
        environment = chosen(app.node.try_get_context)
        build(app, environment, _deletable(app, environment))
    except (WrongEnvironment, BundleError) as error:
        print(f"strata: {error}", file=sys.stderr)
        return CANNOT_START
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
