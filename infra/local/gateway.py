"""API Gateway and the change stream in one object without a socket: the local server and the tests run through it.

A request becomes the event that API Gateway's HTTP API would build, and goes through the same handler. What the
handler changed goes through the same indexer, before the answer leaves.
"""

from __future__ import annotations

import base64
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

from infra.local.worker import Worker
from shared.api.endpoint import Handler
from shared.api.http import LambdaReply
from shared.api.routes import Route, match
from shared.api.unrouted import refused
from shared.domain.errors import StrataError
from shared.usecases.services import Services

log = logging.getLogger("strata.gateway")

TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript")
Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Response:
    """`headers` hold everything but lengths and connection handling, which belong to the transport."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@cache
def handler_of(folder: str) -> Handler:
    handler: Handler = import_module(f"functions.{folder}.handler").handler
    return handler


class Gateway:
    """Answers requests. Safe to call from several threads.

    Without a `worker` what cannot be indexed before the answer waits for the next call that asks for it.
    """

    def __init__(self, services: Services, worker: Worker | None = None) -> None:
        self._services = services
        self._worker = worker or Worker(services)

    def handle(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Response:
        """`path` and `query` are still percent-encoded. Never raises.

        HEAD is answered as GET; leaving the body out is up to the transport.
        """
        id_ = str(uuid.uuid4())
        try:
            route, parameters = match(method, path)
        except StrataError as error:
            return _response(refused(method, error, id_))
        event = _event(id_, route, method, path, query, parameters, headers, body)
        reply = handler_of(route.folder)(event)
        for vault in self._services.feed.touched():
            self._worker.drain(vault)
        return _response(reply)


def _event(
    id_: str,
    route: Route,
    method: str,
    path: str,
    query: str,
    parameters: dict[str, str],
    headers: Headers,
    body: bytes,
) -> dict[str, Any]:
    joined: dict[str, str] = {}
    for spelled, value in headers:
        name = spelled.lower()
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    fields: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        fields[name] = f"{fields[name]},{value}" if name in fields else value
    text = _as_text(joined.get("content-type", ""), body)
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": f"{route.method} {route.path}",
        "rawPath": path,
        "rawQueryString": query,
        "headers": joined,
        "requestContext": {
            "requestId": id_,
            "stage": "$default",
            "timeEpoch": time.time_ns() // 1_000_000,
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1"},
        },
        "isBase64Encoded": text is None,
    }
    if fields:
        event["queryStringParameters"] = fields
    if parameters:
        event["pathParameters"] = parameters
    if body:
        event["body"] = base64.b64encode(body).decode("ascii") if text is None else text
    return event


def _as_text(content_type: str, body: bytes) -> str | None:
    """The body as API Gateway passes text on; None for what it passes on in Base64."""
    if not content_type.lower().startswith(TEXT_TYPES):
        return None
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _response(reply: LambdaReply) -> Response:
    body: str = reply["body"]
    headers = tuple((str(name), str(value)) for name, value in reply["headers"].items())
    return Response(reply["statusCode"], headers, body.encode("utf-8"))
