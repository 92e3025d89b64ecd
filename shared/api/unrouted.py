"""The answer to a request that no route takes."""

from __future__ import annotations

from shared.api.http import Event, LambdaReply, error_wire, request_id
from shared.api.routes import match
from shared.domain.errors import MethodNotAllowed, NotFound, StrataError


def unrouted(event: Event) -> LambdaReply:
    """404, or 405 with what the path takes; OPTIONS of a path that exists is answered with that."""
    method = str(event.get("requestContext", {}).get("http", {}).get("method", ""))
    try:
        match(method, str(event.get("rawPath", "")))
    except StrataError as error:
        return refused(method, error, request_id(event))
    return error_wire(NotFound("There is nothing at this path."), request_id(event))


def refused(method: str, error: StrataError, id_: str) -> LambdaReply:
    """The answer where `match` raised."""
    if method == "OPTIONS" and isinstance(error, MethodNotAllowed):
        headers = {"Allow": str(error.extra["allow"]), "X-Request-Id": id_}
        return {"statusCode": 204, "headers": headers, "body": "", "isBase64Encoded": False}
    return error_wire(error, id_)
