"""What would make a deployment fail, looked at before it begins."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from infra.env import Environment
from infra.outputs import described

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
OLDEST_BOOTSTRAP = 14
EMPTY = ("ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS")
"""States of a stack that was never there: its first deployment failed, and what it had made was taken back."""
STUCK = {
    "ROLLBACK_FAILED": "its first deployment could not be taken back",
    "UPDATE_ROLLBACK_FAILED": "an update could not be taken back: `aws cloudformation continue-update-rollback`",
    "DELETE_FAILED": "a deletion failed",
}


class NotReady(RuntimeError):
    """The deployment would fail. The message says why and what to do."""


def ready(session: Session, environment: Environment, destroying: bool = False) -> None:
    """Raises `NotReady` for what can be seen beforehand; takes the empty remains of a failed first deployment away."""
    account, region = _place(session)
    for what, wanted, found in (
        ("account", environment.account, account),
        ("region", environment.region, region),
    ):
        if wanted is not None and wanted != found:
            raise NotReady(
                f"{environment.name} belongs to the {what} {wanted}, and these credentials are of {found}:"
                " choose others (AWS_PROFILE, AWS_REGION), or change cdk.json"
            )
    formation = session.create_client("cloudformation")
    states = {stack: _state(formation, stack) for stack in (environment.data_stack, environment.api_stack)}
    for stack, state in states.items():
        if state in STUCK:
            raise NotReady(f"the stack {stack} is {state}: {STUCK[state]}. See docs/operations.md, Failures half way")
        if state is not None and state.endswith("_IN_PROGRESS") and state not in EMPTY:
            raise NotReady(f"the stack {stack} is {state}: somebody deploys it now. Wait, then run this again")
    if destroying:
        return
    _bootstrapped(session, environment, account, region)
    state = states[environment.data_stack]
    if state in EMPTY:
        # Protected like every data stack, which keeps CDK from clearing it away.
        formation.update_termination_protection(StackName=environment.data_stack, EnableTerminationProtection=False)
    if state is None or state in EMPTY:
        _names_are_free(session, environment)


def _place(session: Session) -> tuple[str, str]:
    try:
        client = session.create_client("sts")
        return str(client.get_caller_identity()["Account"]), str(client.meta.region_name)
    except (BotoCoreError, ClientError) as error:
        raise NotReady(
            f"AWS does not know who is asking ({error}): set AWS_PROFILE and AWS_REGION, or log in with `aws sso login`"
        ) from None


def _state(formation: Any, stack: str) -> str | None:
    found = described(formation, stack)
    return None if found is None else str(found["StackStatus"])


def _bootstrapped(session: Session, environment: Environment, account: str, region: str) -> None:
    do = f"run once: .venv/bin/python -m infra.toolkit bootstrap aws://{account}/{region} -c env={environment.name}"
    try:
        version = session.create_client("ssm").get_parameter(Name=BOOTSTRAP)["Parameter"]["Value"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise
        raise NotReady(f"the account {account} is not bootstrapped for CDK in {region}; {do}") from None
    if int(version) < OLDEST_BOOTSTRAP:
        raise NotReady(f"the CDK bootstrap of {account} in {region} is of version {version}, too old; {do}")


def _names_are_free(session: Session, environment: Environment) -> None:
    """A new data stack makes a table and a domain by these names."""
    taken = []
    table, domain = environment.table_name, environment.domain_name
    if _there(lambda: session.create_client("dynamodb").describe_table(TableName=table)):
        taken.append(f"a DynamoDB table {table}")
    if _there(lambda: session.create_client("opensearch").describe_domain(DomainName=domain)):
        taken.append(f"an OpenSearch domain {domain}")
    if _there(lambda: session.create_client("kms").describe_key(KeyId=f"alias/{table}")):
        taken.append(f"a key alias/{table}")
    if taken:
        raise NotReady(
            f"there is {' and '.join(taken)} that no stack of {environment.name} owns, such as what was kept of an"
            " earlier deployment. Take it in again (docs/operations.md, Take kept data back), give the environment"
            " another name in cdk.json, or delete it if nobody needs what it holds"
        )


def _there(ask: Any) -> bool:
    try:
        ask()
    except ClientError as error:
        if error.response["Error"]["Code"] in ("ResourceNotFoundException", "NotFoundException"):
            return False
        raise
    return True
