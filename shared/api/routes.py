"""THE table: every endpoint once. Gateways, OpenAPI, the infrastructure and the scope tests are built from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal
from urllib.parse import unquote

from shared.domain.errors import MethodNotAllowed, NotFound

READ = "memories:read"
WRITE = "memories:write"
REFLECT = "memories:reflect"
DELETE = "memories:delete"
ADMIN = "keys:admin"

DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS = 1_000, 5_000

PUBLIC: frozenset[str] | None = None
"""The scopes of a route that needs no key. Written out, so that forgetting scopes cannot open a route."""


BY_TOOL: frozenset[str] = frozenset()
"""Of the route whose tools each have scopes of their own. Elsewhere it lets nobody in."""


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter. `schema` is its JSON schema."""

    name: str
    schema: Mapping[str, object]
    description: str


@dataclass(frozen=True, slots=True)
class Route:
    """One method and path. A caller needs every one of `scopes`; `PUBLIC` needs no key, `BY_TOOL` a key that is good.

    `folder` holds the handler: ``functions/<folder>/handler.py``. `success` is the status of a success. `content` is
    what a body may be: one JSON object, JSON lines, or nothing but the common fields.
    """

    name: str
    method: str
    path: str
    scopes: frozenset[str] | None
    success: int = 200
    content: Literal["json", "jsonl", "none"] = "json"
    query: tuple[Param, ...] = ()
    summary: str = ""

    @property
    def folder(self) -> str:
        return self.name


def _flag(name: str, description: str) -> Param:
    return Param(name, {"type": "string", "enum": ["true", "false"], "default": "false"}, description)


def _day(name: str, description: str) -> Param:
    return Param(name, {"type": "string", "format": "date"}, description)


def _needs(*scopes: str) -> frozenset[str]:
    return frozenset(scopes)


# RFC 9728: the metadata of a resource stands at its path below this one; clients try both.
_AUTH = "/.well-known/oauth-protected-resource"

ROUTES: tuple[Route, ...] = (
    Route("home", "GET", "/", PUBLIC, content="none", summary="What this server is"),
    Route("health", "GET", "/health", PUBLIC, content="none", summary="Whether the server answers"),
    Route("health", "GET", "/v1/health", PUBLIC, content="none", summary="Whether the server answers"),
    Route("openapi", "GET", "/openapi.json", PUBLIC, content="none", summary="This description"),
    Route("protected_resource", "GET", _AUTH, PUBLIC, content="none", summary="How to be let in to /mcp"),
    Route("protected_resource", "GET", f"{_AUTH}/mcp", PUBLIC, content="none", summary="How to be let in to /mcp"),
    Route("mcp", "POST", "/mcp", BY_TOOL, summary="The Model Context Protocol: the vault as tools for agents"),
    Route("keys_create", "POST", "/v1/keys", _needs(ADMIN), 201, summary="Mint a key; it is shown this once"),
    Route("keys_list", "GET", "/v1/keys", _needs(ADMIN), content="none", summary="Keys without their secrets"),
    Route("keys_delete", "DELETE", "/v1/keys/{key_id}", _needs(ADMIN), content="none", summary="Disable a key"),
    Route("ingest", "POST", "/v1/memory/ingest", _needs(WRITE), 202, summary="Store messages verbatim"),
    Route("upload", "POST", "/v1/memory/upload", _needs(WRITE), content="jsonl", summary="Store many memories"),
    Route("search", "POST", "/v1/memory/search", _needs(READ), summary="Find memories by relevance"),
    Route("prepare", "POST", "/v1/memory/prepare", _needs(READ), summary="Relevant memories as text for a prompt"),
    Route("date_search", "POST", "/v1/memory/date-search", _needs(READ), summary="Find memories by time"),
    Route("inspect", "POST", "/v1/memory/inspect", _needs(READ), summary="From a reflection to its sources"),
    Route(
        "checkout",
        "POST",
        "/v1/memory/consolidate/checkout",
        _needs(REFLECT),
        summary="Lease the oldest unconsolidated memories",
    ),
    Route("commit", "POST", "/v1/memory/consolidate/commit", _needs(REFLECT), summary="Store a batch's reflections"),
    Route("release", "POST", "/v1/memory/consolidate/release", _needs(REFLECT), summary="Give a lease back"),
    Route("renew", "POST", "/v1/memory/consolidate/renew", _needs(REFLECT), summary="Extend a lease, once"),
    Route("reopen", "POST", "/v1/memory/consolidate/reopen", _needs(REFLECT, DELETE), summary="Undo a consolidation"),
    Route(
        "import_vault",
        "POST",
        "/v1/memory/import",
        _needs(WRITE, DELETE),
        content="jsonl",
        query=(_flag("finish", "Whether this is the last page; then everything becomes visible."),),
        summary="Take exported lines back into an empty vault",
    ),
    Route("delete_ids", "POST", "/v1/memory/delete-ids", _needs(DELETE), summary="Delete memories by id"),
    Route(
        "delete_vault",
        "DELETE",
        "/v1/memory",
        _needs(DELETE),
        content="none",
        query=(_flag("reset", "Whether to unbind the embedding model too."),),
        summary="Empty the vault, or one session of it",
    ),
    Route(
        "export",
        "GET",
        "/v1/memory/export",
        _needs(READ),
        content="none",
        query=(
            Param("cursor", {"type": "string"}, "X-Next-Cursor of the page before."),
            Param(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_ROWS, "default": DEFAULT_PAGE_ROWS},
                "Rows of this page.",
            ),
        ),
        summary="Every live row, one JSON object a line",
    ),
    Route("stats", "GET", "/v1/memory/stats", _needs(READ), content="none", summary="What the vault holds"),
    Route(
        "warmup", "POST", "/v1/memory/warmup", _needs(READ), content="none", summary="Make the vault quick to search"
    ),
    Route(
        "usage",
        "GET",
        "/v1/account/usage",
        _needs(READ),
        content="none",
        query=(
            _day("start", "First day, by default 30 days ago."),
            _day("end", "Last day, by default today."),
        ),
        summary="Tokens by day and operation",
    ),
)


@cache
def named(name: str) -> Route:
    """The (first) route of that name."""
    return next(route for route in ROUTES if route.name == name)


def match(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The route of a request and its decoded path parameters. HEAD is answered by GET.

    Raises `NotFound` for an unknown path, `MethodNotAllowed` with ``allow`` in its `extra` for another method.
    """
    wanted = "GET" if method == "HEAD" else method
    allowed: set[str] = set()
    for route, pattern in _patterns():
        found = pattern.fullmatch(path)
        if found is None:
            continue
        if route.method == wanted:
            return route, {name: unquote(value) for name, value in found.groupdict().items()}
        allowed.add(route.method)
    if not allowed:
        raise NotFound("There is nothing at this path.", hint="GET /openapi.json lists every endpoint.")
    allow = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set()) | {"OPTIONS"}))
    raise MethodNotAllowed(f"This path does not take that method; it takes {allow}.", extra={"allow": allow})


@cache
def _patterns() -> tuple[tuple[Route, re.Pattern[str]], ...]:
    def pattern(path: str) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", path)
        return re.compile("".join(f"(?P<{part}>[^/]+)" if i % 2 else re.escape(part) for i, part in enumerate(parts)))

    return tuple((route, pattern(route.path)) for route in ROUTES)
