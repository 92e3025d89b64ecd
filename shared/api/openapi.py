"""The OpenAPI document, made from the route table and the request models when the project is built.

``python -m shared.api.openapi > functions/openapi/openapi.json``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from shared.api import answers, pages
from shared.api.errors import STATUS
from shared.api.jsonl import MAX_LINES
from shared.api.models.base import NoBody, Request
from shared.api.models.consolidation import BatchRequest, CheckoutRequest, CommitRequest
from shared.api.models.ingest import IngestRequest
from shared.api.models.keys import CreateKeyRequest, DeleteIdsRequest
from shared.api.models.retrieval import DateSearchRequest, InspectRequest, PrepareRequest, SearchRequest
from shared.api.routes import BY_TOOL, ROUTES, Route
from shared.usecases.ingest import MAX_IDEMPOTENCY_KEY_CHARACTERS

Schema = dict[str, Any]

BODIES: Mapping[str, type[Request]] = {
    "keys_create": CreateKeyRequest,
    "ingest": IngestRequest,
    "search": SearchRequest,
    "prepare": PrepareRequest,
    "date_search": DateSearchRequest,
    "inspect": InspectRequest,
    "checkout": CheckoutRequest,
    "commit": CommitRequest,
    "release": BatchRequest,
    "renew": BatchRequest,
    "reopen": BatchRequest,
    "delete_ids": DeleteIdsRequest,
}

EXAMPLES: Mapping[str, Schema] = {
    "keys_create": {"name": "notebook, read only", "scopes": ["memories:read"], "vault": "same"},
    "ingest": {
        "messages": [
            {"role": "user", "content": "We meet on Thursday at ten.", "timestamp": "2026-03-02T09:15:00Z"},
            {"role": "assistant", "content": "Noted: Thursday, ten o'clock."},
        ]
    },
    "search": {"query": "when do we meet?", "limit": 5},
    "prepare": {"messages": [{"role": "user", "content": "What is on this week?"}], "density": "low"},
    "date_search": {"from": "2026-03-01", "to": "2026-03-31", "order": "oldest_first"},
    "inspect": {"memory_id": "0199d1f0-0000-7000-8000-000000000001"},
    "checkout": {"tier": 1, "max_tokens": 20000},
    "commit": {
        "batch_id": "cb_0",
        "entries": [{"text": "Anna moved the weekly meeting to Thursday.", "importance": 6}],
    },
    "release": {"batch_id": "cb_0"},
    "renew": {"batch_id": "cb_0"},
    "reopen": {"batch_id": "cb_0"},
    "delete_ids": {"ids": ["0199d1f0-0000-7000-8000-000000000001"]},
}

LINES: Mapping[str, tuple[str, str]] = {
    "upload": (
        f"One JSON object a line, at most {MAX_LINES:,}: content, role?, timestamp?. The first bad line refuses all.",
        '{"content": "We meet on Thursday at ten.", "role": "user", "timestamp": "2026-03-02T09:15:00Z"}\n',
    ),
    "import_vault": ("Lines of an export, in the order they came.", ""),
}

RPC: Schema = {
    "type": "object",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
    },
    "required": ["jsonrpc"],
}
"""What every message of the Model Context Protocol has; its own schema describes the rest."""
RPC_REQUEST: Schema = {
    **RPC,
    "properties": {**RPC["properties"], "method": {"type": "string"}, "params": {"type": "object"}},
    "required": ["jsonrpc", "method"],
    "example": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search_memories", "arguments": {"query": "when do we meet?"}},
    },
}
RPC_STATUSES = (400, 401, 403, 404, 413, 415, 429, 500, 503)

MEANINGS: Mapping[int, str] = {
    400: "The request is malformed; `details` names every field.",
    401: "No memory key, an unknown or a deleted one.",
    403: "The key lacks a scope.",
    404: "Absent, or in another vault: the two look the same.",
    405: "The path does not take this method.",
    409: "The state of the vault refuses it; `code` says why.",
    413: "Larger than a request or a memory may be.",
    415: "The Content-Type is not taken here.",
    429: "Too much at once; Retry-After says when to come back.",
    500: "A fault of the server, with the request id.",
    503: "A part cannot answer now; Retry-After says when to come back.",
    507: "The vault is full.",
}

HEADERS: tuple[tuple[str, int, str], ...] = (
    ("X-Session-ID", 512, "A label on raw memories. A body's session_id wins."),
    (
        "X-Embedding-Model",
        128,
        "The embedding model that the vault is bound to, or is to be. A body's embeddings wins.",
    ),
)


REQUEST_ID: Schema = {"X-Request-Id": {"description": "Names this request in the log.", "schema": {"type": "string"}}}


def document() -> Schema:
    """The whole document."""
    used: list[type[BaseModel]] = [*dict.fromkeys(BODIES.values()), NoBody]
    _, definitions = models_json_schema(
        [(model, "validation") for model in used], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": pages.NAME, "version": pages.VERSION, "description": pages.SUMMARY},
        "paths": paths,
        "components": {
            "schemas": {**definitions["$defs"], **answers.SCHEMAS},
            "responses": {
                str(status): {
                    "description": meaning,
                    "headers": REQUEST_ID,
                    "content": {"application/json": {"schema": _ref("Error")}},
                }
                for status, meaning in MEANINGS.items()
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A memory key, mk_..., with its suffix."},
                "memoryKey": {"type": "apiKey", "in": "header", "name": "X-Memory-Key"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "googApiKey": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
            },
        },
    }


def _operation(route: Route) -> Schema:
    twice = sum(other.name == route.name for other in ROUTES) > 1
    operation: Schema = {
        "operationId": f"{route.name}_{route.path.strip('/').replace('/', '_')}" if twice else route.name,
        "summary": route.summary,
        "responses": _responses(route),
    }
    parameters: list[Schema] = [
        {"name": each.name, "in": "query", "schema": dict(each.schema), "description": each.description}
        for each in route.query
    ]
    parameters += [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in route.path.split("/")
        if part.startswith("{")
    ]
    if route.scopes is None:
        operation["security"] = []
    else:
        scopes = ", ".join(f"`{scope}`" for scope in sorted(route.scopes)) or "those of the tool"
        operation["description"] = f"Scopes: {scopes}."
        operation["security"] = [{"bearer": []}, {"memoryKey": []}, {"apiKey": []}, {"googApiKey": []}]
        parameters += [
            {"name": name, "in": "header", "schema": {"type": "string", "maxLength": most}, "description": description}
            for name, most, description in HEADERS
        ]
    if route.name == "ingest":
        key = {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_CHARACTERS}
        description = "A retry with the same key and body stores nothing twice."
        parameters.append({"name": "Idempotency-Key", "in": "header", "schema": key, "description": description})
    if parameters:
        operation["parameters"] = parameters
    if route.name in LINES:
        operation["requestBody"] = _lines(route)
    elif route.scopes is BY_TOOL:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": RPC_REQUEST}}}
    elif route.name in BODIES:
        operation["requestBody"] = {
            "required": not BODIES[route.name].may_be_empty,
            "content": {
                "application/json": {"schema": _ref(BODIES[route.name].__name__), "example": EXAMPLES[route.name]}
            },
        }
    elif route.method == "POST":
        operation["requestBody"] = {"required": False, "content": {"application/json": {"schema": _ref("NoBody")}}}
    return operation


def _lines(route: Route) -> Schema:
    description, example = LINES[route.name]
    content: Schema = {"schema": {"type": "string"}}
    if example:
        content["example"] = example
    return {
        "required": route.name == "upload",
        "description": description,
        "content": dict.fromkeys(("application/x-ndjson", "text/plain"), content),
    }


def _responses(route: Route) -> Schema:
    success: Schema = {"description": "Success.", "headers": REQUEST_ID}
    if route.name == "export":
        success["content"] = {"application/x-ndjson": {"schema": {"type": "string"}}}
        cursor = {"description": "Present while rows remain.", "schema": {"type": "string"}}
        success["headers"] = {**REQUEST_ID, "X-Next-Cursor": cursor}
    else:
        success["content"] = {"application/json": {"schema": _ref(answers.OF_ROUTE.get(route.name, "Anything"))}}
    if route.name == "home":
        success["content"]["text/html"] = {"schema": {"type": "string"}}
    if route.scopes is BY_TOOL:
        message = {"headers": REQUEST_ID, "content": _json(RPC)}
        taken = {"description": "A notification was taken.", "headers": REQUEST_ID}
        told = {str(status): {"description": MEANINGS[status], **message} for status in RPC_STATUSES}
        either = {"anyOf": [RPC, {"type": "array", "items": RPC}]}
        told["200"] = {**message, "description": "A response, or those to a batch.", "content": _json(either)}
        return {"202": taken, **told}
    responses: Schema = {str(route.success): success}
    for status in _errors(route):
        responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return responses


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _errors(route: Route) -> list[int]:
    if route.scopes is None:
        return [500, 503]
    # 405 is the path's answer to other methods, never this operation's.
    return sorted({status for _, status in STATUS} - {405} | {500})


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def as_text() -> str:
    return json.dumps(document(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_text())
