"""What a client that was refused may learn: which scopes are missing, and where tokens for this server come from.

Source: RFC 9728 (protected resource metadata) and RFC 6750 (bearer challenges). This server takes memory keys only; an
OAuth server stands before it where the operator names one, and hands it the key of whoever signed in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared.api.http import HttpRequest, Reply
from shared.api.routes import DELETE, READ, REFLECT, WRITE, named
from shared.domain.errors import InsufficientScope, StrataError, Unauthorized
from shared.usecases.services import Answer, Policy, Services

WELL_KNOWN, ENDPOINT = named("protected_resource").path, named("mcp").path
SCOPES = (READ, WRITE, REFLECT, DELETE)
FIRST_SCOPES = (READ, WRITE, REFLECT)
"""What an agent asks for to begin with; deleting is asked for when it is wanted."""

_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")


def protected_resource(http: HttpRequest, services: Services) -> Reply:
    """The metadata document of the endpoint."""
    document: Answer = {
        "resource": base(http.headers, services.policy) + ENDPOINT,
        "resource_name": "strata memory vault",
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
    }
    if services.policy.authorization_server is not None:
        document["authorization_servers"] = [services.policy.authorization_server]
    return Reply(document)


def challenge(headers: Mapping[str, str], policy: Policy, error: StrataError) -> dict[str, str]:
    """``WWW-Authenticate`` for a caller without a good key or without a scope."""
    where = f'resource_metadata="{base(headers, policy)}{WELL_KNOWN}{ENDPOINT}"'
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": f'Bearer {where}, scope="{" ".join(FIRST_SCOPES)}"'}
    missing = error.extra.get("missing")
    if isinstance(error, InsufficientScope) and isinstance(missing, list):
        scopes = " ".join(map(str, missing))
        return {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scopes}", {where}'}
    return {}


def base(headers: Mapping[str, str], policy: Policy) -> str:
    """The address that clients reach this server at: the operator's, else what the request was sent to."""
    if policy.public_url is not None:
        return policy.public_url
    host = headers.get("host", "")
    scheme = "https" if headers.get("x-forwarded-proto", "").lower() == "https" else "http"
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else ""
