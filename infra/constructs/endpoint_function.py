"""One function of the table, with everything that it alone needs: a role, a log group, its zip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.constructs.acknowledged import acknowledge, acknowledge_stars
from infra.constructs.log_group import log_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aws_cdk import aws_kms as kms

    from infra.env import Environment
    from infra.functions import Function


class EndpointFunction(Construct):
    """A Lambda that may do what `statements` say and write its own log, nothing else.

    `target` is what callers invoke: the function, or where SnapStart is on, an alias of its published version.
    """

    def __init__(
        self,
        scope: Construct,
        function: Function,
        *,
        environment: Environment,
        code: lambda_.Code,
        variables: Mapping[str, str],
        statements: Sequence[iam.PolicyStatement],
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, _pascal(function.name))
        logs = log_group(self, "Log", environment, function.name, key)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"strata {environment.name}: what the function {function.name} may do",
        )
        logs.grant_write(role)
        for statement in statements:
            role.add_to_policy(statement)
        acknowledge_stars(role, statements, "Indexes of every model and layout have names that begin alike.")
        snap = lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if environment.snap_start else None
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=f"strata-{environment.name}-{function.name.replace('_', '-')}",
            description=f"strata {environment.name}: {function.name}",
            handler=function.handler,
            runtime=lambda_.Runtime(
                f"python{environment.python}", lambda_.RuntimeFamily.PYTHON, supports_snap_start=True
            ),
            architecture=_ARCHITECTURES[environment.processor],
            code=code,
            memory_size=function.memory,
            timeout=Duration.seconds(function.seconds),
            environment=dict(variables),
            role=role,
            log_group=logs,
            logging_format=lambda_.LoggingFormat.JSON,
            # Of its own the platform says only what went wrong: three lines a request cost more than the request.
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            # The code leaves out what STRATA_LOG_LEVEL says; a line without a level, such as a metric, counts as INFO.
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            snap_start=snap,
        )
        acknowledge(
            self.function, {"AwsSolutions-L1": "The runtime is a setting; a new one is taken once it was tested."}
        )
        self.role = role
        self.target: lambda_.IFunction = self.function.add_alias("live") if environment.snap_start else self.function


_ARCHITECTURES = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
