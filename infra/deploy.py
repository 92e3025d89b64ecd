"""Deploy an environment of ``cdk.json`` to AWS: ``python -m infra.deploy NAME``, or `make deploy ENV=NAME`.

It looks first at what would make CDK fail later and less clearly: the environment, the credentials, the bootstrap,
names that are taken, the remains of a deployment that failed. Then it runs ``cdk deploy`` on both stacks, which on its
own does the same. ``--destroy`` takes the API down and keeps the data; ``--delete-data NAME`` with the environment's
name as its value makes the data deletable, and with ``--destroy`` deletes it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from botocore.exceptions import BotoCoreError, ClientError

from infra import toolkit
from infra.env import Environment, WrongEnvironment
from infra.outputs import NotDeployed, environment, outputs
from infra.preflight import NotReady, ready
from shared.bootstrap.session import aws_session

NOT_DEPLOYED, CANNOT_START = 1, 2
FAILED_HINT = """
strata: the deployment failed; the lines above say what of. Nothing that holds data was deleted, and what CloudFormation
had changed it has put back. Mend the cause and run the same command again; docs/operations.md has the known causes."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.deploy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("env", nargs="?", default="", help="the environment's name in cdk.json")
    parser.add_argument("--destroy", action="store_true", help="take the API down; the data stays")
    parser.add_argument("--delete-data", metavar="NAME", help="the environment's name once more: its data may go")
    parser.add_argument("--yes", action="store_true", help="ask nothing, not even about wider permissions")
    asked = parser.parse_args(arguments)
    try:
        chosen = environment(asked.env)
        if asked.delete_data not in (None, chosen.name):
            raise WrongEnvironment(f"--delete-data {asked.delete_data}: say {chosen.name} to mean its data")
        session = aws_session()
        ready(session, chosen, destroying=asked.destroy)
        deletable = asked.delete_data is not None
        code = _destroy(chosen, deletable) if asked.destroy else _deploy(chosen, deletable, asked.yes)
        if code:
            print(FAILED_HINT, file=sys.stderr)
        elif not asked.destroy:
            address = outputs(session.create_client("cloudformation"), chosen.api_stack).get("Url")
            if address is None:
                # A stack that waits for somebody's yes has no outputs, and CDK calls that no error.
                print(f"strata: {chosen.api_stack} was not deployed", file=sys.stderr)
                return NOT_DEPLOYED
            print(f"ready: {address}\na first key: .venv/bin/python -m infra.admin_key --env {chosen.name}")
        return code
    except (WrongEnvironment, NotDeployed, NotReady, toolkit.ToolkitMissing) as error:
        print(f"strata: {error}", file=sys.stderr)
    except (BotoCoreError, ClientError) as error:
        print(f"strata: AWS could not be asked: {error}", file=sys.stderr)
    return CANNOT_START


def _context(chosen: Environment, deletable: bool) -> list[str]:
    return ["-c", f"env={chosen.name}", *(["-c", f"delete_data={chosen.name}"] if deletable else [])]


def _deploy(chosen: Environment, deletable: bool, unasked: bool) -> int:
    approval = ["--require-approval", "never"] if unasked else []
    return toolkit.run(["deploy", "--all", *approval, *_context(chosen, deletable)])


def _destroy(chosen: Environment, deletable: bool) -> int:
    stacks = ["--all"] if deletable else [chosen.api_stack]
    if deletable:
        # What is kept is written into the stack itself, which has to learn first that it may go.
        code = toolkit.run(["deploy", "--all", "--require-approval", "never", *_context(chosen, deletable)])
        if code:
            return code
    return toolkit.run(["destroy", "--force", *stacks, *_context(chosen, deletable)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
