"""The HTTP API: the route table in front of the functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from infra.constructs.acknowledged import acknowledge
from infra.constructs.log_group import log_group
from infra.functions import UNROUTED
from shared.api.routes import ROUTES

if TYPE_CHECKING:
    from aws_cdk import aws_kms as kms

    from infra.env import Environment

REQUEST_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "X-API-Key",
    "X-Embedding-Model",
    "X-Goog-API-Key",
    "X-Memory-Key",
    "X-Session-ID",
)
ANSWER_HEADERS = ("Retry-After", "WWW-Authenticate", "X-Next-Cursor", "X-Request-Id")
ACCESS_LOG = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "route": "$context.routeKey",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "ms": "$context.responseLatency",
    "integrationMs": "$context.integrationLatency",
    "error": "$context.error.message",
    "integrationError": "$context.integrationErrorMessage",
}
"""Neither path nor query nor headers, which hold ids and keys, nor the caller's address."""


class HttpApi(Construct):
    """Every route of the table to its function, HEAD beside each GET, and all the rest to one that says so."""

    def __init__(
        self, scope: Construct, environment: Environment, targets: Mapping[str, lambda_.IFunction], key: kms.IKey
    ) -> None:
        super().__init__(scope, "Http")
        self.api = gateway.HttpApi(
            self,
            "Api",
            api_name=f"strata-{environment.name}",
            description=f"strata {environment.name}: an agent-memory vault",
            create_default_stage=False,
            cors_preflight=_cors(environment),
            default_integration=self._integration(UNROUTED, targets),
        )
        integrations = {name: self._integration(name, targets) for name in {route.folder for route in ROUTES}}
        for route in ROUTES:
            methods = [route.method, "HEAD"] if route.method == "GET" else [route.method]
            self.api.add_routes(
                path=route.path,
                methods=[gateway.HttpMethod(method) for method in methods],
                integration=integrations[route.folder],
            )
        self.stage = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(rate_limit=environment.rate, burst_limit=environment.burst),
        )
        described = self.stage.node.default_child
        assert isinstance(described, gateway.CfnStage)
        described.access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=log_group(self, "AccessLog", environment, "access", key).log_group_arn,
            format=json.dumps(ACCESS_LOG),
        )
        keys = "Keys, suffixes and scopes are checked by every function, whose errors say what is missing."
        acknowledge(self.api, {"AwsSolutions-APIG4": keys})

    @staticmethod
    def _integration(name: str, targets: Mapping[str, lambda_.IFunction]) -> HttpLambdaIntegration:
        return HttpLambdaIntegration(name, targets[name])


def _cors(environment: Environment) -> gateway.CorsPreflightOptions | None:
    """Keys travel in headers, never in cookies, so that any page may be let in."""
    if not environment.cors_origins:
        return None
    return gateway.CorsPreflightOptions(
        allow_origins=list(environment.cors_origins),
        allow_methods=[gateway.CorsHttpMethod(name) for name in ("GET", "HEAD", "POST", "DELETE")],
        allow_headers=list(REQUEST_HEADERS),
        expose_headers=list(ANSWER_HEADERS),
        max_age=Duration.hours(1),
    )
