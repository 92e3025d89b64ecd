"""API Gateway's HTTP API events (payload 2.0) and their answers, as the edge reads and writes them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.api.errors import body_of, headers_of, status_of
from shared.domain.errors import InvalidRequest, StrataError
from shared.usecases.services import Answer

Event = Mapping[str, Any]
LambdaReply = dict[str, Any]

JSON_TYPE = "application/json"
REPLACED = "\N{REPLACEMENT CHARACTER}".encode()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`headers` have lower-case names; `query` and `path` are decoded. `raw` is the body as it was sent."""

    id: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    path: Mapping[str, str]
    raw: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. A `str` body goes out as it is, under `content_type`; `status` None means the route's own.

    `code` is that of the error that the answer tells of, for the log and the metrics; None for a success.
    """

    body: Answer | list[Answer] | str
    status: int | None = None
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None


def request_id(event: Event) -> str:
    return str(event.get("requestContext", {}).get("requestId", ""))


def request_of(event: Event) -> HttpRequest:
    """Raises `InvalidRequest` when a body that says it is Base64 is not."""
    body = event.get("body") or ""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    try:
        raw = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode("utf-8")
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidRequest.field("body", "could not be decoded") from None
    if REPLACED in raw and headers.get("content-length", "").isdigit() and int(headers["content-length"]) != len(raw):
        # A gateway that takes a body for text puts this where bytes are no UTF-8. Such a request is refused like those
        # bytes, not stored as other text than was sent.
        raw = raw.replace(REPLACED, b"\xff")
    return HttpRequest(
        id=request_id(event),
        headers=headers,
        query=event.get("queryStringParameters") or {},
        path=event.get("pathParameters") or {},
        raw=raw,
    )


def wire(
    status: int, body: Answer | list[Answer] | str, content_type: str, headers: Mapping[str, str], id_: str
) -> LambdaReply:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return {
        "statusCode": status,
        "headers": {"Content-Type": content_type, **headers, "X-Request-Id": id_},
        "body": text,
        "isBase64Encoded": False,
    }


def error_wire(error: StrataError, id_: str) -> LambdaReply:
    return wire(status_of(error), body_of(error), JSON_TYPE, headers_of(error), id_)
